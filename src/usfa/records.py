"""Frozen dataclasses to JSON and back, checked on the way in."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from usfa.errors import InputError

__all__ = ["from_json", "to_json"]

Record = TypeVar("Record")


def to_json(record: object) -> Any:
    """Plain dicts, lists, strings and numbers."""
    return msgspec.to_builtins(record)


def from_json(kind: type[Record], value: Any, source: str) -> Record:
    """A dataclass from what :func:`to_json` gave; InputError names the field that does not fit.

    Args:
        kind: the dataclass.
        value: plain dicts and lists.
        source: what to call the value in an error, such as a file's path.
    """
    try:
        record = msgspec.convert(value, type=kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{source} does not describe a {kind.__name__}: {error}.") from error
    unknown = _unknown_keys(value, to_json(record))
    if unknown:
        raise InputError(f"{source} has the unknown field {unknown[0]!r} for a {kind.__name__}.")
    return record


def _unknown_keys(given: Any, understood: Any) -> list[str]:
    if isinstance(given, list | tuple) and isinstance(understood, list | tuple):
        return [name for pair in zip(given, understood, strict=True) for name in _unknown_keys(*pair)]
    if not (isinstance(given, dict) and isinstance(understood, dict)):
        return []
    unknown = [key for key in given if key not in understood]
    return unknown + [name for key in understood.keys() & given for name in _unknown_keys(given[key], understood[key])]

"""Convert frozen dataclasses to JSON and back, with validation."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from usfa.errors import InputError

__all__ = ["from_json", "to_json"]

Record = TypeVar("Record")


def to_json(record: object) -> Any:
    """Convert a dataclass to plain dicts, lists, strings and numbers."""
    return msgspec.to_builtins(record)


def from_json(kind: type[Record], value: Any, source: str) -> Record:
    """Make a dataclass from the output of :func:`to_json`; raise InputError that names an invalid field.

    Args:
        kind: the dataclass.
        value: plain dicts and lists.
        source: name of the value in errors, such as the path of a file.
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

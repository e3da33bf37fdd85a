"""Frozen dataclasses of settings: conversion of values to their declared types, to JSON, and back."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from usfa.errors import InputError

__all__ = ["from_json", "settle", "to_json"]

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


# --- values as the user gives them ---


def settle(record: Any, inside: str = "") -> None:
    """Convert the values of a frozen dataclass to their declared types, so that they survive JSON unchanged.

    Lists, ranges and arrays become tuples. NumPy numbers become Python numbers, and 1e6 becomes 1000000 where an int is
    declared. A single text becomes a tuple where several are declared. Everything else, such as infinity, raises
    InputError. Call this function in `__post_init__`.

    Args:
        record: the dataclass.
        inside: prefix of the names of settings in errors, such as "learner.".
    """
    for name, kind in _kinds(record.__class__).items():
        value = getattr(record, name)
        try:
            object.__setattr__(record, name, _settled(value, kind))
        except _Unfit:
            text = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."
            raise InputError(f"{inside}{name} is {text}; expected {_described(kind)}.") from None


class _Unfit(Exception):
    """The value cannot be converted to the kind."""


@lru_cache
def _kinds(record: Any) -> dict[str, Any]:
    """Declared types of the fields of a dataclass."""
    return get_type_hints(record)


def _settled(value: Any, kind: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    origin = get_origin(kind)
    if origin is Literal:
        return _checked(value, value in get_args(kind))
    if origin in (Union, types.UnionType):
        return _one_of(value, get_args(kind))
    if origin is tuple:
        return _tuple(value, get_args(kind))
    if origin is not None and issubclass(origin, Mapping):
        of_keys, of_values = get_args(kind)
        _checked(value, isinstance(value, Mapping))
        return {_settled(key, of_keys): _settled(own, of_values) for key, own in value.items()}
    if kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return float(_checked(value, number))
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind is str and isinstance(value, str):
        return str(value)  # converts subclasses of str
    return _checked(
        value, type(value) is kind or (isinstance(kind, type) and is_dataclass(kind) and isinstance(value, kind))
    )


def _checked(value: Any, fits: bool) -> Any:
    if not fits:
        raise _Unfit
    return value


def _one_of(value: Any, kinds: tuple[Any, ...]) -> Any:
    """Convert to the kind that the value already has, or else to the first that fits."""
    for kind in sorted(kinds, key=lambda kind: type(value) is not kind):
        try:
            return _settled(value, kind)
        except _Unfit:
            continue
    raise _Unfit


def _tuple(value: Any, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, str) and kinds == (str, ...):
        value = (value,)
    _checked(value, isinstance(value, list | tuple | range))
    if kinds[1:] == (...,):
        return tuple(_settled(entry, kinds[0]) for entry in value)
    _checked(value, len(value) == len(kinds))
    return tuple(_settled(entry, kind) for entry, kind in zip(value, kinds, strict=True))


_WORDS = {int: "a whole number", float: "a finite number", str: "a text", bool: "True or False", type(None): "None"}
_PLURALS = {int: "whole numbers", float: "finite numbers", str: "texts"}


def _described(kind: Any) -> str:
    """A kind in words, for errors."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in _WORDS:
        return _WORDS[kind]
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_described, inner)))
    if origin is tuple:
        several = inner[1:] == (...,)
        return f"a tuple of {len(inner)} numbers" if not several else f"a tuple of {_plural(inner[0])}"
    if origin is not None:
        return f"a dict whose values are {_described(inner[1])}"
    return f"a {kind.__name__}"


def _plural(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"tuples of {'' if get_args(kind)[1:] == (...,) else len(get_args(kind))} numbers".replace("  ", " ")
    return _PLURALS.get(kind, f"{getattr(kind, '__name__', kind)}s")

"""Tasks w: parsing and formatting, the paper's task sets, and preferences on the simplex."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usfa.errors import InputError, counted, unknown_name

__all__ = [
    "SPREAD_SETS",
    "TASKS_OF_M",
    "TASK_SETS",
    "describe_task",
    "format_task",
    "lengths",
    "moderate",
    "parse_task",
    "parse_tasks",
    "shown",
    "simplex_lattice",
    "spread_over_simplex",
    "task_set",
]

Array = NDArray[np.float64]

TASKS_OF_M = ("resampled", "fixed")
"""Values of `LearnerConfig.tasks` that assign tasks of M: a new one for each trajectory, or a fixed one."""

_SHORTHAND = re.compile(r"(?:-?\d)+")
_EXACT = 2**53  # a larger whole number has more digits than a float holds: 1e39 would be written with 40 digits


# --- parsing and formatting ---


def parse_task(task: str | ArrayLike, features: int | None = None) -> Array:
    """Parse a task vector [D] from numbers, from "1,-1,0,0", or from the paper's shorthand "1-100".

    Args:
        task: the vector or its text.
        features: D, if it is known; raises InputError for another length.
    """
    w = _parse_text(task, features) if isinstance(task, str) else _as_vector(task)
    if not np.isfinite(w).all():
        raise InputError(f"Task {shown(task)} holds NaN or infinity; expected finite numbers.")
    if features is not None and len(w) != features:
        raise InputError(
            f"Task {shown(task)} has {counted(len(w), 'entry', 'entries')}; expected {features}, one per feature."
        )
    if abs(w).max() > _LARGEST_ENTRY:
        raise InputError(f"Task {shown(task)} has an entry of {abs(w).max():g}; expected at most {_LARGEST_ENTRY:g}.")
    return w


def _as_vector(task: ArrayLike) -> Array:
    try:
        w = np.asarray(task, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"Task {shown(task)} is not a vector of numbers, such as [1, -1, 0, 0].") from None
    if w.ndim != 1 or not w.size:
        raise InputError(f"Task {shown(task)} has shape {w.shape}; expected a vector, such as [1, -1, 0, 0].")
    return w


def _parse_text(text: str, features: int | None) -> Array:
    stripped = text.strip().removeprefix("[").removesuffix("]").strip()
    if features != 1 and _SHORTHAND.fullmatch(stripped):
        return np.array([float(digit) for digit in re.findall(r"-?\d", stripped)])
    try:
        return np.array([float(entry) for entry in stripped.split(",")])
    except ValueError:
        raise InputError(f"Task {shown(text)} is not a vector; expected numbers as in '1,-1,0,0' or '1-100'.") from None


def shown(task: object) -> str:
    """The text of a user's value, shortened for error messages."""
    text = repr(task) if isinstance(task, str) else str(task)
    return text if len(text) <= 80 else text[:77] + "..."


def parse_tasks(tasks: str | ArrayLike, features: int | None = None) -> Array:
    """Parse tasks [K, D]: the name of a set in TASK_SETS or SPREAD_SETS, texts separated by ";", or numbers."""
    if isinstance(tasks, str):
        if tasks.partition(":")[0] in _SPREAD_KINDS:
            return _stack([parse_task(w, features) for w in _spread_set(tasks, features)])
        if tasks in TASK_SETS:
            return _stack([parse_task(w, features) for w in task_set(tasks)])
        if re.fullmatch(r"[A-Za-z][\w-]*", tasks) and tasks.lower() not in {"nan", "inf", "infinity"}:
            raise unknown_name("task set", tasks, TASK_SETS)
        return _stack([parse_task(part, features) for part in tasks.split(";")])
    try:
        rows = [parse_task(w, features) for w in tasks]  # type: ignore[union-attr]
    except TypeError:
        rows = []
    if not rows:
        raise InputError(f"The tasks {shown(tasks)} are not a list of vectors with at least one.")
    return _stack(rows)


def _stack(tasks: list[Array]) -> Array:
    lengths = sorted({len(w) for w in tasks})
    if len(lengths) > 1:
        raise InputError(f"The tasks have {lengths[0]} and {lengths[1]} entries; expected one length for all.")
    return np.stack(tasks)


def format_task(w: ArrayLike) -> str:
    """The shortest text that :func:`parse_task` parses to the same task: "1-100" if possible, otherwise "0.9,0.1"."""
    entries = np.asarray(w, dtype=np.float64)
    digits = np.rint(entries)
    if len(entries) > 1 and (digits == entries).all() and (abs(digits) <= 9).all():
        return "".join(str(int(digit)) for digit in digits)
    if len(entries) == 1 and abs(entries[0]) > 9:
        return repr(float(entries[0]))  # "10" would be parsed as the shorthand for [1, 0]
    return ",".join(str(int(x)) if x == int(x) and abs(x) < _EXACT else repr(float(x)) for x in entries)


def describe_task(w: ArrayLike, names: Sequence[str]) -> str:
    """A task in words, positive entries first: "ball + 0.5 hat − tv"; a factor of 1 is omitted."""
    entries = [(float(value), name) for value, name in zip(np.asarray(w, np.float64), names, strict=True) if value]
    signed = sorted(entries, key=lambda entry: entry[0] < 0)
    sizes = ("" if abs(value) == 1 else f"{abs(value):g} " for value, _ in signed)
    terms = [f"{'+' if value > 0 else '−'} {size}{name}" for (value, name), size in zip(signed, sizes, strict=True)]
    return " ".join(terms).removeprefix("+ ") or "nothing"


# --- lengths ---

_LARGEST_ENTRY = 1e200  # returns of larger tasks would overflow
_MODERATE = (1e-6, 1e6)


def lengths(w: Array) -> Array:
    """Euclidean lengths of tasks [..., D], without overflow, [..., 1]."""
    largest = abs(w).max(axis=-1, keepdims=True)
    return largest * np.linalg.norm(w / np.where(largest > 0, largest, 1.0), axis=-1, keepdims=True)


def moderate(w: Array) -> tuple[Array, Array]:
    """Scale tasks [..., D] to lengths that single precision can hold; also return the factors [..., 1] back to w.

    Only the direction of a task affects decisions. Lengths from 1e-6 to 1e6 stay as they are, to the bit.
    """
    low, high = _MODERATE
    length = lengths(w)
    factor = np.where(((length < low) | (length > high)) & (length > 0), length, 1.0)
    return w / factor, factor


# --- named sets ---

_QUARTER = np.pi * np.arange(51) / 100

TASK_SETS: dict[str, Array] = {
    "trip-train": np.array([[1.0, 0.0], [0.0, 1.0]]),
    # Rounded, so that the ends are exactly 10 and 01.
    "trip-directions": np.stack([np.cos(_QUARTER), np.sin(_QUARTER)], axis=-1).round(15),
    "trip-diagonal": np.repeat(np.arange(51)[:, None] / 50, 2, axis=1),
    "one-state-train": np.array([[2.0], [1.0], [-1.0]]),
    "room-train": np.eye(4),
    "room-train-large": np.stack(
        [parse_task(w) for w in ("1000", "0100", "0010", "0001", "1-100", "01-10", "001-1", "-1000")]
    ),
    "room-easy": np.array(
        [[0, 0, 0.9, 0.1], [0, 0.9, 0, 0.1], [0, 0.7, 0.2, 0.1], [0, 0.1, -0.1, 0.8], [0, 0, -0.1, 1.0]]
    ),
    "room-hard": np.stack(
        [parse_task(w) for w in ("1100", "0111", "1111", "-1-100", "-1100", "-1101", "-11-10", "-11-11")]
    ),
    # Not in the paper: for choosing settings. Contains no task of M or M', nor a permutation of one.
    "room-validation": np.array(
        [
            [1, 0.5, 0, 0],  # positive entries
            [0.5, 0, 1, 0.5],
            [0.5, 1, 0.5, 1],
            [1, 0.5, -0.5, 0],  # positive and negative entries
            [-1, 0.5, 0, 1],
            [0, -0.5, 1, 0],
            [0.5, 0, 0, -1],
            [-0.5, 1, -1, 0],
            [1, -0.5, 0.5, -1],
            [0.5, 1, -1, 1],
            [1, 1, 1, -1],
            [-1, -1, 1, -1],
            [-1, -0.5, 0, 0],  # negative entries
            [-0.5, -1, -1, -0.5],
            [-1, -1, -1, 0],
            [-1, -1, -1, -1],
        ]
    ),
}
"""The training sets M (…-train) and the test sets M' of Sections 4.1-4.3 and Appendices A, B and D, each [K, D]."""


def task_set(name: str) -> Array:
    """Copy one of the paper's sets [K, D]."""
    if name not in TASK_SETS:
        raise unknown_name("task set", name, TASK_SETS)
    return TASK_SETS[name].copy()


# --- preferences: tasks on the simplex, non-negative entries with sum 1 ---

SPREAD_SETS: dict[str, str] = {
    "corners": "the D tasks with a single 1",
    "simplex:N": "N preferences spread evenly over the simplex",
    "lattice:H": "all preferences whose entries are multiples of 1/H",
}
"""Sets for any number of features D. Append D where it is not known: corners:3, simplex:100,3, lattice:12,3."""

_SPREAD_KINDS = {"corners": "corners:D", "simplex": "simplex:N,D (both from 2)", "lattice": "lattice:H,D"}
_MOST = 100_000


def spread_over_simplex(count: int, features: int) -> Array:
    """N preferences [N, D] that cover the simplex evenly.

    For D = 2 they are (1, 0), …, (0, 1) in equal steps. For D > 2 they are a low-discrepancy sequence: multiples of
    powers of the generalised golden ratio (the root of x^D = x + 1) modulo 1, mapped to the simplex by the inverse
    distribution function of its uniform distribution. Means over them approximate means over all preferences, so
    corners and edges are not overrepresented.
    """
    if features == 2:
        steps = np.arange(count) / (count - 1)
        return np.stack([steps[::-1], steps], axis=-1)
    ratio = 2.0
    for _ in range(60):
        ratio = (1 + ratio) ** (1 / features)
    index, power = np.arange(1, count + 1)[:, None], np.arange(1, features)
    u = (0.5 + index * ratio**-power) % 1  # [N, D - 1]
    rest = np.cumprod(u ** (1 / (features - power)), axis=1)  # remainder after each entry
    return -np.diff(rest, axis=1, prepend=1.0, append=0.0)


def simplex_lattice(divisions: int, features: int) -> Array:
    """All preferences [K, D] whose entries are multiples of 1/H, from (1, 0, …) to (…, 0, 1) (Das and Dennis 1998)."""
    places = divisions + features - 1  # H balls and D - 1 bars between them
    bars = np.array(list(combinations(range(places), features - 1)), np.int64)
    balls: NDArray[np.int64] = np.diff(bars, axis=1, prepend=-1, append=places) - 1
    return balls[::-1] / divisions


def _spread_set(text: str, features: int | None) -> Array:
    kind, _, arguments = text.partition(":")
    numbers = [int(x) if x.isdecimal() else 0 for x in arguments.split(",")] if arguments else []
    if features is not None and len(numbers) == (0 if kind == "corners" else 1):
        numbers.append(features)
    match kind, numbers:
        case "corners", [dimensions] if 1 <= dimensions <= 1000:
            return np.eye(dimensions)
        case "simplex", [count, dimensions] if 2 <= dimensions <= 1000 and 2 <= count <= _MOST:
            return spread_over_simplex(count, dimensions)
        case "lattice", [divisions, dimensions] if 1 <= divisions <= _MOST and 1 <= dimensions <= 1000:
            if comb(divisions + dimensions - 1, dimensions - 1) <= _MOST:
                return simplex_lattice(divisions, dimensions)
    where = "where D is the number of features" if features is None else f"where D = {features} may be left out"
    raise InputError(f"The task set is {text!r}; expected {_SPREAD_KINDS[kind]} with at most {_MOST} tasks, {where}.")

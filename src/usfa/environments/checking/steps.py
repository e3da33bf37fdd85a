"""What can be wrong with a single step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from usfa.environments.checking.declared import Declared
from usfa.environments.checking.findings import Broken, Finding, error, note, warning
from usfa.environments.checking.walking import Moment
from usfa.errors import InputError, told

__all__ = ["changed_later", "endings", "features", "observation", "same"]

LARGE = 100.0


def observation(declared: Declared, seen: Any) -> Iterator[Finding]:
    """Is the observation what `observation_space` says?"""
    try:
        encoded = declared.observation.encode_one(seen)
    except InputError as problem:
        raise Broken(
            "observation",
            f"{told(problem)}, as observation_space says: return such an observation or correct the space.",
        ) from problem
    if not np.isfinite(encoded).all():
        yield error("observation-finite", "An observation held NaN or infinity: find where it comes from.")
        return
    for space, values in _boxes(declared.observation_space, seen):
        yield from _of_type(space, values)
        yield from _within("observation", space, values)
    if not declared.observation.is_image and abs(encoded).max() > LARGE:
        yield note(
            "observation-scale",
            f"An entry of the observation was {abs(encoded).max():g}: networks learn best from numbers about 1.",
        )


def _boxes(space: gym.Space[Any], seen: Any) -> Iterator[tuple[gym.spaces.Box, NDArray[Any]]]:
    """Every Box in a space, with what was seen of it."""
    match space:
        case gym.spaces.Box():
            yield space, np.asarray(seen)
        case gym.spaces.Dict():
            for key, part in space.spaces.items():
                yield from _boxes(part, seen[key])
        case gym.spaces.Tuple():
            for part, value in zip(space.spaces, seen, strict=True):
                yield from _boxes(part, value)


def _of_type(space: gym.spaces.Box, seen: NDArray[Any]) -> Iterator[Finding]:
    if seen.dtype != space.dtype:
        yield note(
            "observation-type",
            f"Observations are of {seen.dtype}, their space of {space.dtype}: fine here, but other libraries want them "
            "alike.",
        )


def _within(name: str, space: gym.spaces.Box, seen: NDArray[Any]) -> Iterator[Finding]:
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    slack = 1e-6 * np.maximum(1.0, np.maximum(abs(low), abs(high)))
    slack[~np.isfinite(slack)] = 0.0
    outside = (seen < low - slack) | (seen > high + slack)
    if outside.any():
        value, least, most = (float(x[outside][0]) for x in (seen, low, high))
        yield warning(
            f"{name}-bounds",
            f"An entry of {name} was {value:g}, outside of {least:g} to {most:g} of its space: widen the space.",
        )


def features(space: gym.spaces.Box, reward: Any) -> Iterator[Finding]:
    """Is the reward φ: D finite numbers within `reward_space`?"""
    try:
        phi = np.array(reward, dtype=np.float64)
    except (TypeError, ValueError):
        phi = np.zeros(())
    if phi.shape != space.shape:
        yield error(
            "phi",
            f"The reward was {reward!r}, and reward_space has the shape {space.shape}: return φ with {space.shape[0]} "
            "numbers, or correct reward_space.",
        )
    elif not np.isfinite(phi).all():
        yield error("phi-finite", f"φ was {reward!r}: find where NaN or infinity come from.")
    else:
        yield from _finite_features(space, reward, phi)


def _finite_features(space: gym.spaces.Box, reward: Any, phi: NDArray[np.float64]) -> Iterator[Finding]:
    if not isinstance(reward, np.ndarray):
        yield note(
            "phi-type", f"φ is a {type(reward).__name__}: fine here, but other libraries want an array, np.array(φ)."
        )
    yield from _within("phi", space, phi)
    if abs(phi).max() > LARGE:
        yield note(
            "phi-scale",
            f"An entry of φ was {phi[abs(phi).argmax()]:g}: divide it, so that returns are about 1 to 100, or learning "
            "may diverge.",
        )


def endings(moment: Moment) -> Iterator[Finding]:
    """Are terminated and truncated yes or no?"""
    for name in ("terminated", "truncated"):
        flag = getattr(moment, name)
        if isinstance(flag, bool | np.bool_):
            continue
        sentence = f"{name} was {flag!r} of type {type(flag).__name__}: return bool({name})."
        if not isinstance(flag, int | float | np.number):
            raise Broken("endings", sentence)
        yield warning("endings", sentence)


def changed_later(name: str, returned: Any, copy: Any) -> Iterator[Finding]:
    """Is what an earlier step returned still what it was?"""
    if not same(returned, copy):
        yield warning(
            f"{name}-copy",
            f"The {name} of one step was changed by the next: return a copy, {name}.copy(), as not everyone makes one.",
        )


def same(one: Any, other: Any) -> bool:
    """Equal in every entry, and in every part of a dict or tuple; NaN is NaN."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    a, b = np.asarray(one), np.asarray(other)
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f" and b.dtype.kind == "f")

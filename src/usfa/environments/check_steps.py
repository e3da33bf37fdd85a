"""Checks of an environment's spaces and single steps, for :func:`usfa.environments.check_environment`.

The environment may raise or return anything: `begin` and `act` return a :class:`Moment` of the right form, or raise
:class:`FatalFinding`, which ends the check.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from usfa.environments.batch import LARGEST_PHI, Environment, real_numbers
from usfa.environments.spaces import ObservationSpec, action_count, feature_count
from usfa.errors import InputError, told

__all__ = [
    "Declared",
    "FatalFinding",
    "Finding",
    "Moment",
    "Severity",
    "act",
    "begin",
    "check_copy",
    "check_endings",
    "check_features",
    "check_observation",
    "check_spaces",
    "error",
    "legal_actions",
    "note",
    "same",
    "walk",
    "warning",
]

LARGE = 100.0  # entries of observations and φ above this get a note

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One result of a check."""

    severity: Severity
    """An error keeps an agent from learning; a warning makes results doubtful; a note is good to know."""
    check: str
    """Name of the check, such as "seeding"."""
    sentence: str
    """The finding and its remedy."""


error: Callable[[str, str], Finding] = partial(Finding, "error")
warning: Callable[[str, str], Finding] = partial(Finding, "warning")
note: Callable[[str, str], Finding] = partial(Finding, "note")


class FatalFinding(Exception):
    """An error after which nothing more can be checked."""

    def __init__(self, check: str, sentence: str) -> None:
        super().__init__(sentence)
        self.finding = error(check, sentence)


# --- spaces ---


@dataclass(frozen=True)
class Declared:
    """The spaces that steps are compared with."""

    observation_space: gym.Space[Any]
    observation: ObservationSpec
    actions: int
    reward_space: gym.spaces.Box | None  # None if it is missing or unsuitable


def check_spaces(env: Environment) -> Generator[Finding, None, Declared]:
    """Check the three spaces and return them; fatal if an agent cannot observe or act."""
    observation, actions = _observation(env), _actions(env)
    space = env.get_wrapper_attr("reward_space") if env.has_wrapper_attr("reward_space") else None
    try:
        features = feature_count(env)
    except InputError:
        yield error(
            "reward-space",
            f"reward_space is {space}: set self.reward_space = gymnasium.spaces.Box(low, high, (D,)) and return φ as "
            'the reward, or say where φ is: phi="info" for info["vector_reward"], or a function of the transition.',
        )
        return Declared(env.observation_space, observation, actions, None)
    yield note(
        "spaces", f"Observations: {observation.describe()}; A = {actions} actions, D = {features} features of φ."
    )
    return Declared(env.observation_space, observation, actions, space)


def _observation(env: Environment) -> ObservationSpec:
    space = getattr(env, "observation_space", None)
    if not isinstance(space, gym.Space):
        raise FatalFinding(
            "observation-space", f"observation_space is {space!r}; set it to a space of gymnasium.spaces."
        )
    try:
        return ObservationSpec.of(space)
    except InputError as problem:
        raise FatalFinding("observation-space", str(problem)) from problem


def _actions(env: Environment) -> int:
    space = getattr(env, "action_space", None)
    if not isinstance(space, gym.Space):
        raise FatalFinding("action-space", f"action_space is {space!r}; set it to gymnasium.spaces.Discrete(A).")
    try:
        return action_count(env)
    except InputError as problem:
        raise FatalFinding(
            "action-space",
            f"{told(problem)}: choose some actions and number them with gymnasium.wrappers.TransformAction.",
        ) from problem


# --- reset and step ---


class Moment(NamedTuple):
    """The unchanged result of `reset` or `step`."""

    observation: Any
    info: dict[str, Any]
    seconds: float
    first: bool = False
    reward: Any = None  # None after a reset
    terminated: Any = False
    truncated: Any = False

    @property
    def over(self) -> bool:
        return bool(self.terminated) or bool(self.truncated)


def walk(env: Environment, moment: Moment, actions: int, rng: np.random.Generator) -> Iterator[Moment]:
    """Take random legal actions without end, over several episodes; yield `moment`, then each result."""
    while True:
        yield moment
        moment = begin(env, None) if moment.over else act(env, int(rng.choice(legal_actions(moment.info, actions))))


def begin(env: Environment, seed: int | None) -> Moment:
    """Reset the environment."""
    before = time.perf_counter()
    try:
        result: Any = env.reset(seed=seed)
    except Exception as problem:  # the environment may raise anything
        if isinstance(problem, TypeError) and "seed" in str(problem):
            sentence = (
                "reset takes no seed; write def reset(self, *, seed=None, options=None) and super().reset(seed=seed)."
            )
        else:
            sentence = f"reset(seed={seed}) failed with {told(problem)}."
        raise FatalFinding("reset", sentence) from problem
    seconds = time.perf_counter() - before
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
        raise FatalFinding(
            "reset", f"reset returned {_shown(result)}; return the observation and a dict, (observation, {{}})."
        )
    return Moment(result[0], result[1], seconds, first=True)


def act(env: Environment, action: int) -> Moment:
    """Step the environment."""
    before = time.perf_counter()
    try:
        result: Any = env.step(action)
    except Exception as problem:  # the environment may raise anything
        raise FatalFinding("step", f"step({action}) failed with {told(problem)}.") from problem
    seconds = time.perf_counter() - before
    if not isinstance(result, tuple) or len(result) != 5 or not isinstance(result[4], dict):
        raise FatalFinding(
            "step", f"step returned {_shown(result)}; return (observation, reward, terminated, truncated, info)."
        )
    observation, reward, terminated, truncated, info = result
    return Moment(observation, info, seconds, reward=reward, terminated=terminated, truncated=truncated)


def legal_actions(info: dict[str, Any], actions: int) -> NDArray[np.int64]:
    """Indices of the actions that `info["action_mask"]` allows; all actions if there is no mask."""
    mask = np.asarray(info.get("action_mask", np.ones(actions)))
    if mask.shape != (actions,) or not mask.any():
        raise FatalFinding(
            "action-mask",
            f'info["action_mask"] was {_shown(info["action_mask"])}: give it {actions} entries, one per action, and '
            "at least one that is legal.",
        )
    return np.flatnonzero(mask)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}: ({', '.join(type(entry).__name__ for entry in value)})"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- one step ---


def check_observation(declared: Declared, seen: Any) -> Iterator[Finding]:
    """Compare an observation with `observation_space`."""
    try:
        encoded = declared.observation.encode_one(seen)
    except InputError as problem:
        raise FatalFinding(
            "observation",
            f"{told(problem)}, as observation_space says: return such an observation or correct the space.",
        ) from problem
    if not np.isfinite(encoded).all():
        yield error("observation-finite", "An observation held NaN or infinity: find where it comes from.")
        return
    for space, values in _boxes(declared.observation_space, seen):
        if values.dtype != space.dtype:
            yield note(
                "observation-type",
                f"Observations are of {values.dtype}, their space of {space.dtype}: fine here, but other libraries "
                "want them alike.",
            )
        yield from _check_bounds("observation", space, values)
    if not declared.observation.is_image and abs(encoded).max() > LARGE:
        yield note(
            "observation-scale",
            f"An entry of the observation was {abs(encoded).max():g}: networks learn best from numbers about 1.",
        )


def _boxes(space: gym.Space[Any], seen: Any) -> Iterator[tuple[gym.spaces.Box, NDArray[Any]]]:
    """Yield every Box in a space with its part of the observation."""
    match space:
        case gym.spaces.Box():
            yield space, np.asarray(seen)
        case gym.spaces.Dict():
            for key, part in space.spaces.items():
                yield from _boxes(part, seen[key])
        case gym.spaces.Tuple():
            for part, value in zip(space.spaces, seen, strict=True):
                yield from _boxes(part, value)


def _check_bounds(name: str, space: gym.spaces.Box, seen: NDArray[Any]) -> Iterator[Finding]:
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


def check_features(space: gym.spaces.Box, reward: Any) -> Iterator[Finding]:
    """Check that the reward is φ: D finite numbers within `reward_space`."""
    phi = real_numbers(reward)
    if phi.shape != space.shape:
        sentence = (
            f"The reward was {reward!r}, and reward_space has the shape {space.shape}: return φ with {space.shape[0]} "
            "numbers, or correct reward_space."
        )
        if isinstance(reward, list | tuple) and not phi.shape:  # not even an array
            raise FatalFinding("phi", sentence)
        yield error("phi", sentence)
        return
    if not np.isfinite(phi).all():
        yield error("phi-finite", f"φ was {reward!r}: find where NaN or infinity come from.")
        return
    if abs(phi).max() > LARGEST_PHI:
        yield error("phi-size", f"φ was {reward!r}: divide it, so that entries are at most {LARGEST_PHI:g}.")
        return
    if not isinstance(reward, np.ndarray):
        yield note(
            "phi-type", f"φ is a {type(reward).__name__}: fine here, but other libraries want an array, np.array(φ)."
        )
    yield from _check_bounds("phi", space, phi)
    if abs(phi).max() > LARGE:
        yield note(
            "phi-scale",
            f"An entry of φ was {phi[abs(phi).argmax()]:g}: fine with usfa train, which measures the size of returns; "
            "in settings of your own, set network.output_scale to it.",
        )


def check_endings(moment: Moment) -> Iterator[Finding]:
    """Check that terminated and truncated are booleans."""
    for name in ("terminated", "truncated"):
        flag = getattr(moment, name)
        if isinstance(flag, bool | np.bool_):
            continue
        sentence = f"{name} was {flag!r} of type {type(flag).__name__}: return bool({name})."
        if not isinstance(flag, int | float | np.number):
            raise FatalFinding("endings", sentence)
        yield warning("endings", sentence)


def check_copy(name: str, returned: Any, copy: Any) -> Iterator[Finding]:
    """Check that an observation or reward still equals the copy made when it was returned."""
    if not same(returned, copy):
        yield warning(
            f"{name}-copy",
            f"The {name} of one step was changed by the next: return a copy, {name}.copy(), as not everyone makes one.",
        )


def same(one: Any, other: Any) -> bool:
    """Whether two observations or rewards are equal in every entry and part; NaN equals NaN."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    a, b = np.asarray(one), np.asarray(other)
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f" and b.dtype.kind == "f")

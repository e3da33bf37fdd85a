"""Check whether an environment is fit for training: spaces, random steps, seeding, independence and resuming."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console

from usfa.environments.batch import Environment, is_savable
from usfa.environments.check_steps import (
    Declared,
    FatalFinding,
    Finding,
    Moment,
    Severity,
    act,
    begin,
    check_copy,
    check_endings,
    check_features,
    check_observation,
    check_spaces,
    error,
    legal_actions,
    note,
    same,
    walk,
    warning,
)
from usfa.environments.registry import source
from usfa.environments.spaces import step_limit
from usfa.environments.vector_reward import PhiSource, with_phi
from usfa.errors import InputError, told
from usfa.progress import ProgressBar, progress_bar

__all__ = ["check_environment"]

LONG = 10  # steps; shorter episodes of one length do not look like a time limit
SLOW = 1000  # steps per second
COMPARED = 100  # moments per walk that the repetition checks compare
_ORDER: tuple[Severity, ...] = ("error", "warning", "note")
Record = list[tuple[Any, ...]]


def check_environment(
    environment: str | Callable[..., Environment] | Environment,
    /,
    phi: PhiSource = "reward",
    *,
    arguments: Mapping[str, Any] | None = None,
    steps: int = 1000,
    seed: int = 0,
    console: Console | None = None,
) -> list[Finding]:
    """Take random steps in an environment and list its problems, the worst first.

    If none is an error, `usfa train` will run. InputError if the environment cannot be made at all.

    Args:
        environment: a name, as for :func:`usfa.environments.make`; a class or function that makes one; or an instance,
            which is left open.
        phi: source of φ: "reward", "info", "module:function" or a function.
        arguments: arguments of the environment.
        steps: number of random steps.
        seed: random seed of the environment and the actions.
        console: for a progress bar; None shows nothing.
    """
    if not (isinstance(steps, int) and isinstance(seed, int) and steps >= 1 and seed >= 0):
        raise InputError(f"steps is {steps!r} and seed {seed!r}; expected whole numbers, at least 1, and 0 or more.")
    with ExitStack() as stack:
        bar = stack.enter_context(progress_bar("random steps", steps, "steps", console, stays=False))
        if isinstance(environment, gym.Env):
            return _collect(_all_checks(with_phi(environment, phi), None, steps, seed, bar))
        made = source(environment, phi, **(arguments or {}))
        env, another = made.one(), made.one()
        return _collect(_all_checks(env, another, steps, seed, bar), _check_closing(env, another))


def _collect(*parts: Iterable[Finding]) -> list[Finding]:
    """Keep one finding per check, the fatal one if there is one and otherwise the first; sort by severity."""
    found: dict[str, Finding] = {}
    for part in parts:  # a fatal finding ends only its part
        try:
            for finding in part:
                found.setdefault(finding.check, finding)
        except FatalFinding as fatal:
            found[fatal.finding.check] = fatal.finding
    return sorted(found.values(), key=lambda finding: _ORDER.index(finding.severity))


def _check_closing(*envs: Environment) -> Iterator[Finding]:
    for env in envs:
        try:
            env.close()
        except Exception as problem:  # the environment may raise anything
            yield warning("close", f"close failed with {told(problem)}: let it succeed, also when called twice.")


def _all_checks(
    env: Environment, another: Environment | None, steps: int, seed: int, bar: ProgressBar
) -> Iterator[Finding]:
    declared = yield from check_spaces(env)
    yield from _check_random_steps(env, declared, steps, seed, bar)
    record = yield from _check_seeding(env, declared.actions, seed)
    if record is None:
        return  # the remaining checks compare repetitions
    if another is None or (yield from _check_independence(env, another, declared.actions, seed, record)):
        yield from _check_resuming(env, another or env, declared.actions, seed)


# --- random steps ---


def _check_random_steps(
    env: Environment, declared: Declared, steps: int, seed: int, bar: ProgressBar
) -> Iterator[Finding]:
    statistics = _Statistics(declared)
    for moment in walk(env, begin(env, seed), declared.actions, np.random.default_rng(seed)):
        yield from statistics.add(moment)
        bar.update(statistics.steps)
        if statistics.steps == steps:
            break
        if moment.over and len(statistics.lengths) == 1:
            yield from _check_step_after_end(env, moment, declared.actions)
    yield from statistics.check_unpaid_features()
    yield from statistics.check_missing_masks()
    yield from statistics.check_ends_of_episodes(step_limit(env) is not None)
    yield note("speed", statistics.speed())


class _Statistics:
    """Counts over a walk. Only the last moment is kept, because observations may be large."""

    def __init__(self, declared: Declared) -> None:
        self.declared = declared
        self.steps = 0
        self.seconds = 0.0
        self.length = 0  # of the present episode
        self.lengths: list[int] = []  # of the episodes that ended
        self.truncations = 0  # truncated episodes, if another one followed
        self.restarts = 0  # truncations whose last observation equals the next episode's first
        self.moved = False  # an observation differed from the one before it
        self.masked: set[bool] = set()  # whether infos had an action_mask
        self.paid: Any = False  # [D], features that were not always 0
        self.before: Moment | None = None
        self.copies: tuple[Any, Any] = (None, None)  # of the observation and reward in `before`

    def add(self, moment: Moment) -> Iterator[Finding]:
        """Check the next moment of the walk and count it."""
        yield from check_observation(self.declared, moment.observation)
        if self.before is not None:
            yield from check_copy("observation", self.before.observation, self.copies[0])
            yield from check_copy("reward", self.before.reward, self.copies[1])
        if not moment.first:
            yield from check_endings(moment)
            if self.declared.reward_space is not None:
                yield from check_features(self.declared.reward_space, moment.reward)
        self._count(moment)
        self.before, self.copies = moment, (copy.deepcopy(moment.observation), copy.deepcopy(moment.reward))

    def _count(self, moment: Moment) -> None:
        self.seconds += moment.seconds
        self.masked.add("action_mask" in moment.info)
        unmoved = same(moment.observation, self.copies[0])
        if moment.first:
            if self.before is not None and self.before.truncated:
                self.truncations += 1
                self.restarts += unmoved
            self.length = 0
            return
        self.steps += 1
        self.length += 1
        self.moved |= not unmoved
        if self.declared.reward_space is not None and np.shape(moment.reward) == self.declared.reward_space.shape:
            self.paid |= np.asarray(moment.reward) != 0
        if moment.over:
            self.lengths.append(self.length)

    def check_unpaid_features(self) -> Iterator[Finding]:
        never = np.flatnonzero(~np.asarray(self.paid, np.bool_)).tolist()
        if self.declared.reward_space is not None and np.ndim(self.paid) and never:
            yield note(
                "phi-unpaid",
                f"The features {never} of φ were 0 in all {self.steps} random steps: an agent that explores at random "
                "will take long to find them.",
            )

    def check_missing_masks(self) -> Iterator[Finding]:
        if len(self.masked) == 2:
            yield warning(
                "action-mask-missing",
                'info["action_mask"] is not always there, and without it every action is legal: give it with every '
                "reset and step.",
            )

    def check_ends_of_episodes(self, time_limit: bool) -> Iterator[Finding]:
        if not self.lengths and not time_limit:
            yield warning(
                "endless",
                f"No episode ended in {self.steps} random steps: if it never does, wrap the environment in "
                "gymnasium.wrappers.TimeLimit(env, max_episode_steps=…).",
            )
        elif not self.lengths:
            yield note("endless", f"No episode ended in {self.steps} random steps; the time limit is longer.")
        if self.truncations >= 3 and self.restarts == self.truncations and self.moved:
            yield warning(
                "last-observation",
                "The last observation of every truncated episode was the first of the next one: leave resetting to the "
                "caller and return what was reached.",
            )
        same_length = len(self.lengths) >= 3 and len(set(self.lengths)) == 1 and self.lengths[0] >= LONG
        if same_length and not self.truncations:
            yield note(
                "time-limit",
                f"All {len(self.lengths)} episodes terminated after {self.lengths[0]} steps: if that is a time limit, "
                "return truncated=True instead, or agents learn that nothing comes after it.",
            )

    def speed(self) -> str:
        rate = self.steps / max(self.seconds, 1e-9)
        hours = 1e6 / rate / 3600
        slow = f": a million steps take {hours:.1f} hours at least" if rate < SLOW else ""
        return f"{rate:,.0f} steps per second alone, in one process{slow}."


def _check_step_after_end(env: Environment, last: Moment, actions: int) -> Iterator[Finding]:
    try:
        further = act(env, int(legal_actions(last.info, actions)[0]))
        goes_on = not further.over
    except FatalFinding:  # an environment may refuse to go on
        return
    if goes_on:
        yield note(
            "after-the-end",
            "A step after the end of an episode went on as if nothing had ended: fine, as reset always follows here, "
            "unless the environment resets itself; then turn that off.",
        )


# --- repetitions ---


def _check_seeding(env: Environment, actions: int, seed: int) -> Generator[Finding, None, Record | None]:
    """Check that a seed repeats a walk and another seed changes it; return the walk if it is repeatable."""
    first, again, other = (_record(_walk_from_seed(env, actions, s)) for s in (seed, seed, seed + 1))
    at = _first_difference(first, again)
    if at is not None:
        yield warning(
            "seeding",
            f"Two walks with seed {seed} and the same actions differ in moment {at}, resets included: draw all random "
            "numbers from self.np_random, which super().reset(seed=seed) seeds, and begin every episode anew.",
        )
        return None
    if _first_difference(first, other) is None:
        yield note(
            "seeds",
            f"Seeds {seed} and {seed + 1} gave the same first {COMPARED} moments: "
            "fine if the environment is deterministic, or random only later.",
        )
    return first


def _check_independence(
    env: Environment, another: Environment, actions: int, seed: int, alone: Record
) -> Generator[Finding, None, bool]:
    """Check that the walk stays the same while a second environment is stepped; return whether it does."""
    if another is env:
        yield error("independence", "The same environment was made twice: make a new one in every call.")
        return False
    both = zip(_walk_from_seed(env, actions, seed), _walk_from_seed(another, actions, seed + 1), strict=False)
    if _first_difference(alone, _record(moment for moment, _ in both)) is not None:
        yield error(
            "independence",
            "An environment changes when a second one is stepped beside it: keep what changes in self, and not in the "
            "class or the module.",
        )
        return False
    return True


def _check_resuming(env: Any, another: Any, actions: int, seed: int) -> Iterator[Finding]:
    """Check that another environment continues exactly from a saved state of this one."""
    if not (is_savable(env) and is_savable(another)):
        yield note(
            "resuming",
            "There are no get_state and set_state on the outermost wrapper, so a resumed run replays its running "
            "episodes from their seeds and actions: add both, with a state that JSON can hold, to avoid these steps.",
        )
        return
    begin(another, seed + 1)  # before the walk, because both may be the same object
    here = list(islice(_walk_from_seed(env, actions, seed), 6))[-1]
    try:
        saved = json.dumps(env.get_state())
        expected = _record(_walk_onwards(env, here, actions))
        another.set_state(json.loads(saved))
    except FatalFinding:  # a step failed, not saving or loading
        raise
    except Exception as problem:  # the environment may raise anything
        yield error("resuming", f"get_state or set_state failed with {told(problem)}: use numbers, lists and dicts.")
        return
    if _first_difference(expected, _record(_walk_onwards(another, here, actions))) is not None:
        yield error(
            "resuming",
            "After set_state the environment goes on differently: get_state has to hold everything that changes, the "
            "state of self.np_random too.",
        )


def _walk_from_seed(env: Environment, actions: int, seed: int) -> Iterator[Moment]:
    """Reset with a seed and walk; the random choices of actions are the same for every seed."""
    return walk(env, begin(env, seed), actions, np.random.default_rng(0))


def _walk_onwards(env: Environment, here: Moment, actions: int) -> Iterator[Moment]:
    """Walk on from this moment, without yielding it again."""
    return islice(walk(env, here, actions, np.random.default_rng(1)), 1, None)


def _record(moments: Iterable[Moment]) -> Record:
    return [
        copy.deepcopy((moment.observation, moment.reward, bool(moment.terminated), bool(moment.truncated)))
        for moment in islice(moments, COMPARED)
    ]


def _first_difference(one: Record, other: Record) -> int | None:
    """Index of the first moment in which two walks differ."""
    for at, (a, b) in enumerate(zip(one, other, strict=True)):
        if not all(same(x, y) for x, y in zip(a, b, strict=True)):
            return at
    return None

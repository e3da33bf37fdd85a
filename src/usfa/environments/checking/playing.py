"""Many random steps, each looked at, and what can be said only after all of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from usfa.environments.batch import Environment
from usfa.environments.checking import steps as step
from usfa.environments.checking.declared import Declared
from usfa.environments.checking.findings import Broken, Finding, note, warning
from usfa.environments.checking.walking import Moment, act, begin, legal_actions, walk
from usfa.environments.spaces import step_limit
from usfa.progress import ProgressBar

__all__ = ["play"]

LONG = 10  # steps from which on episodes of one length look like a time limit
SLOW = 1000  # steps per second


def play(env: Environment, declared: Declared, steps: int, seed: int, bar: ProgressBar) -> Iterator[Finding]:
    """Random legal actions for some steps."""
    seen = _Seen(declared)
    for moment in walk(env, begin(env, seed), declared.actions, np.random.default_rng(seed)):
        yield from seen.look(moment)
        bar.update(seen.steps)
        if seen.steps == steps:
            break
        if moment.over and len(seen.lengths) == 1:
            yield from _after_the_end(env, moment, declared.actions)
    yield from seen.features_that_were_never_paid()
    yield from seen.masks_that_come_and_go()
    yield from seen.ends_of_episodes(step_limit(env) is not None)
    yield note("speed", seen.speed())


class _Seen:
    """What is kept of a walk: numbers, and the last moment, but not all observations, which may be large."""

    def __init__(self, declared: Declared) -> None:
        self.declared = declared
        self.steps = 0
        self.seconds = 0.0
        self.length = 0  # of the present episode
        self.lengths: list[int] = []  # of those that ended
        self.truncations = 0  # after which the next episode was seen
        self.restarts = 0  # those whose last observation was the first of that
        self.moved = False  # an observation differed from the one before it
        self.masked: set[bool] = set()  # whether infos had an action_mask
        self.paid: Any = False  # [D], features that were not always 0
        self.before: Moment | None = None
        self.copies: tuple[Any, Any] = (None, None)  # of its observation and reward

    def look(self, moment: Moment) -> Iterator[Finding]:
        """One moment after the other."""
        yield from step.observation(self.declared, moment.observation)
        if self.before is not None:
            yield from step.changed_later("observation", self.before.observation, self.copies[0])
            yield from step.changed_later("reward", self.before.reward, self.copies[1])
        if not moment.first:
            yield from step.endings(moment)
            if self.declared.reward_space is not None:
                yield from step.features(self.declared.reward_space, moment.reward)
        self._count(moment)
        self.before, self.copies = moment, (copy.deepcopy(moment.observation), copy.deepcopy(moment.reward))

    def _count(self, moment: Moment) -> None:
        self.seconds += moment.seconds
        self.masked.add("action_mask" in moment.info)
        unmoved = step.same(moment.observation, self.copies[0])
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

    def features_that_were_never_paid(self) -> Iterator[Finding]:
        never = np.flatnonzero(~np.asarray(self.paid, np.bool_)).tolist()
        if self.declared.reward_space is not None and np.ndim(self.paid) and never:
            yield note(
                "phi-unpaid",
                f"The features {never} of φ were 0 in all {self.steps} random steps: an agent that explores at random "
                "will take long to find them.",
            )

    def masks_that_come_and_go(self) -> Iterator[Finding]:
        if len(self.masked) == 2:
            yield warning(
                "action-mask-missing",
                'info["action_mask"] is not always there, and without it every action is legal: give it with every '
                "reset and step.",
            )

    def ends_of_episodes(self, time_limit: bool) -> Iterator[Finding]:
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


def _after_the_end(env: Environment, last: Moment, actions: int) -> Iterator[Finding]:
    try:
        further = act(env, int(legal_actions(last.info, actions)[0]))
        goes_on = not further.over
    except Broken:  # an environment may refuse to go on
        return
    if goes_on:
        yield note(
            "after-the-end",
            "A step after the end of an episode went on as if nothing had ended: fine, as reset always follows here, "
            "unless the environment resets itself; then turn that off.",
        )

"""The same steps again: with the same seed, beside another environment, and from a saved state."""

from __future__ import annotations

import copy
import json
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from usfa.environments.batch import Environment, is_savable
from usfa.environments.checking.findings import Broken, Finding, error, note, warning
from usfa.environments.checking.steps import same
from usfa.environments.checking.walking import Moment, begin, walk
from usfa.errors import told

__all__ = ["independence", "resuming", "seeding"]

LENGTH = 100  # moments that are compared
Record = list[tuple[Any, ...]]


def seeding(env: Environment, actions: int, seed: int) -> Generator[Finding, None, Record | None]:
    """Does a seed repeat the walk, and another one change it? Returns the walk, if it is repeatable."""
    first, again, other = (_record(_from_seed(env, actions, s)) for s in (seed, seed, seed + 1))
    at = _difference(first, again)
    if at is not None:
        yield warning(
            "seeding",
            f"Two walks with seed {seed} and the same actions differ in moment {at}, resets included: draw all chance "
            "from self.np_random, which super().reset(seed=seed) seeds, and begin every episode anew.",
        )
        return None
    if _difference(first, other) is None:
        yield note(
            "seeds",
            f"Seeds {seed} and {seed + 1} gave the same first {LENGTH} moments: "
            "fine if the environment has no chance, or only later.",
        )
    return first


def independence(
    env: Environment, another: Environment, actions: int, seed: int, alone: Record
) -> Generator[Finding, None, bool]:
    """Does the walk stay the same when a second environment is stepped beside it? Returns the answer."""
    if another is env:
        yield error("independence", "The same environment was made twice: make a new one in every call.")
        return False
    both = zip(_from_seed(env, actions, seed), _from_seed(another, actions, seed + 1), strict=False)
    if _difference(alone, _record(moment for moment, _ in both)) is not None:
        yield error(
            "independence",
            "An environment changes when a second one is stepped beside it: keep what changes in self, and not in the "
            "class or the module.",
        )
        return False
    return True


def resuming(env: Any, another: Any, actions: int, seed: int) -> Iterator[Finding]:
    """Does another environment go on exactly where this one was saved?"""
    if not (is_savable(env) and is_savable(another)):
        yield note(
            "resuming",
            "There are no get_state and set_state on the outermost wrapper, so that checkpoints start new episodes: "
            "add both, with a state that JSON can hold, to go on exactly.",
        )
        return
    begin(another, seed + 1)  # first: it may be the same one
    here = list(islice(_from_seed(env, actions, seed), 6))[-1]
    try:
        saved = json.dumps(env.get_state())
        expected = _record(_onwards(env, here, actions))
        another.set_state(json.loads(saved))
    except Broken:  # it was a step that failed
        raise
    except Exception as problem:  # it is other people's code
        yield error("resuming", f"get_state or set_state failed with {told(problem)}: use numbers, lists and dicts.")
        return
    if _difference(expected, _record(_onwards(another, here, actions))) is not None:
        yield error(
            "resuming",
            "After set_state the environment goes on differently: get_state has to hold everything that changes, the "
            "state of self.np_random too.",
        )


def _from_seed(env: Environment, actions: int, seed: int) -> Iterator[Moment]:
    """A walk whose actions are the same for every seed."""
    return walk(env, begin(env, seed), actions, np.random.default_rng(0))


def _onwards(env: Environment, here: Moment, actions: int) -> Iterator[Moment]:
    """What comes after this moment."""
    return islice(walk(env, here, actions, np.random.default_rng(1)), 1, None)


def _record(moments: Iterable[Moment]) -> Record:
    return [
        copy.deepcopy((moment.observation, moment.reward, bool(moment.terminated), bool(moment.truncated)))
        for moment in islice(moments, LENGTH)
    ]


def _difference(one: Record, other: Record) -> int | None:
    """The number of the first moment in which two walks differ."""
    for at, (a, b) in enumerate(zip(one, other, strict=True)):
        if not all(same(x, y) for x, y in zip(a, b, strict=True)):
            return at
    return None

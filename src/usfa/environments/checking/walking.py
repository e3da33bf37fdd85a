"""Acting in an environment that may do anything: what it returns has the right form, or the check ends there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from usfa.environments.batch import Environment
from usfa.environments.checking.findings import Broken
from usfa.errors import told

__all__ = ["Moment", "act", "begin", "legal_actions", "walk"]


class Moment(NamedTuple):
    """What `reset` or `step` returned, as it is."""

    observation: Any
    info: dict[str, Any]
    seconds: float
    first: bool = False
    reward: Any = None  # of a step
    terminated: Any = False
    truncated: Any = False

    @property
    def over(self) -> bool:
        return bool(self.terminated) or bool(self.truncated)


def walk(env: Environment, moment: Moment, actions: int, rng: np.random.Generator) -> Iterator[Moment]:
    """Random legal actions from this moment on, episode after episode, without end."""
    while True:
        yield moment
        moment = begin(env, None) if moment.over else act(env, int(rng.choice(legal_actions(moment.info, actions))))


def begin(env: Environment, seed: int | None) -> Moment:
    before = time.perf_counter()
    try:
        result: Any = env.reset(seed=seed)
    except TypeError as problem:
        if "seed" not in str(problem):
            raise Broken("reset", f"reset(seed={seed}) failed with {told(problem)}.") from problem
        raise Broken(
            "reset",
            "reset takes no seed; write def reset(self, *, seed=None, options=None) and super().reset(seed=seed).",
        ) from problem
    except Exception as problem:  # it is other people's code
        raise Broken("reset", f"reset(seed={seed}) failed with {told(problem)}.") from problem
    seconds = time.perf_counter() - before
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
        raise Broken(
            "reset", f"reset returned {_shown(result)}; return the observation and a dict, (observation, {{}})."
        )
    return Moment(result[0], result[1], seconds, first=True)


def act(env: Environment, action: int) -> Moment:
    before = time.perf_counter()
    try:
        result: Any = env.step(action)
    except Exception as problem:  # it is other people's code
        raise Broken("step", f"step({action}) failed with {told(problem)}.") from problem
    seconds = time.perf_counter() - before
    if not isinstance(result, tuple) or len(result) != 5 or not isinstance(result[4], dict):
        raise Broken(
            "step", f"step returned {_shown(result)}; return (observation, reward, terminated, truncated, info)."
        )
    observation, reward, terminated, truncated, info = result
    return Moment(observation, info, seconds, reward=reward, terminated=terminated, truncated=truncated)


def legal_actions(info: dict[str, Any], actions: int) -> NDArray[np.int64]:
    """The numbers of the actions that `info["action_mask"]` allows; all without one."""
    mask = np.asarray(info.get("action_mask", np.ones(actions)))
    if mask.shape != (actions,) or not mask.any():
        raise Broken(
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

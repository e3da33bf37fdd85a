"""Collect transitions with the rewards of K tasks in an environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from usfa.environments import Batch, EnvironmentSource, History, ObservationSpec
from usfa.errors import InputError
from usfa.phi.data import Transitions
from usfa.phi.store import ENVIRONMENTS, TransitionStore

__all__ = ["Behaviour", "RandomActions", "collect"]

Behaviour = Callable[[Batch], NDArray[np.int64]]
"""Chooses an action [B] in each of B environments."""


class RandomActions:
    """Random legal actions, with given probabilities and repetitions.

    Args:
        rng: generator.
        probabilities: relative probability of each action; equal by default.
        repeat: probability of repeating the last action.
    """

    def __init__(self, rng: np.random.Generator, probabilities: Sequence[float] = (), repeat: float = 0.0) -> None:
        self._rng, self._probabilities, self._repeat = rng, np.array(probabilities, np.float64), repeat
        self._last: NDArray[np.int64] | None = None

    def __call__(self, batch: Batch) -> NDArray[np.int64]:
        if len(self._probabilities) not in (0, batch.actions):
            raise InputError(
                f"There are {len(self._probabilities)} probabilities of actions; expected {batch.actions}, one for "
                "each action."
            )
        legal = batch.legal.astype(np.float64)
        likely = legal * self._probabilities if len(self._probabilities) else legal
        likely = np.where(likely.sum(axis=1, keepdims=True) > 0, likely, legal)
        bounds = likely.cumsum(axis=1) / likely.sum(axis=1, keepdims=True)
        action = (self._rng.random((len(batch), 1)) >= bounds).sum(axis=1).astype(np.int64)
        if self._last is not None and self._repeat:
            again = (self._rng.random(len(batch)) < self._repeat) & ~batch.first
            again &= np.take_along_axis(batch.legal, self._last[:, None], axis=1)[:, 0]
            action = np.where(again, self._last, action)
        self._last = action
        return action


def collect(
    environments: EnvironmentSource,
    names: Sequence[str],
    spec: ObservationSpec,
    behaviour: Behaviour,
    steps: int,
    seed: int = 0,
    on_steps: Callable[[int], object] | None = None,
    *,
    history: int = 1,
    frames_path: Path | None = None,
) -> Transitions:
    """Act in environments whose φ are the K rewards, and keep all transitions, each observation once.

    Args:
        environments: with the vector of rewards as φ, see `usfa.environments.rewarded`.
        names: of the rewards.
        spec: encoding of observations.
        behaviour: chooses the actions.
        steps: of all environments together.
        seed: of the environments.
        on_steps: called with the number of steps after each.
        history: H, the number of observations before each next one that are kept.
        frames_path: file for observations that do not fit into memory, see :class:`TransitionStore`.
    """
    rng = np.random.default_rng([seed, 5])
    size = max(1, min(ENVIRONMENTS, steps // 100))
    kept = TransitionStore(steps, spec, history, frames_path)
    with closing(environments.batch(rng.integers(2**31, size=size).tolist(), 0.99)) as batch:
        episode, episodes = np.arange(size), size
        past = History(history, kept.seen(batch.observation, batch.first))
        for _ in range(-(-steps // size)):
            action = behaviour(batch)
            past.act(action)
            step = batch.step(action)
            after = kept.seen(batch.next_observation, step.real)
            kept.add(past.observation, past.action, after, step.phi, episode, step.real)
            past.see(kept.seen(batch.observation, batch.first, after), batch.first)
            ended = np.flatnonzero(step.ended)
            episode[ended] = episodes + np.arange(len(ended))
            episodes += len(ended)
            if on_steps is not None:
                on_steps(size)
        return kept.transitions(tuple(names), spec, batch.actions)

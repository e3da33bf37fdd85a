"""Scores in the rewards themselves, where φ·w only approximates them: true returns, and the share φ cannot express."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usfa.agents import TrainedAgent
from usfa.environments import (
    LEARNED,
    EnvironmentSource,
    FrozenPhi,
    ObservationSpec,
    known_phi,
    rewarded,
    source,
)
from usfa.environments.batch import Batch, Step, WrappedBatch
from usfa.evaluation.episodes import environments_of
from usfa.functional import LARGE_SHARE, unexplained_share
from usfa.phi import LearnedPhi
from usfa.tasks import format_task

__all__ = ["RewardedEpisodes", "known_shares", "rewarded_environments", "warn_of_shares"]

Array = NDArray[np.float64]


def known_shares(agent: TrainedAgent, w: Array) -> Array:
    """Share of the reward that a learned φ could not express on held-out episodes, for tasks it was learned from, [K].

    NaN for other tasks, and for φ that was not learned.
    """
    shares = np.full(len(w), np.nan)
    phi = known_phi(agent.file.phi) if agent.file.phi.startswith(LEARNED) else None
    if isinstance(phi, LearnedPhi):
        for own, share in zip(phi.tasks, phi.report.unexplained, strict=True):
            shares[(abs(w - own) <= 1e-6).all(axis=1)] = np.nan if share is None else share
    return shares


def warn_of_shares(w: Array, shares: Array) -> None:
    """Warn of tasks for which φ cannot express a large share of the reward, so that their scores mislead."""
    large = [
        f"{share:.0%} of {format_task(task)}" for task, share in zip(w, shares, strict=True) if share > LARGE_SHARE
    ]
    if large:
        warnings.warn(
            f"φ cannot express {', '.join(large)} (expected at most {LARGE_SHARE:.0%}): scores in φ·w are not those in "
            "the reward.",
            stacklevel=3,
        )


@dataclass(frozen=True)
class _PhiAndRewards:
    """A learned φ with rewards appended: D + K features."""

    phi: FrozenPhi
    extra: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{self.phi.text} and {', '.join(self.extra)}"

    @property
    def features(self) -> int:
        return self.phi.features + len(self.extra)

    @property
    def history(self) -> int:
        return self.phi.history

    @property
    def rewards(self) -> tuple[str, ...]:
        return (*self.phi.rewards, *self.extra)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (*self.phi.feature_names, *self.extra)

    def of_batch(
        self,
        observation: NDArray[Any],
        action: NDArray[np.int64],
        next_observation: NDArray[Any],
        rewards: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        needed = len(self.phi.rewards)
        phi = self.phi.of_batch(observation, action, next_observation, rewards[:, :needed])
        return np.concatenate([phi, rewards[:, needed:]], axis=1)

    def check_fits(self, observation: ObservationSpec, actions: int) -> None:
        self.phi.check_fits(observation, actions)


def rewarded_environments(agent: TrainedAgent, rewards: Sequence[str], trust: bool) -> EnvironmentSource:
    """Environments of an agent with rewards appended to φ, [D + K]; :class:`RewardedEpisodes` separates them."""
    environments = environments_of(agent, trust)  # raises if the file names modules that are not trusted
    file = agent.file
    if file.phi.startswith(LEARNED):
        phi = _PhiAndRewards(known_phi(file.phi), tuple(rewards))
        return source(file.environment, phi=phi, **file.environment_arguments)  # type: ignore[arg-type]  # properties
    units = [f"task:{format_task(unit)}" for unit in np.eye(file.spec.features)]
    return rewarded(environments, [*units, *("info:scalar_reward" if own == "reward" else own for own in rewards)])


class RewardedEpisodes(WrappedBatch):
    """Episodes of K tasks in turn, with the sum of the reward of each environment's task until its episode ends.

    Steps contain φ without the appended rewards.
    """

    def __init__(self, inside: Batch, w: Array) -> None:
        super().__init__(inside, w.shape[1])
        own = np.arange(len(inside)) % len(w)
        self._w, self._column = w[own], w.shape[1] + own
        self._running = np.ones(len(inside), np.bool_)
        self.returns = np.zeros(len(inside))  # Σ r
        self.errors = np.zeros(len(inside))  # Σ (r - φ·w)²
        self.squares = np.zeros(len(inside))  # Σ r²

    def step(self, action: NDArray[np.int64]) -> Step:
        step = self._inside.step(action)
        counts = self._running & step.real
        reward = np.take_along_axis(step.phi, self._column[:, None], axis=1)[:, 0].astype(np.float64)
        phi = step.phi[:, : self.features]
        self.returns += np.where(counts, reward, 0.0)
        self.errors += np.where(counts, (reward - np.einsum("bd,bd->b", phi, self._w)) ** 2, 0.0)
        self.squares += np.where(counts, reward**2, 0.0)
        self._running &= ~step.ended
        return step._replace(phi=phi, episode_phi=step.episode_phi[:, : self.features])

    def shares(self, tasks: int) -> Array:
        """Σ(r - φ·w)² / Σr² of each task, [K]; NaN where the reward was always 0."""
        errors, squares = (x.reshape(-1, tasks).sum(axis=0) for x in (self.errors, self.squares))
        return unexplained_share(errors, squares)

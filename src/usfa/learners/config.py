"""How to learn: the settings that every learner shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from usfa.errors import InputError

__all__ = ["LearnerConfig", "check_environments"]


@dataclass(frozen=True)
class LearnerConfig:
    """How to learn."""

    policies: str = "gaussian:0.1"
    """D_z, what z are drawn from: gaussian:VARIANCE, box:LOW,HIGH, simplex, points:Z;Z, train (M), task (z = w)."""
    policies_per_step: int = 30
    """n_z."""
    environments: int = 1
    """Environments per run."""
    tasks: Literal["resampled", "fixed"] = "resampled"
    """The task w of an environment: drawn from M for every trajectory (Algorithm 1), or always the same, so that M is
    dealt out to the environments in turn (the paper's actors)."""
    trajectory_length: int = 1
    """T, the steps between two rounds of updates; 1 is Algorithm 1."""
    updates_per_round: int = 1
    """Updates after each T steps, every one on another part of the environments."""
    lambda_: float = 0.9
    """λ of Watkins' Q(λ); without effect for T = 1."""
    gamma: float = 0.95
    """Discount γ."""
    epsilon: float = 0.1
    """Probability of a random action."""
    reuse: int = 0
    """Past trajectories that each round learns from again, besides the fresh one; 0 is Algorithm 1."""
    replay_capacity: int = 10_000
    """How many past trajectories are kept for that, per run."""
    learning_rate: float = 1e-3
    """Step size of Adam at the start; it falls linearly to 0 over the budget."""
    clip: float | None = None
    """The longest gradient: longer ones are shortened to it; None leaves them as they are."""
    target_every: int | None = None
    """Updates after which a target network is renewed; None bootstraps from the network itself, as the paper does."""
    budget: int = 1000
    """How long each run trains, in the unit below."""
    budget_unit: Literal["episodes", "frames"] = "episodes"
    """What the budget and all snapshots count: episodes ended, or environment steps."""

    def __post_init__(self) -> None:
        for name in ("policies_per_step", "environments", "trajectory_length", "updates_per_round", "budget"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least 1.")
        for name in ("lambda_", "epsilon"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected a number from 0 to 1.")
        if not 0 < self.gamma <= 1:
            raise InputError(f"gamma is {self.gamma}; expected a number above 0, at most 1.")
        if self.reuse < 0 or self.replay_capacity < 1:
            raise InputError(f"reuse is {self.reuse} of {self.replay_capacity} trajectories; expected 0 or more of 1.")
        if self.environments % self.updates_per_round:
            raise InputError(
                f"updates_per_round is {self.updates_per_round}; expected a divisor of {self.environments}, the "
                "number of environments."
            )
        if not 0 < self.learning_rate < float("inf"):
            raise InputError(f"learning_rate is {self.learning_rate}; expected a positive number.")
        if self.target_every is not None and self.target_every < 1:
            raise InputError(f"target_every is {self.target_every}; expected at least 1, or None.")
        if self.clip is not None and not self.clip > 0:
            raise InputError(f"clip is {self.clip}; expected a positive number, or None.")


def check_environments(config: LearnerConfig, training_tasks: NDArray[np.float64]) -> None:
    """InputError if fixed tasks cannot be dealt out evenly."""
    if config.tasks == "fixed" and config.environments % len(training_tasks):
        raise InputError(
            f"environments is {config.environments}; expected a multiple of {len(training_tasks)}, so that every "
            "training task has as many."
        )

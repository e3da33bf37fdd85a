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
    """D_z, what z are drawn from: gaussian:VARIANCE, box:LOW,HIGH, ball:RADIUS, simplex, points:Z;Z, train (M), task
    (z = w), or task+… for z = w first and the others from there."""
    policies_per_step: int = 30
    """n_z."""
    environments: int = 1
    """Environments per run."""
    tasks: str = "resampled"
    """The task w of an environment: "resampled" from M for every trajectory (Algorithm 1); "fixed", so that M is dealt
    out to the environments in turn (the paper's actors); or drawn for every trajectory from a distribution, which is
    written as D_z is: simplex, ball:RADIUS, gaussian:VARIANCE around a task of M, …"""
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
    boldest: float | None = None
    """That of the first environment; those of the others fall from it to epsilon in equal ratios, so that some follow
    their policies and others leave them. None: epsilon for all."""
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
    average: float | None = None
    """The share by which an average of the parameters follows every update. Targets come from the average, and so do
    the snapshots and the final agent: it has less noise. None, as in the paper, has no average."""
    along_z: float = 0.0
    """How much the error along z counts besides that of every feature. What a policy does depends on ψ·z alone, and ψ
    jumps from policy to policy where ψ·z does not. 0 is the paper's loss."""
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
        if self.boldest is not None and not 0 < self.epsilon <= self.boldest <= 1:
            raise InputError(f"boldest is {self.boldest}; expected from epsilon, {self.epsilon} and above 0, to 1.")
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
        if self.average is not None and (not 0 < self.average <= 1 or self.target_every is not None):
            raise InputError(f"average is {self.average}; expected above 0, at most 1, and no target_every beside it.")
        if not 0 <= self.along_z < float("inf"):
            raise InputError(f"along_z is {self.along_z}; expected 0 or more.")
        if self.clip is not None and not self.clip > 0:
            raise InputError(f"clip is {self.clip}; expected a positive number, or None.")

    @property
    def epsilons(self) -> NDArray[np.float64]:
        """ε of every environment, [B]."""
        if self.boldest is None:
            return np.full(self.environments, self.epsilon)
        return np.geomspace(self.boldest, self.epsilon, self.environments)


def check_environments(config: LearnerConfig, training_tasks: NDArray[np.float64]) -> None:
    """InputError if fixed tasks cannot be dealt out evenly."""
    if config.tasks == "fixed" and config.environments % len(training_tasks):
        raise InputError(
            f"environments is {config.environments}; expected a multiple of {len(training_tasks)}, so that every "
            "training task has as many."
        )

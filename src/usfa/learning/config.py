"""Settings of learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from usfa.errors import InputError
from usfa.losses import LossSettings
from usfa.records import settle
from usfa.registry import text_of

if TYPE_CHECKING:
    from usfa.samplers import PolicySampler

    Sampler = str | PolicySampler
else:  # configurations are saved as text
    Sampler = str

__all__ = ["LearnerConfig", "check_environments"]


@dataclass(frozen=True)
class LearnerConfig:
    """Settings of Algorithm 1: distributions of tasks and policies, acting, learning, and the budget."""

    policies: Sampler = "gaussian:0.1"
    """D_z, the distribution of z: gaussian:VARIANCE, box:LOW,HIGH, ball:RADIUS, simplex, points:Z;Z, train (M), task
    (z = w), task+… (z_1 = w, the others from the distribution after the +), or module:Class of your own."""
    policies_per_step: int = 30
    """n_z, the number of policies z drawn for each environment."""
    environments: int = 1
    """Environments per run."""
    tasks: Sampler = "resampled"
    """Task w of each environment: "resampled" from M for every trajectory (Algorithm 1); "fixed", the tasks of M
    assigned to the environments in turn (the paper's actors); or a distribution to draw from for every trajectory, in
    the notation of D_z: simplex, ball:RADIUS, gaussian:VARIANCE around a task of M, task|simplex (a task of M, or one
    of the simplex), …"""
    task_duration: Literal["trajectory", "episode"] = "trajectory"
    """How long an environment keeps its task: for one trajectory (Algorithm 1), or until the end of the trajectory in
    which its episode ends. In long episodes the task also changes at random, after 1/(1-γ) steps on average."""
    trajectory_length: int = 1
    """T, the number of steps between two rounds of updates; 1 is Algorithm 1."""
    updates_per_round: int = 1
    """Updates per round; each uses a different part of the new and replayed trajectories."""
    lambda_: float = 0.9
    """λ of Watkins' Q(λ); no effect if T = 1."""
    gamma: float = 0.95
    """Discount γ."""
    epsilon: float = 0.1
    """Probability of a random action."""
    epsilon_max: float | None = None
    """Largest ε; the ε of the environments are spaced geometrically from it down to epsilon. None: epsilon for all."""
    epsilon_decay: float = 0.0
    """Share of the budget over which ε falls linearly from 1 to its final value; 0 starts with the final value."""
    repeat_exponent: float | None = None
    """Random actions are repeated n times with probability ∝ n^-repeat_exponent, for example 2; None never repeats."""
    repeat_share: float = 1.0
    """Share of the environments that repeat random actions, spread evenly over all values of ε."""
    replay_ratio: int = 0
    """Replayed trajectories per round, in addition to the new one; 0 is Algorithm 1."""
    replay_capacity: int = 10_000
    """Size of the replay buffer in trajectories, per run."""
    priority_exponent: float = 0.0
    """Trajectories are replayed with probability ∝ √loss^priority_exponent, by their last loss, so that rare events are
    replayed more often; 0.6 is usual, 0 samples uniformly."""
    learning_rate: float = 1e-3
    """Step size of the optimiser at the start; it falls linearly to 0 over the budget."""
    clip: float | None = None
    """Maximum norm of the gradient; None does not clip."""
    target_every: int | None = None
    """Updates between two copies to a target network; None bootstraps from the network itself, as in the paper."""
    ema: float | None = None
    """Rate of an exponential moving average of the weights, used for targets, snapshots and the final agent; None, as
    in the paper, disables it."""
    along_z: float = 0.0
    """Weight of an additional loss, the squared error of ψ along z. A policy's actions depend on ψ·z alone, and ψ is
    discontinuous in z where ψ·z is not. 0 is the paper's loss."""
    action_gap: float = 0.0
    """Advantage learning: share of the difference between the best action and the action taken that is subtracted from
    targets, which makes differences between actions larger. 0 is the paper's loss."""
    budget: int = 1000
    """Length of training of each run, in budget_unit."""
    budget_unit: Literal["episodes", "frames", "seconds"] = "episodes"
    """Unit of the budget and of snapshots: finished episodes, environment steps, or seconds of training."""
    time_limit: float | None = None
    """Seconds of training after which every run ends, even if its budget is not used up; None sets no limit."""

    def __post_init__(self) -> None:
        for name in ("policies", "tasks"):
            object.__setattr__(self, name, text_of(getattr(self, name), f"learner.{name}"))
        settle(self, "learner.")
        for name, most in _MOST.items():
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least 1.")
            if getattr(self, name) > most:
                raise InputError(f"{name} is {getattr(self, name)}; expected at most {most:,}.")
        for name in ("lambda_", "epsilon", "epsilon_decay"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected a number from 0 to 1.")
        if self.epsilon_max is not None and not 0 < self.epsilon <= self.epsilon_max <= 1:
            raise InputError(
                f"epsilon_max is {self.epsilon_max}; expected at least epsilon, {self.epsilon}, which must be above 0, "
                "and at most 1."
            )
        if self.repeat_exponent is not None and not 1 <= self.repeat_exponent < float("inf"):
            raise InputError(f"repeat_exponent is {self.repeat_exponent}; expected at least 1, or None.")
        if not 0 < self.repeat_share <= 1:
            raise InputError(f"repeat_share is {self.repeat_share}; expected a number above 0, at most 1.")
        if not 0 < self.gamma <= 1:
            raise InputError(f"gamma is {self.gamma}; expected a number above 0, at most 1.")
        if not 0 <= self.replay_ratio <= 1000:
            raise InputError(f"replay_ratio is {self.replay_ratio}; expected 0 to 1,000.")
        if self.replay_capacity < 1:
            raise InputError(f"replay_capacity is {self.replay_capacity}; expected at least 1.")
        if self.trajectories_per_round % self.updates_per_round:
            raise InputError(
                f"updates_per_round is {self.updates_per_round}; expected a divisor of {self.trajectories_per_round}, "
                "the number of trajectories of a round, new and replayed."
            )
        if not 0 <= self.priority_exponent < float("inf"):
            raise InputError(f"priority_exponent is {self.priority_exponent}; expected 0 or more.")
        if self.priority_exponent and not self.replay_ratio:
            raise InputError(
                f"priority_exponent is {self.priority_exponent}, but replay_ratio is 0; expected 1 or more, or a "
                "priority_exponent of 0."
            )
        if not 0 < self.learning_rate < float("inf"):
            raise InputError(f"learning_rate is {self.learning_rate}; expected a positive number.")
        if self.target_every is not None and self.target_every < 1:
            raise InputError(f"target_every is {self.target_every}; expected at least 1, or None.")
        if self.ema is not None and (not 0 < self.ema <= 1 or self.target_every is not None):
            raise InputError(f"ema is {self.ema}; expected above 0, at most 1, and no target_every beside it.")
        if not 0 <= self.along_z < float("inf"):
            raise InputError(f"along_z is {self.along_z}; expected 0 or more.")
        if not 0 <= self.action_gap < 1:
            raise InputError(f"action_gap is {self.action_gap}; expected a number from 0 to below 1.")
        if self.time_limit is not None and not 0 < self.time_limit < float("inf"):
            raise InputError(f"time_limit is {self.time_limit}; expected a positive number of seconds, or None.")
        if self.clip is not None and not self.clip > 0:
            raise InputError(f"clip is {self.clip}; expected a positive number, or None.")

    @property
    def loss(self) -> LossSettings:
        """The settings of the loss."""
        return LossSettings(self.lambda_, self.along_z, self.action_gap, per_trajectory=self.priority_exponent > 0)

    @property
    def counts_time(self) -> bool:
        """Whether the end of training depends on elapsed time."""
        return self.budget_unit == "seconds" or self.time_limit is not None

    @property
    def trajectories_per_round(self) -> int:
        """Number of trajectories that a round of updates learns from, new and replayed."""
        return self.environments * (1 + self.replay_ratio)

    @property
    def rows_per_update(self) -> int:
        """Number of pairs of a state and a policy z in an update."""
        trajectories = self.trajectories_per_round // self.updates_per_round
        return (self.trajectory_length + 1) * trajectories * self.policies_per_step

    def epsilons(self, done: float | NDArray[np.float64] = 1.0) -> NDArray[np.float64]:
        """ε of every environment after the share `done` of the budget, [B]; [R, B] if `done` is [R]."""
        own = np.full(self.environments, self.epsilon)
        if self.epsilon_max is not None:
            own = np.geomspace(self.epsilon_max, self.epsilon, self.environments)
        if not self.epsilon_decay:
            return own
        return own + (1 - own) * np.clip(1 - np.asarray(done) / self.epsilon_decay, 0, 1)[..., None]


_MOST = {
    "policies_per_step": 10_000,
    "environments": 1_000_000,
    "trajectory_length": 1_000_000,
    "updates_per_round": 1_000_000,
    "budget": 2**53,
}
"""Largest values, so that typing errors raise InputError instead of exhausting the memory."""


def check_environments(config: LearnerConfig, training_tasks: NDArray[np.float64]) -> None:
    """Raise InputError if fixed tasks cannot be assigned evenly to the environments."""
    if config.tasks == "fixed" and config.environments % len(training_tasks):
        raise InputError(
            f"environments is {config.environments}; expected a multiple of {len(training_tasks)}, so that every "
            "training task has the same number."
        )

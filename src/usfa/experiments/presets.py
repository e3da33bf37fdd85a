"""The paper's settings by name."""

from __future__ import annotations

from dataclasses import replace

from usfa.errors import unknown_name
from usfa.experiments.config import EvaluationConfig, TrainConfig
from usfa.learners import LearnerConfig
from usfa.networks import NetworkConfig

__all__ = ["PRESETS", "preset"]

_TRIP = TrainConfig(
    environment="trip",
    training_tasks="trip-train",
    # Section 4.1 gives n_z, D_z and γ. The rest was chosen on policies drawn from D_z, see docs/trip.md.
    network=NetworkConfig(trunk=(64,), embedding=(32, 32), head=(64,)),
    learner=LearnerConfig(
        policies="box:0,1",
        policies_per_step=5,
        gamma=1.0,
        epsilon=0.5,
        reuse=15,
        replay_capacity=2000,
        learning_rate=3e-3,
        budget=1000,
        budget_unit="episodes",
    ),
    evaluation=EvaluationConfig(
        tasks=("trip-directions", "trip-diagonal", "trip-train"), candidates=("task", "sample:5")
    ),
)

_ONE_STATE = TrainConfig(
    environment="one-state",
    training_tasks="one-state-train",
    network=NetworkConfig(trunk=(32,), embedding=(32, 32), head=(32,)),
    learner=LearnerConfig(
        policies="train", policies_per_step=3, gamma=0.9, epsilon=0.5, learning_rate=3e-3, budget=1000
    ),
    evaluation=EvaluationConfig(tasks=("-2;-1.5;-1;-0.5;0;0.5;1;1.5;2",), candidates=("task", "train"), snapshots=5),
)


def _uvfa(config: TrainConfig, policies: str, policies_per_step: int) -> TrainConfig:
    """The same settings for a UVFA, which learns about tasks and has no candidate set."""
    return replace(
        config,
        agent="uvfa",
        learner=replace(config.learner, policies=policies, policies_per_step=policies_per_step),
        evaluation=replace(config.evaluation, candidates=("task",)),
    )


def _sf_gpi(config: TrainConfig) -> TrainConfig:
    """SF&GPI is USFA whose policies are the training tasks, in learning and in acting."""
    return replace(
        config,
        learner=replace(config.learner, policies="train", policies_per_step=len(config.tasks)),
        evaluation=replace(config.evaluation, candidates=("train",)),
    )


PRESETS: dict[str, tuple[TrainConfig, str]] = {
    "trip-usfa": (_TRIP, "USFA on the Trip MDP, Section 4.1"),
    "trip-uvfa": (
        _uvfa(_TRIP, "task", 1),
        "UVFA on the Trip MDP, learning each step for the task that made it",
    ),
    "trip-uvfa-off-policy": (
        _uvfa(_TRIP, "train", 2),
        "UVFA on the Trip MDP, learning each step for every task in M",
    ),
    "trip-sf-gpi": (_sf_gpi(_TRIP), "learned SF&GPI on the Trip MDP"),
    "one-state-usfa": (_ONE_STATE, "USFA on the one-state MDP, Appendix A"),
    "one-state-uvfa": (_uvfa(_ONE_STATE, "train", 3), "UVFA on the one-state MDP, fitted to three tasks"),
}
"""Configurations with a word about each."""


def preset(name: str) -> TrainConfig:
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    return PRESETS[name][0]

"""Presets: configurations of the paper's experiments by name."""

from __future__ import annotations

from dataclasses import replace

from usfa.decisions import DEFAULT_RULE, GAP_RULE, SINGLE
from usfa.errors import unknown_name
from usfa.learning import LearnerConfig
from usfa.networks import MNIH_2015, NetworkConfig
from usfa.registry import text_of
from usfa.runs.config import EvaluationConfig, TrainConfig

__all__ = ["PRESETS", "ROOM_VARIANTS", "TRIP_VARIANTS", "agent_name", "command_for", "preset"]

_TRIP = TrainConfig(
    environment="trip",
    training_tasks="trip-train",
    # n_z, D_z and γ are from Section 4.1; the other settings were tuned on policies from D_z, see docs/trip.md.
    network=NetworkConfig(trunk=(64,), embedding=(32, 32), head=(64,)),
    learner=LearnerConfig(
        policies="box:0,1",
        policies_per_step=5,
        gamma=1.0,
        epsilon=0.5,
        replay_ratio=15,
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

_ROOM_PAPER = TrainConfig(
    environment="room",
    training_tasks="room-train",
    environment_arguments={"image_size": 84},
    # Section 4.2 and Appendix C, which do not specify γ and the optimiser. Target network, replay and action gap are
    # ours, see docs/room-settings.md.
    network=NetworkConfig(MNIH_2015, memory=256, trunk=(128,), embedding=(32, 32), head=(128,)),
    learner=LearnerConfig(
        policies="gaussian:0.1",
        policies_per_step=30,
        environments=200,
        tasks="fixed",
        trajectory_length=32,
        replay_ratio=1,
        replay_capacity=20,
        updates_per_round=50,
        target_every=100,
        action_gap=0.9,
        lambda_=0.9,
        gamma=0.97,
        epsilon=0.1,
        learning_rate=7e-4,
        clip=1.0,
        budget=100_000_000,
        budget_unit="frames",
    ),
    evaluation=EvaluationConfig(
        tasks=("room-train", "room-easy", "room-hard"),
        candidates=("task", "train", "train+task"),
        final_rules=(GAP_RULE, DEFAULT_RULE, SINGLE),
        snapshots=5,
    ),
    seeds=(0,),
    checkpoint_every=50,
    precision="auto",
)

_ROOM_LAPTOP = replace(
    _ROOM_PAPER,
    environment_arguments={"image_size": 42},
    network=NetworkConfig(((16, 6, 4), (32, 3, 2)), memory=128, trunk=(128,), head=(64,)),
    learner=replace(_ROOM_PAPER.learner, environments=64, replay_capacity=100, updates_per_round=16, budget=5_000_000),
    checkpoint_every=200,
    precision="fp32",
)


def _uvfa(config: TrainConfig, policies: str, policies_per_step: int) -> TrainConfig:
    """The same settings for a UVFA, which has no candidate sets."""
    return replace(
        config,
        agent="uvfa",
        learner=replace(config.learner, policies=policies, policies_per_step=policies_per_step),
        evaluation=replace(config.evaluation, candidates=("task",)),
    )


def _sf_gpi(config: TrainConfig) -> TrainConfig:
    """The same settings for SF&GPI: a USFA that learns and acts with the policies of the training tasks only."""
    return replace(
        config,
        learner=replace(config.learner, policies="train", policies_per_step=len(config.tasks)),
        evaluation=replace(config.evaluation, candidates=("train",)),
    )


TRIP_VARIANTS = {
    "usfa": "trip-usfa",
    "uvfa": "trip-uvfa",
    "uvfa-off-policy": "trip-uvfa-off-policy",
    "sf-gpi": "trip-sf-gpi",
}
"""Presets of the learned agents of Section 4.1."""

ROOM_VARIANTS = {
    "usfa": "",
    "uvfa": "-uvfa",
    "uvfa-off-policy": "-uvfa-off-policy",
    "sf-gpi": "-sf-gpi",
    "usfa-sigma-0.5": "-sigma-0.5",
    "usfa-8-tasks": "-8-tasks",
}
"""Suffixes of the presets of the agents of Section 4.3 and Appendix D."""


def _room_variants(name: str, base: TrainConfig) -> dict[str, TrainConfig]:
    """A preset for each of ROOM_VARIANTS, derived from `base`."""
    variants = {
        "usfa": base,
        "usfa-sigma-0.5": replace(base, learner=replace(base.learner, policies="gaussian:0.5")),
        "usfa-8-tasks": replace(base, training_tasks="room-train-large"),
        "sf-gpi": _sf_gpi(base),
        "uvfa": _uvfa(base, "task", 1),
        "uvfa-off-policy": _uvfa(base, "train", len(base.tasks)),
    }
    return {name + ROOM_VARIANTS[variant]: config for variant, config in variants.items()}


PRESETS: dict[str, TrainConfig] = {
    "trip-usfa": _TRIP,
    "trip-uvfa": _uvfa(_TRIP, "task", 1),
    "trip-uvfa-off-policy": _uvfa(_TRIP, "train", 2),
    "trip-sf-gpi": _sf_gpi(_TRIP),
    "one-state-usfa": _ONE_STATE,
    "one-state-uvfa": _uvfa(_ONE_STATE, "train", 3),
    **_room_variants("room-laptop", _ROOM_LAPTOP),
    **_room_variants("room-paper", _ROOM_PAPER),
}
"""Configurations by name; usfa.names describes each in a sentence."""

_VARIANTS = {
    **{f"room-laptop{end}": variant for variant, end in ROOM_VARIANTS.items()},
    **{name: variant for variant, name in TRIP_VARIANTS.items()},
}


def agent_name(config: TrainConfig) -> str:
    """Name of an agent in tables of scores: its variant in the paper, or its kind."""
    for name, variant in _VARIANTS.items():
        if _variant_key(PRESETS[name]) == _variant_key(config):
            return variant
    return text_of(config.agent, "agent")


def _variant_key(config: TrainConfig) -> tuple[object, ...]:
    return config.environment, config.agent, config.training_tasks, config.learner.policies


def preset(name: str) -> TrainConfig:
    if not isinstance(name, str) or name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    return PRESETS[name]


def command_for(config: TrainConfig) -> str:
    """The command that repeats a training: with a preset and changed flags if possible, otherwise with config.json."""
    for name, found in PRESETS.items():
        same = replace(
            found,
            seeds=config.seeds,
            precision=config.precision,
            saved_weights=config.saved_weights,
            learner=replace(found.learner, budget=config.learner.budget),
            evaluation=replace(found.evaluation, snapshots=config.evaluation.snapshots),
        )
        if same == config:
            was, now = _flags(found), _flags(config)
            changed = "".join(f" {flag} {value}" for flag, value in now.items() if was[flag] != value)
            return f"usfa train {name} --seeds {' '.join(map(str, config.seeds))}{changed}"
    return "usfa train config.json"


def _flags(config: TrainConfig) -> dict[str, object]:
    """Values of the settings that :func:`command_for` may change, by flag."""
    return {
        "--learner.budget": config.learner.budget,
        "--evaluation.snapshots": config.evaluation.snapshots,
        "--precision": config.precision,
        "--saved-weights": config.saved_weights,
    }

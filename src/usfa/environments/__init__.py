"""Environments with a vector reward φ, and a batch of them stepped in one process.

Each is imported on first use: the room needs no torch, the tables need no compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from usfa.environments.batch import Batch, Environment, EnvironmentBatch, Step
from usfa.environments.features import feature_names
from usfa.environments.history import History, check_history
from usfa.environments.learned import LEARNED, FrozenPhi, LearnedReward, is_known_phi, known_phi, remember_phi
from usfa.environments.registry import (
    ENVIRONMENTS,
    EnvironmentSource,
    check_trusted,
    make,
    register,
    rewarded,
    similar_environments,
    source,
)
from usfa.environments.rewards import RewardVector, reward_texts, runs_code
from usfa.environments.spaces import ObservationSpec, action_count, feature_count, step_limit
from usfa.environments.vector_reward import Phi, PhiSource, VectorReward

if TYPE_CHECKING:
    from usfa.environments.check import check_environment
    from usfa.environments.check_steps import Finding
    from usfa.environments.room import Room, RoomBatch, RoomRules
    from usfa.environments.tabular import OneState, TabularEnv, Trip, one_state_mdp, trip_mdp

__all__ = [
    "ENVIRONMENTS",
    "LEARNED",
    "Batch",
    "Environment",
    "EnvironmentBatch",
    "EnvironmentSource",
    "Finding",
    "FrozenPhi",
    "History",
    "LearnedReward",
    "ObservationSpec",
    "OneState",
    "Phi",
    "PhiSource",
    "RewardVector",
    "Room",
    "RoomBatch",
    "RoomRules",
    "Step",
    "TabularEnv",
    "Trip",
    "VectorReward",
    "action_count",
    "check_environment",
    "check_history",
    "check_trusted",
    "feature_count",
    "feature_names",
    "is_known_phi",
    "known_phi",
    "make",
    "one_state_mdp",
    "register",
    "remember_phi",
    "reward_texts",
    "rewarded",
    "runs_code",
    "similar_environments",
    "source",
    "step_limit",
    "trip_mdp",
]

_LATER = {
    "Finding": "check_steps",
    "OneState": "tabular",
    "Room": "room",
    "RoomBatch": "room",
    "RoomRules": "room",
    "TabularEnv": "tabular",
    "Trip": "tabular",
    "check_environment": "check",
    "one_state_mdp": "tabular",
    "trip_mdp": "tabular",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)

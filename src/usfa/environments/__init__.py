"""Environments with a vector reward φ, and a batch of them stepped in one process.

Each is imported when it is first asked for: the room needs no torch, the tables no compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from usfa.environments.batch import Batch, Environment, EnvironmentBatch, Step
from usfa.environments.registry import (
    ENVIRONMENTS,
    EnvironmentSource,
    check_trusted,
    make,
    register,
    similar_environments,
    source,
)
from usfa.environments.spaces import ObservationSpec, action_count, feature_count, step_limit
from usfa.environments.vector_reward import Phi, PhiSource, VectorReward

if TYPE_CHECKING:
    from usfa.environments.checking import Finding, check_environment
    from usfa.environments.one_state import OneState, one_state_mdp
    from usfa.environments.room import Room, RoomBatch, RoomRules
    from usfa.environments.tabular import TabularEnv
    from usfa.environments.trip import Trip, trip_mdp

__all__ = [
    "ENVIRONMENTS",
    "Batch",
    "Environment",
    "EnvironmentBatch",
    "EnvironmentSource",
    "Finding",
    "ObservationSpec",
    "OneState",
    "Phi",
    "PhiSource",
    "Room",
    "RoomBatch",
    "RoomRules",
    "Step",
    "TabularEnv",
    "Trip",
    "VectorReward",
    "action_count",
    "check_environment",
    "check_trusted",
    "feature_count",
    "make",
    "one_state_mdp",
    "register",
    "similar_environments",
    "source",
    "step_limit",
    "trip_mdp",
]

_LATER = {
    "Finding": "checking",
    "OneState": "one_state",
    "Room": "room",
    "RoomBatch": "room",
    "RoomRules": "room",
    "TabularEnv": "tabular",
    "Trip": "trip",
    "check_environment": "checking",
    "one_state_mdp": "one_state",
    "trip_mdp": "trip",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)

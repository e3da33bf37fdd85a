"""Environments with a vector reward φ, and a batch of them stepped in one process."""

from usfa.environments.batch import Environment, EnvironmentBatch, Step
from usfa.environments.one_state import OneState, one_state_mdp
from usfa.environments.registry import ENVIRONMENTS, check_trusted, make
from usfa.environments.spaces import ObservationSpec, action_count, feature_count
from usfa.environments.tabular import TabularEnv
from usfa.environments.trip import Trip, trip_mdp

__all__ = [
    "ENVIRONMENTS",
    "Environment",
    "EnvironmentBatch",
    "ObservationSpec",
    "OneState",
    "Step",
    "TabularEnv",
    "Trip",
    "action_count",
    "check_trusted",
    "feature_count",
    "make",
    "one_state_mdp",
    "trip_mdp",
]

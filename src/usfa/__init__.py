"""Zero-shot multitask reinforcement learning with universal successor features approximators.

agent = usfa.load("trip")                      # a shipped agent, or any run directory
policy = agent.policy(task=[0.7, 0.7])         # any real vector, negative entries included
action = policy(observation, legal=info["action_mask"])

Modules are imported when one of their names is first used, so that using an environment alone does not load PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from usfa.errors import InputError
from usfa.version import __version__

if TYPE_CHECKING:
    from usfa.agents import AGENTS, Agent, Policy, TrainedAgent, UsfaAgent
    from usfa.cluster import ClusterConfig
    from usfa.decisions import Decision, Rule, Situation
    from usfa.environments import check_environment, make, register
    from usfa.evaluation import evaluate
    from usfa.functional import infer_task
    from usfa.learning import LearnerConfig
    from usfa.networks import NETWORKS, TRUNKS, Network, NetworkConfig, Trunk
    from usfa.phi import LearnedPhi, PhiLearner, PhiModel, TaskStream
    from usfa.runs import (
        Callback,
        EvaluationConfig,
        FeaturesConfig,
        TrainConfig,
        export,
        learn_features,
        load,
        load_features,
        preset,
        settings_for,
        train,
    )
    from usfa.samplers import PolicySampler

__all__ = [
    "AGENTS",
    "NETWORKS",
    "TRUNKS",
    "Agent",
    "Callback",
    "ClusterConfig",
    "Decision",
    "EvaluationConfig",
    "FeaturesConfig",
    "InputError",
    "LearnedPhi",
    "LearnerConfig",
    "Network",
    "NetworkConfig",
    "PhiLearner",
    "PhiModel",
    "Policy",
    "PolicySampler",
    "Rule",
    "Situation",
    "TaskStream",
    "TrainConfig",
    "TrainedAgent",
    "Trunk",
    "UsfaAgent",
    "__version__",
    "check_environment",
    "evaluate",
    "export",
    "infer_task",
    "learn_features",
    "load",
    "load_features",
    "make",
    "preset",
    "register",
    "settings_for",
    "train",
]

_EXPORTS = {
    "agents": ("AGENTS", "Agent", "Policy", "TrainedAgent", "UsfaAgent"),
    "cluster": ("ClusterConfig",),
    "decisions": ("Decision", "Rule", "Situation"),
    "environments": ("check_environment", "make", "register"),
    "evaluation": ("evaluate",),
    "functional": ("infer_task",),
    "learning": ("LearnerConfig",),
    "networks": ("NETWORKS", "TRUNKS", "Network", "NetworkConfig", "Trunk"),
    "phi": ("LearnedPhi", "PhiLearner", "PhiModel", "TaskStream"),
    "runs": (
        *("Callback", "EvaluationConfig", "FeaturesConfig", "TrainConfig", "export", "learn_features", "load"),
        *("load_features", "preset", "settings_for", "train"),
    ),
    "samplers": ("PolicySampler",),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

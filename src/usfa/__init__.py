"""Zero-shot multitask reinforcement learning with universal successor features approximators.

agent = usfa.load("trip")                      # a shipped agent, or any run directory
policy = agent.policy(task=[0.7, 0.7])         # any real vector, negative entries included
action = policy(observation, legal=info["action_mask"])

What needs torch is imported when it is first asked for, so that an environment alone starts at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from usfa.errors import InputError
from usfa.version import __version__

if TYPE_CHECKING:
    from usfa.agents import Policy, TrainedAgent
    from usfa.evaluation import evaluate
    from usfa.functional import infer_task
    from usfa.runs import TrainConfig, load, preset, train

__all__ = [
    "InputError",
    "Policy",
    "TrainConfig",
    "TrainedAgent",
    "__version__",
    "evaluate",
    "infer_task",
    "load",
    "preset",
    "train",
]

_LATER = {
    "Policy": "agents",
    "TrainConfig": "runs",
    "TrainedAgent": "agents",
    "evaluate": "evaluation",
    "infer_task": "functional",
    "load": "runs",
    "preset": "runs",
    "train": "runs",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

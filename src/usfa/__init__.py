"""Zero-shot multitask reinforcement learning with universal successor features approximators.

agent = usfa.load("trip")                      # a shipped agent, or any run directory
policy = agent.policy(task=[0.7, 0.7])         # any real vector, negative entries included
action = policy(observation)
"""

from usfa.agents import Policy, TrainedAgent
from usfa.errors import InputError
from usfa.evaluation import evaluate
from usfa.experiments import TrainConfig, load, preset, train
from usfa.functional import infer_task
from usfa.version import __version__

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

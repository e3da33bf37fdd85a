"""Learning: Algorithm 1, its rollouts, replay and settings."""

from usfa.learning.config import LearnerConfig, check_environments
from usfa.learning.draws import ActorSeeds, CurrentTasks, Draws
from usfa.learning.hardware import choose_device, choose_precision
from usfa.learning.learner import Acting, Learner, LocalActing, Update
from usfa.learning.replay import bytes_of_past, check_replay
from usfa.learning.rollout import Collected, Rollout

__all__ = [
    "Acting",
    "ActorSeeds",
    "Collected",
    "CurrentTasks",
    "Draws",
    "Learner",
    "LearnerConfig",
    "LocalActing",
    "Rollout",
    "Update",
    "bytes_of_past",
    "check_environments",
    "check_replay",
    "choose_device",
    "choose_precision",
]

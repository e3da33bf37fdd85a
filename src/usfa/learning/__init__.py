"""Learners: trajectories in, better parameters out."""

from usfa.learning.adam import Adam
from usfa.learning.config import LearnerConfig, check_environments
from usfa.learning.hardware import Precision, choose_device, choose_precision
from usfa.learning.learner import Improver, Update
from usfa.learning.replay import bytes_of_past, check_replay
from usfa.learning.single import Learner

__all__ = [
    "Adam",
    "Improver",
    "Learner",
    "LearnerConfig",
    "Precision",
    "Update",
    "bytes_of_past",
    "check_environments",
    "check_replay",
    "choose_device",
    "choose_precision",
]

"""Learners: trajectories in, better parameters out."""

from usfa.learners.adam import Adam
from usfa.learners.config import LearnerConfig, check_environments
from usfa.learners.hardware import Precision, choose_device, choose_precision
from usfa.learners.improver import Improver, Update
from usfa.learners.replay import bytes_of_past, check_replay
from usfa.learners.single import Learner

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

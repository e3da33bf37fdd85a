"""Learners: trajectories in, better parameters out."""

from usfa.learners.adam import Adam
from usfa.learners.config import TASKS_OF_M, LearnerConfig, check_environments
from usfa.learners.hardware import Precision, choose_device, choose_precision
from usfa.learners.replay import check_replay
from usfa.learners.single import Learner, Update

__all__ = [
    "TASKS_OF_M",
    "Adam",
    "Learner",
    "LearnerConfig",
    "Precision",
    "Update",
    "check_environments",
    "check_replay",
    "choose_device",
    "choose_precision",
]

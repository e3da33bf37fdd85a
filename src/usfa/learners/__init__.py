"""Learners: trajectories in, better parameters out."""

from usfa.learners.adam import Adam
from usfa.learners.config import LearnerConfig
from usfa.learners.hardware import Precision, choose_device, choose_precision
from usfa.learners.single import Learner, Update

__all__ = ["Adam", "Learner", "LearnerConfig", "Precision", "Update", "choose_device", "choose_precision"]

"""Learners: trajectories in, better parameters out."""

from usfa.learners.adam import Adam
from usfa.learners.single import Learner, LearnerConfig, Update

__all__ = ["Adam", "Learner", "LearnerConfig", "Update"]

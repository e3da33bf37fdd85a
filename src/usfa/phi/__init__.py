"""Learned features φ: from the rewards of several tasks, or without any reward."""

from usfa.phi.collecting import Behaviour, RandomActions, collect
from usfa.phi.data import Transitions, concatenated
from usfa.phi.learned import PHI_FILES, LearnedPhi, PhiReport, check_features, learn_phi, load_phi, predict
from usfa.phi.learners import (
    LeastSquares,
    NetworkFit,
    NoProgress,
    PhiLearner,
    Progress,
    RewardsThemselves,
    default_learner,
)
from usfa.phi.model import PHI_MODELS, LinearPhi, NetworkPhi, PhiModel, PhiSpec, RewardsPhi
from usfa.phi.reading import read_transitions
from usfa.phi.stream import TaskEstimate, TaskStream
from usfa.phi.unsupervised import Contrastive, Laplacian, RandomFeatures

__all__ = [
    "PHI_FILES",
    "PHI_MODELS",
    "Behaviour",
    "Contrastive",
    "Laplacian",
    "LearnedPhi",
    "LeastSquares",
    "LinearPhi",
    "NetworkFit",
    "NetworkPhi",
    "NoProgress",
    "PhiLearner",
    "PhiModel",
    "PhiReport",
    "PhiSpec",
    "Progress",
    "RandomActions",
    "RandomFeatures",
    "RewardsPhi",
    "RewardsThemselves",
    "TaskEstimate",
    "TaskStream",
    "Transitions",
    "check_features",
    "collect",
    "concatenated",
    "default_learner",
    "learn_phi",
    "load_phi",
    "predict",
    "read_transitions",
]

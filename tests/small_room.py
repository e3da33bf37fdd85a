"""A room in which recurrent agents learn in seconds: 16×16 pixels, 5×5 metres, two TVs and two balls.

They walk and turn twice as fast as the paper's, so that what they did is sooner followed by what it was good for.
"""

import numpy as np
import torch

from usfa.agents import AgentSpec
from usfa.environments import ObservationSpec, source
from usfa.learning import LearnerConfig
from usfa.learning.rollout import Rollout
from usfa.networks import NetworkConfig

DECISIONS = 60
ROOM = source("room", image_size=16, side=5.0, types=2, objects_per_type=2, decisions=DECISIONS, speed=0.5, turn=0.42)
SPEC = AgentSpec(ObservationSpec((16, 16, 3)), 8, 2)
NETWORK = NetworkConfig(((8, 4, 2), (16, 3, 2)), memory=16, trunk=(32,), embedding=(16,), head=(32,), normalise=True)
LEARNER = LearnerConfig(
    policies="gaussian:0.1",
    policies_per_step=5,
    environments=16,
    tasks="fixed",
    trajectory_length=16,
    updates_per_round=8,
    lambda_=0.9,
    gamma=0.85,
    epsilon=0.2,
    learning_rate=1e-3,
    clip=1.0,
    budget=36_000,
    budget_unit="frames",
)


def collected(learner, epsilon):
    """Mean objects per episode, wanted and other, in 80 rooms that were not trained in; half of them for each task."""
    task = np.arange(80) % 2
    w = torch.eye(2)[task][None]
    batch = ROOM.batch(range(10**6, 10**6 + 80), gamma=1.0)
    rollout = Rollout(learner.agent, learner.network, batch, DECISIONS)
    found = rollout.collect(w, w[:, :, None], epsilon, [np.random.default_rng(0)])
    phi = found.episode_phi[np.argsort(found.episode_environment)]
    return phi[np.arange(80), task].mean(), phi[np.arange(80), 1 - task].mean()

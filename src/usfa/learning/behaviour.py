"""Acting to learn: the half of Algorithm 1 that a process of its own can do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import Agent
from usfa.environments import EnvironmentSource
from usfa.learning.config import LearnerConfig
from usfa.learning.draws import Draws
from usfa.learning.hardware import Precision, autocast
from usfa.learning.rollout import Collected, Rollout
from usfa.networks import Parameters

__all__ = ["Behaviour"]


class Behaviour:
    """Environments of all runs, acted on ε-greedily by GPI."""

    def __init__(
        self,
        agent: Agent,
        config: LearnerConfig,
        environments: EnvironmentSource,
        training_tasks: NDArray[np.float64],
        seeds: Sequence[Sequence[int]],
        device: torch.device | None = None,
    ) -> None:
        """`seeds` are those of the environments, a sequence for every run."""
        self._epsilons = config.epsilons
        self._device = device or torch.device("cpu")
        self._draws = Draws(config, training_tasks, self._device)
        batch = environments.batch([seed for run in seeds for seed in run], config.gamma)
        self.rollout = Rollout(agent, batch, len(seeds), config.trajectory_length, self._device)

    def collect(
        self, parameters: Parameters, precision: Precision, rngs: Sequence[np.random.Generator]
    ) -> tuple[Collected, Tensor]:
        """Algorithm 1, lines 3-8, for every run and environment at once: what happened, and the policies z."""
        w = self._draws.tasks(rngs)  # line 3
        z = self._draws.policies(w, rngs)  # lines 4-5
        with autocast(self._device, precision):
            return self.rollout.collect(parameters, w, z, self._epsilons, rngs), z  # lines 6-8

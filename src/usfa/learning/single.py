"""The learner of one process. With trajectories of one step it is the paper's Algorithm 1, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import Agent
from usfa.environments import EnvironmentSource
from usfa.errors import InputError
from usfa.learning.behaviour import Behaviour
from usfa.learning.config import LearnerConfig
from usfa.learning.hardware import Precision
from usfa.learning.learner import Improver, Update
from usfa.learning.rollout import Rollout
from usfa.learning.seeds import Streams

__all__ = ["Learner"]


class Learner(Improver):
    """Trains one agent for each seed, all at once: acts, then learns from it."""

    def __init__(
        self,
        agent: Agent,
        config: LearnerConfig,
        environments: EnvironmentSource,
        training_tasks: NDArray[np.float64],
        seeds: Sequence[int],
        device: torch.device | None = None,
        precision: Precision = "fp32",
    ) -> None:
        super().__init__(agent, config, training_tasks, seeds, device, precision)
        worlds = [Streams(seed, config.environments).environments for seed in self.seeds]
        self._behaviour = Behaviour(agent, config, environments, training_tasks, worlds, self.device)

    def step(self) -> Update:
        """Algorithm 1, lines 3-12, for every run and environment at once."""
        collected, z = self._behaviour.collect(self.parameters, self.precision, self.rngs)  # lines 3-8
        return self.learn(collected, z)  # lines 9-11

    @property
    def rollout(self) -> Rollout:
        return self._behaviour.rollout

    def close(self) -> None:
        self.rollout.batch.close()

    @property
    def saves_exactly(self) -> bool:
        return self.rollout.batch.saves_exactly

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, counters = super().state()
        return tensors, counters | {"environments": self.rollout.batch.state()}

    def load_state(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        if "environments" not in counters:
            raise InputError("The run was begun with --cluster; expected the same to go on with it.")
        super().load_state(tensors, counters)
        self.rollout.batch.load_state(counters["environments"])

    def _tensor_groups(self) -> dict[str, dict[str, Tensor]]:
        return super()._tensor_groups() | {"rollout": self.rollout.tensors()}

"""Randomness of training: the streams of a seed, and the tasks and policies drawn from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.learning.config import LearnerConfig, check_environments
from usfa.samplers import parse_sampler
from usfa.tasks import TASKS_OF_M

__all__ = ["ActorSeeds", "CurrentTasks", "Draws", "Seeds"]

ACTORS = 3  # spawn key of the streams of actors; Seeds uses keys 0 to 2


class Seeds:
    """Independent random streams of one run: weights, behaviour, and a seed for every environment."""

    def __init__(self, seed: int, environments: int) -> None:
        weights, behaviour, worlds = np.random.SeedSequence(seed).spawn(3)
        self.weights = int(weights.generate_state(1, np.uint64)[0] >> np.uint64(1))
        self.behaviour = np.random.default_rng(behaviour)
        self.environments = [int(state) for state in worlds.generate_state(environments)]


class ActorSeeds:
    """Independent random streams of an actor on a cluster; `key` is different for each actor and each replacement."""

    def __init__(self, seed: int, environments: int, key: Sequence[int]) -> None:
        behaviour, worlds = np.random.SeedSequence(seed, spawn_key=(ACTORS, *key)).spawn(2)
        self.behaviour = np.random.default_rng(behaviour)
        self.environments = [int(state) for state in worlds.generate_state(environments)]


class Draws:
    """Draws of tasks from M and of policies from D_z, with a generator per run."""

    def __init__(self, config: LearnerConfig, training_tasks: NDArray[np.float64], device: torch.device) -> None:
        check_environments(config, training_tasks)
        self._config = config
        self._training_tasks = training_tasks
        self._sampler = parse_sampler(config.policies, training_tasks)
        self._task_sampler = None if config.tasks in TASKS_OF_M else parse_sampler(config.tasks, training_tasks)
        self._device = device

    def tasks(self, rngs: Sequence[np.random.Generator]) -> Tensor:
        """w of every environment, [R, B, D], drawn as `LearnerConfig.tasks` describes."""
        count, size = len(self._training_tasks), self._config.environments
        if self._config.tasks == "fixed":
            chosen = [np.arange(size) % count] * len(rngs)
        else:
            chosen = [rng.integers(count, size=size) for rng in rngs]
        w = self._training_tasks[np.stack(chosen)]
        if self._task_sampler is not None:
            w = np.stack([self._task_sampler.sample(w[run], 1, rng)[:, 0] for run, rng in enumerate(rngs)])
        return self._tensor(w)

    def policies(self, w: Tensor, rngs: Sequence[np.random.Generator]) -> Tensor:
        """z_1..z_n from D_z(·|w), [R, B, N, D]."""
        tasks, n = w.cpu().double().numpy(), self._config.policies_per_step
        return self._tensor(np.stack([self._sampler.sample(tasks[run], n, rng) for run, rng in enumerate(rngs)]))

    def _tensor(self, values: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(values).float().to(self._device)


class CurrentTasks:
    """The task of every environment in R runs: a new one for every trajectory, or for every episode."""

    def __init__(self, draws: Draws, config: LearnerConfig, runs: int, features: int, device: torch.device) -> None:
        self.w = torch.zeros((runs, config.environments, features), device=device)
        self.over = torch.ones((runs, config.environments), dtype=torch.bool, device=device)
        self._draws = draws
        self._keeps = config.task_duration == "episode"
        # An endless episode must not keep one task for ever, so tasks also change after 1/(1-γ) steps on average.
        self._change = min(1.0, config.trajectory_length * (1 - config.gamma))

    def next(self, rngs: Sequence[np.random.Generator]) -> Tensor:
        """w for the next trajectory, [R, B, D]."""
        drawn = self._draws.tasks(rngs)
        if not self._keeps:
            return drawn
        changes = np.stack([rng.random(drawn.shape[1]) < self._change for rng in rngs])
        renewed = self.over | torch.from_numpy(changes).to(self.over.device)
        self.w.copy_(torch.where(renewed[..., None], drawn, self.w))
        return self.w.clone()

    def ended(self, environments: NDArray[np.int64]) -> None:
        """Record the environments, 0 to R·B-1, in which episodes ended in the last trajectory."""
        self.over.zero_()
        self.over.view(-1)[torch.from_numpy(environments).to(self.over.device)] = True

    def tensors(self) -> dict[str, Tensor]:
        """State tensors, to read and write in place; empty if every trajectory has a new task."""
        return {"w": self.w, "over": self.over} if self._keeps else {}

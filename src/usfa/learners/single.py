"""The learner of one process. With trajectories of one step it is the paper's Algorithm 1, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import Agent
from usfa.environments import EnvironmentSource
from usfa.errors import Diverged
from usfa.learners.adam import Adam, clip, flatten
from usfa.learners.config import TASKS_OF_M, LearnerConfig, check_environments
from usfa.learners.hardware import Precision, autocast
from usfa.learners.replay import Replay, join, part
from usfa.networks import Parameters, over_runs, stack_runs
from usfa.rollout import Rollout
from usfa.tasks import parse_sampler
from usfa.trajectory import Trajectory

__all__ = ["Learner", "Update"]

LARGEST_LOSS = 1e6  # squared errors of returns; what grows past it does not come back


class Update(NamedTuple):
    """What one round of updates did."""

    loss: NDArray[np.float32]  # [R]     mean over the round
    gradient: NDArray[np.float32]  # [R]     its length before clipping, mean over the round
    episode_phi: NDArray[np.float64]  # [K, D]  Σφ of the episodes that ended
    episode_environment: NDArray[np.int64]  # [K]     where, of the R·B environments


class Learner:
    """Trains one agent for each seed, all at once: no run depends on its neighbours."""

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
        self.agent = agent
        self.config = config
        self.training_tasks = training_tasks
        self.sampler = parse_sampler(config.policies, training_tasks)
        self.task_sampler = None if config.tasks in TASKS_OF_M else parse_sampler(config.tasks, training_tasks)
        self.epsilons = config.epsilons
        self.seeds = tuple(seeds)
        self.device = device or torch.device("cpu")
        self.precision = precision
        check_environments(config, training_tasks)
        runs = len(self.seeds)
        streams = [_Streams(seed, config.environments) for seed in self.seeds]
        self.rngs = [stream.behaviour for stream in streams]
        self.parameters = stack_runs([agent.initial_parameters(stream.weights) for stream in streams])
        self.parameters = {name: x.to(self.device).requires_grad_() for name, x in self.parameters.items()}
        self.older = {} if config.target_every is None and config.average is None else _copy(self.parameters)
        self.adam = Adam(self.parameters)
        batch = environments.batch([seed for stream in streams for seed in stream.environments], config.gamma)
        self.rollout = Rollout(agent, batch, runs, config.trajectory_length, self.device)
        self.replay = Replay(config.replay_capacity)
        self.frames = np.zeros(runs, np.int64)
        self.episodes = np.zeros(runs, np.int64)

    def step(self) -> Update:
        """Algorithm 1, lines 3-12, for every run and environment at once."""
        w = self._sample_tasks()  # line 3
        z = self._sample_policies(w)  # lines 4-5
        with autocast(self.device, self.precision):
            collected = self.rollout.collect(self.parameters, w, z, self.epsilons, self.rngs)  # lines 6-8
        trajectory, z = self._with_past(collected.trajectory, z)
        losses, gradients = self._improve(trajectory, z)  # lines 9-11
        self.frames += collected.frames
        self.episodes += collected.episodes
        self._check(losses)
        return Update(losses, gradients, collected.episode_phi, collected.episode_environment)

    def _sample_tasks(self) -> Tensor:
        """w of every environment, [R, B, D]: uniformly from M, or M in turn, or from a distribution."""
        count, size = len(self.training_tasks), self.config.environments
        if self.config.tasks == "fixed":
            chosen = [np.arange(size) % count] * len(self.rngs)
        else:
            chosen = [rng.integers(count, size=size) for rng in self.rngs]
        w = self.training_tasks[np.stack(chosen)]
        if self.task_sampler is not None:
            w = np.stack([self.task_sampler.sample(w[run], 1, rng)[:, 0] for run, rng in enumerate(self.rngs)])
        return self._tensor(w)

    def _tensor(self, values: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(values).float().to(self.device)

    def _sample_policies(self, w: Tensor) -> Tensor:
        """z_1..z_n from D_z(·|w), [R, B, N, D]."""
        tasks, n = w.cpu().double().numpy(), self.config.policies_per_step
        return self._tensor(np.stack([self.sampler.sample(tasks[run], n, rng) for run, rng in enumerate(self.rngs)]))

    def _with_past(self, fresh: Trajectory, z: Tensor) -> tuple[Trajectory, Tensor]:
        """The fresh trajectory joined by past ones, for which policies are drawn anew."""
        if not self.config.reuse:
            return fresh, z
        self.replay.add(fresh)
        past = self.replay.sample(self.config.reuse, self.rngs)
        return join(fresh, past), torch.cat([z, self._sample_policies(past.w)], dim=1)

    def _improve(self, trajectory: Trajectory, z: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """A step of Adam on each part of the environments; returns losses and lengths of gradients, [R] each."""
        parts = self.config.updates_per_round
        done = [self._update(part(trajectory, k, parts), part_of_z) for k, part_of_z in enumerate(z.chunk(parts, 1))]
        losses, gradients = torch.stack([torch.stack(both) for both in done]).mean(dim=0)
        return losses.cpu().numpy(), gradients.cpu().numpy()

    def _update(self, trajectory: Trajectory, z: Tensor) -> tuple[Tensor, Tensor]:
        loss_of_runs = over_runs(self._loss_of_one_run, self.parameters, self.agent.batches_runs)
        with autocast(self.device, self.precision):
            loss: Tensor = loss_of_runs(trajectory, z, self.older)
        gradient = flatten(torch.autograd.grad(loss.sum(), list(self.parameters.values())))
        length = clip(gradient, self.config.clip)
        self.adam.step(self.parameters, gradient, self._learning_rates())
        self._renew_older()
        return loss.detach(), length

    @torch.no_grad()
    def _renew_older(self) -> None:
        if self.config.average is not None:
            share = self._tensor(np.where(self.progress < self.config.budget, self.config.average, 0.0))
            for name, x in self.older.items():
                x.lerp_(self.parameters[name], share.view(-1, *[1] * (x.dim() - 1)))
        elif self.config.target_every is not None and self.updates % self.config.target_every == 0:
            self.older = _copy(self.parameters)

    @property
    def best_parameters(self) -> Parameters:
        """What to act with when learning is over: the average if there is one."""
        return self.older if self.config.average is not None else self.parameters

    def _loss_of_one_run(self, parameters: Parameters, trajectory: Trajectory, z: Tensor, older: Parameters) -> Tensor:
        return self.agent.loss(parameters, trajectory, z, self.config.lambda_, older or None, self.config.along_z)

    def _learning_rates(self) -> Tensor:
        remaining = np.clip(1 - self.progress / self.config.budget, 0, 1)
        return self._tensor(self.config.learning_rate * remaining)

    def _check(self, losses: NDArray[np.float32]) -> None:
        for seed, loss in zip(self.seeds, losses.tolist(), strict=True):
            if not loss <= LARGEST_LOSS:  # NaN is not either
                raise Diverged(f"The loss of seed {seed} is {loss:g} after {self.updates} updates")

    def check_parameters(self) -> None:
        """Diverged if any parameter is not finite: such a state is not worth keeping."""
        for name, x in self.parameters.items():
            if not bool(x.isfinite().all()):
                raise Diverged(f"The parameter {name} is not finite after {self.updates} updates")

    @property
    def updates(self) -> int:
        """Steps of Adam so far."""
        return self.adam.updates

    @property
    def rounds(self) -> int:
        """Calls of :meth:`step` so far."""
        return self.updates // self.config.updates_per_round

    @property
    def progress(self) -> NDArray[np.int64]:
        """How far every run is, [R], in the unit of the budget."""
        return self.episodes if self.config.budget_unit == "episodes" else self.frames

    @property
    def done(self) -> bool:
        """Every run has used its budget; those that were there earlier stood still since."""
        return bool((self.progress >= self.config.budget).all())

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the next update depends on: tensors, and what fits into JSON."""
        tensors: dict[str, Tensor] = {}
        for group, members in self._tensor_groups().items():
            tensors |= {f"{group}/{name}": tensor.detach() for name, tensor in members.items()}
        replayed, added = self.replay.state()
        tensors |= {f"replay/{name}": tensor for name, tensor in replayed.items()}
        counters = {
            "updates": self.updates,
            "replayed": added,
            "precision": self.precision,
            "frames": self.frames.tolist(),
            "episodes": self.episodes.tolist(),
            "rngs": [rng.bit_generator.state for rng in self.rngs],
            "environments": self.rollout.batch.state(),
        }
        return tensors, counters

    def load_state(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        """Go on where :meth:`state` was taken, to the bit."""
        with torch.no_grad():
            for group, members in self._tensor_groups().items():
                for name, tensor in members.items():
                    tensor.copy_(tensors[f"{group}/{name}"])
        replayed = {name.removeprefix("replay/"): x for name, x in tensors.items() if name.startswith("replay/")}
        self.replay.load_state(replayed, counters["replayed"])
        self.adam.updates = counters["updates"]
        self.precision = counters["precision"]
        self.frames[:] = counters["frames"]
        self.episodes[:] = counters["episodes"]
        for rng, state in zip(self.rngs, counters["rngs"], strict=True):
            rng.bit_generator.state = state
        self.rollout.batch.load_state(counters["environments"])

    def _tensor_groups(self) -> dict[str, dict[str, Tensor]]:
        return {
            "parameters": self.parameters,
            "older": self.older,
            "adam": {"mean": self.adam.mean, "square": self.adam.square},
            "rollout": self.rollout.tensors(),
        }


def _copy(parameters: Parameters) -> Parameters:
    return {name: x.detach().clone() for name, x in parameters.items()}


class _Streams:
    """The independent random streams of one seed."""

    def __init__(self, seed: int, environments: int) -> None:
        weights, behaviour, worlds = np.random.SeedSequence(seed).spawn(3)
        self.weights = torch.Generator().manual_seed(int(weights.generate_state(1, np.uint64)[0] >> np.uint64(1)))
        self.behaviour = np.random.default_rng(behaviour)
        self.environments = [int(state) for state in worlds.generate_state(environments)]

"""The learner of one process. With trajectories of one step it is the paper's Algorithm 1, line by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import Agent
from usfa.environments import Environment, EnvironmentBatch
from usfa.errors import InputError
from usfa.learners.adam import Adam
from usfa.learners.replay import Replay, join
from usfa.networks import Parameters, over_runs, stack_runs
from usfa.rollout import Rollout
from usfa.tasks import parse_sampler
from usfa.trajectory import Trajectory

__all__ = ["Learner", "LearnerConfig", "Update"]


@dataclass(frozen=True)
class LearnerConfig:
    """How to learn."""

    policies: str = "gaussian:0.1"
    """D_z, what z are drawn from: gaussian:VARIANCE, box:LOW,HIGH, simplex, points:Z;Z, train (M), task (z = w)."""
    policies_per_step: int = 30
    """n_z."""
    environments: int = 1
    """Environments per run."""
    trajectory_length: int = 1
    """T, the steps between two updates; 1 is Algorithm 1."""
    lambda_: float = 0.9
    """λ of Watkins' Q(λ); without effect for T = 1."""
    gamma: float = 0.95
    """Discount γ."""
    epsilon: float = 0.1
    """Probability of a random action."""
    reuse: int = 0
    """Past trajectories that each update learns from again, besides the fresh one; 0 is Algorithm 1."""
    replay_capacity: int = 10_000
    """How many past trajectories are kept for that, per run."""
    learning_rate: float = 1e-3
    """Step size of Adam at the start; it falls linearly to 0 over the budget."""
    budget: int = 1000
    """How long each run trains, in the unit below."""
    budget_unit: Literal["episodes", "frames"] = "episodes"
    """What the budget and all snapshots count: episodes ended, or environment steps."""

    def __post_init__(self) -> None:
        at_least_one = ("policies_per_step", "environments", "trajectory_length", "budget")
        for name in at_least_one:
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least 1.")
        for name in ("lambda_", "epsilon"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected a number from 0 to 1.")
        if not 0 < self.gamma <= 1:
            raise InputError(f"gamma is {self.gamma}; expected a number above 0, at most 1.")
        if self.reuse < 0 or self.replay_capacity < 1:
            raise InputError(f"reuse is {self.reuse} of {self.replay_capacity} trajectories; expected 0 or more of 1.")
        if not 0 < self.learning_rate < float("inf"):
            raise InputError(f"learning_rate is {self.learning_rate}; expected a positive number.")


class Update(NamedTuple):
    """What one update did."""

    loss: NDArray[np.float32]  # [R]
    episode_phi: NDArray[np.float64]  # [K, D]  Σφ of the episodes that ended


class Learner:
    """Trains one agent for each seed, all at once: no run depends on its neighbours."""

    def __init__(
        self,
        agent: Agent,
        config: LearnerConfig,
        make_environment: Callable[[], Environment],
        training_tasks: NDArray[np.float64],
        seeds: Sequence[int],
    ) -> None:
        self.agent = agent
        self.config = config
        self.training_tasks = training_tasks
        self.sampler = parse_sampler(config.policies, training_tasks)
        self.seeds = tuple(seeds)
        runs = len(self.seeds)
        streams = [_Streams(seed, config.environments) for seed in self.seeds]
        self.rngs = [stream.behaviour for stream in streams]
        self.parameters = stack_runs([agent.initial_parameters(stream.weights) for stream in streams])
        for parameter in self.parameters.values():
            parameter.requires_grad_()
        self.adam = Adam(self.parameters)
        batch = EnvironmentBatch(
            [make_environment() for _ in range(runs * config.environments)],
            config.gamma,
            [seed for stream in streams for seed in stream.environments],
        )
        self.rollout = Rollout(agent, batch, runs, config.trajectory_length)
        self.replay = Replay(config.replay_capacity)
        self.frames = np.zeros(runs, np.int64)
        self.episodes = np.zeros(runs, np.int64)
        self.updates = 0
        self._loss = over_runs(self._loss_of_one_run, runs)

    def step(self) -> Update:
        """Algorithm 1, lines 3-12, for every run and environment at once."""
        w = self._sample_tasks()  # line 3
        z = self._sample_policies(w)  # lines 4-5
        collected = self.rollout.collect(self.parameters, w, z, self.config.epsilon, self.rngs)  # lines 6-8
        loss = self._improve(*self._with_past(collected.trajectory, z)).numpy()  # lines 9-11
        self.frames += collected.frames
        self.episodes += collected.episodes
        self.updates += 1
        if not np.isfinite(loss).all():
            lost = [seed for seed, finite in zip(self.seeds, np.isfinite(loss), strict=True) if not finite]
            raise InputError(
                f"The loss of seeds {lost} is not finite after {self.updates} updates; lower learning_rate."
            )
        return Update(loss, collected.episode_phi)

    def _sample_tasks(self) -> Tensor:
        """w uniformly from M, [R, B, D]."""
        chosen = [rng.integers(len(self.training_tasks), size=self.config.environments) for rng in self.rngs]
        return torch.from_numpy(self.training_tasks[np.stack(chosen)]).float()

    def _sample_policies(self, w: Tensor) -> Tensor:
        """z_1..z_n from D_z(·|w), [R, B, N, D]."""
        tasks, n = w.double().numpy(), self.config.policies_per_step
        drawn = [self.sampler.sample(tasks[run], n, rng) for run, rng in enumerate(self.rngs)]
        return torch.from_numpy(np.stack(drawn)).float()

    def _with_past(self, fresh: Trajectory, z: Tensor) -> tuple[Trajectory, Tensor]:
        """The fresh trajectory joined by past ones, for which policies are drawn anew."""
        if not self.config.reuse:
            return fresh, z
        self.replay.add(fresh)
        past = self.replay.sample(self.config.reuse, self.rngs)
        return join(fresh, past), torch.cat([z, self._sample_policies(past.w)], dim=1)

    def _improve(self, trajectory: Trajectory, z: Tensor) -> Tensor:
        """One step of Adam on the loss of every run; returns the losses [R]."""
        loss: Tensor = self._loss(self.parameters, trajectory, z)
        gradients = torch.autograd.grad(loss.sum(), list(self.parameters.values()))
        named = dict(zip(self.parameters, gradients, strict=True))
        self.adam.step(self.parameters, named, self._learning_rates())
        return loss.detach()

    def _loss_of_one_run(self, parameters: Parameters, trajectory: Trajectory, z: Tensor) -> Tensor:
        return self.agent.loss(parameters, trajectory, z, self.config.lambda_)

    def _learning_rates(self) -> Tensor:
        remaining = np.clip(1 - self.progress / self.config.budget, 0, 1)
        return torch.from_numpy(self.config.learning_rate * remaining).float()

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
        self.updates = self.adam.updates = counters["updates"]
        self.frames[:] = counters["frames"]
        self.episodes[:] = counters["episodes"]
        for rng, state in zip(self.rngs, counters["rngs"], strict=True):
            rng.bit_generator.state = state
        self.rollout.batch.load_state(counters["environments"])

    def _tensor_groups(self) -> dict[str, dict[str, Tensor]]:
        return {
            "parameters": self.parameters,
            "adam_mean": self.adam.mean,
            "adam_square": self.adam.square,
            "core_state": {str(index): x for index, x in enumerate(self.rollout.core_state)},
        }


class _Streams:
    """The independent random streams of one seed."""

    def __init__(self, seed: int, environments: int) -> None:
        weights, behaviour, worlds = np.random.SeedSequence(seed).spawn(3)
        self.weights = torch.Generator().manual_seed(int(weights.generate_state(1, np.uint64)[0] >> np.uint64(1)))
        self.behaviour = np.random.default_rng(behaviour)
        self.environments = [int(state) for state in worlds.generate_state(environments)]

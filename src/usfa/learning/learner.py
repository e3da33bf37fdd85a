"""What every learner does with a trajectory, wherever it comes from: one place for the update."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import Agent
from usfa.errors import Diverged
from usfa.learning.adam import Adam, clip, flatten
from usfa.learning.config import LearnerConfig
from usfa.learning.draws import Draws
from usfa.learning.hardware import Precision, autocast
from usfa.learning.replay import Replay, join, part
from usfa.learning.rollout import Collected
from usfa.learning.seeds import Streams
from usfa.networks import Parameters, over_runs, stack_runs
from usfa.trajectory import Trajectory

__all__ = ["Improver", "Update"]

LARGEST_LOSS = 1e6  # squared errors of returns of size 1; what grows past it does not come back


class Update(NamedTuple):
    """What one round of updates did."""

    loss: NDArray[np.float32]  # [R]     mean over the round
    gradient: NDArray[np.float32]  # [R]     its length before clipping, mean over the round
    episode_phi: NDArray[np.float64]  # [K, D]  Σφ of the episodes that ended
    episode_environment: NDArray[np.int64]  # [K]     where, of the R·B environments


class Improver(ABC):
    """The parameters of one agent for each seed, and all that makes them better. No run depends on its neighbours."""

    def __init__(
        self,
        agent: Agent,
        config: LearnerConfig,
        training_tasks: NDArray[np.float64],
        seeds: Sequence[int],
        device: torch.device | None = None,
        precision: Precision = "fp32",
    ) -> None:
        self.agent = agent
        self.config = config
        self.training_tasks = training_tasks
        self.seeds = tuple(seeds)
        self.device = device or torch.device("cpu")
        self.precision = precision
        self._draws = Draws(config, training_tasks, self.device)
        streams = [Streams(seed, config.environments) for seed in self.seeds]
        self.rngs = [stream.behaviour for stream in streams]
        self.parameters = stack_runs([agent.initial_parameters(stream.weights) for stream in streams])
        self.parameters = {name: x.to(self.device).requires_grad_() for name, x in self.parameters.items()}
        self.older = {} if config.target_every is None and config.average is None else _copy(self.parameters)
        self.adam = Adam(self.parameters)
        self.replay = Replay(config.replay_capacity)
        self.frames = np.zeros(len(self.seeds), np.int64)
        self.episodes = np.zeros(len(self.seeds), np.int64)

    @abstractmethod
    def step(self) -> Update:
        """One round: a trajectory from somewhere, learned from."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the environments."""

    @property
    @abstractmethod
    def saves_exactly(self) -> bool:
        """Whether :meth:`state` leaves every episode as it is."""

    def report(self) -> dict[str, Any]:
        """What else deserves a place in the log since the last report; fits into JSON."""
        return {}

    @property
    def note(self) -> str:
        """What else deserves a place beside the progress bar."""
        return ""

    # --- the update ---

    def learn(self, collected: Collected, z: Tensor) -> Update:
        """Algorithm 1, lines 9-11, on what was collected with the policies z [R, B, N, D]."""
        trajectory, z = self._with_past(collected.trajectory, z)
        losses, gradients = self._improve(trajectory, z)
        self.frames += collected.frames
        self.episodes += collected.episodes
        self._check(losses)
        return Update(losses, gradients, collected.episode_phi, collected.episode_environment)

    def _with_past(self, fresh: Trajectory, z: Tensor) -> tuple[Trajectory, Tensor]:
        """The fresh trajectory joined by past ones, for which policies are drawn anew."""
        if not self.config.reuse:
            return fresh, z
        self.replay.add(fresh)
        past = self.replay.sample(self.config.reuse, self.rngs)
        return join(fresh, past), torch.cat([z, self._draws.policies(past.w, self.rngs)], dim=1)

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
            share = self._per_run(np.where(self.progress < self.config.budget, self.config.average, 0.0))
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
        return self._per_run(self.config.learning_rate * remaining)

    def _per_run(self, values: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(values).float().to(self.device)

    def _check(self, losses: NDArray[np.float32]) -> None:
        largest = LARGEST_LOSS * max(1.0, self.agent.network.config.scale) ** 2
        for seed, loss in zip(self.seeds, losses.tolist(), strict=True):
            if not loss <= largest:  # NaN is not either
                raise Diverged(f"The loss of seed {seed} is {loss:g} after {self.updates} updates")

    def check_parameters(self) -> None:
        """Diverged if any parameter is not finite: such a state is not worth keeping."""
        for name, x in self.parameters.items():
            if not bool(x.isfinite().all()):
                raise Diverged(f"The parameter {name} is not finite after {self.updates} updates")

    # --- how far it is ---

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

    # --- saving ---

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the next update depends on: tensors, and what fits into JSON."""
        tensors: dict[str, Tensor] = {}
        for group, members in self._tensor_groups().items():
            tensors |= {f"{group}/{name}": tensor.detach() for name, tensor in members.items()}
        replayed, added = self.replay.state()
        replayed = {} if self.done else replayed  # nothing will be drawn from it again
        tensors |= {f"replay/{name}": tensor for name, tensor in replayed.items()}
        counters = {
            "updates": self.updates,
            "replayed": added,
            "precision": self.precision,
            "frames": self.frames.tolist(),
            "episodes": self.episodes.tolist(),
            "rngs": [rng.bit_generator.state for rng in self.rngs],
        }
        return tensors, counters

    def load_state(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        """Go on where :meth:`state` was taken, to the bit."""
        with torch.no_grad():
            for group, members in self._tensor_groups().items():
                for name, tensor in members.items():
                    tensor.copy_(tensors[f"{group}/{name}"])
        replayed = {name.removeprefix("replay/"): x for name, x in tensors.items() if name.startswith("replay/")}
        self.replay.load_state(replayed, counters["replayed"], self.device)
        self.adam.updates = counters["updates"]
        self.precision = counters["precision"]
        self.frames[:] = counters["frames"]
        self.episodes[:] = counters["episodes"]
        for rng, state in zip(self.rngs, counters["rngs"], strict=True):
            rng.bit_generator.state = state

    def _tensor_groups(self) -> dict[str, dict[str, Tensor]]:
        return {
            "parameters": self.parameters,
            "older": self.older,
            "adam": {"mean": self.adam.mean, "square": self.adam.square},
        }


def _copy(parameters: Parameters) -> Parameters:
    return {name: x.detach().clone() for name, x in parameters.items()}

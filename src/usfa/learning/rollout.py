"""Environments + agent -> Trajectory, for R parallel training runs with B environments each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import Agent
from usfa.decisions import CandidateSet
from usfa.environments import Batch, Step
from usfa.functional import greedy_actions, q_values
from usfa.learning.exploration import Exploration
from usfa.networks import Network, Runs, over_runs
from usfa.trajectory import CoreState, Present, Trajectory

__all__ = ["Collected", "Rollout"]


class Collected(NamedTuple):
    """A trajectory with a leading axis R, and counts."""

    trajectory: Trajectory
    frames: NDArray[np.int64]  # [R]     environment steps, without seams
    episodes: NDArray[np.int64]  # [R]     finished episodes
    episode_phi: NDArray[np.float64]  # [K, D]  Σφ of each finished episode
    episode_environment: NDArray[np.int64]  # [K]     index of its environment, 0 to R·B-1


class Rollout:
    """Collects trajectories of T steps; each continues where the previous one ended.

    The buffers are reused: a trajectory is valid until the next call of :meth:`collect`.
    """

    def __init__(
        self,
        agent: Agent,
        network: Runs,
        batch: Batch,
        length: int,
        device: torch.device | None = None,
        repeat_exponent: float | None = None,
        repeat_share: float = 1.0,
    ) -> None:
        """For `repeat_exponent` and `repeat_share` see `LearnerConfig`."""
        runs = len(network.networks)
        self.batch = batch
        self.device = device or torch.device("cpu")
        self.shape = (runs, len(batch) // runs)
        self._agent = agent
        self._exploration = Exploration(self.shape, repeat_exponent, repeat_share)
        self._network = network
        self._act = over_runs(self._greedy, network)
        memory = agent.initial_state(self.shape[1])
        self.core_state: CoreState = tuple(x.expand(runs, *x.shape).to(self.device, copy=True) for x in memory)
        self.last_action = torch.zeros(self.shape, dtype=torch.int64)
        self._observation = self._buffer(length + 1, batch.observation)
        self._done_before = self._buffer(length + 1, np.zeros(len(batch), np.int64))
        self._legal = self._buffer(length + 1, batch.legal)
        self._first = self._buffer(length + 1, batch.first)
        self._action = self._done_before[:, 1:]  # a view; entry t is the action taken in state t
        self._phi = self._buffer(length, np.zeros((len(batch), batch.features), np.float32))
        self._discount = self._buffer(length, np.zeros(len(batch), np.float32))
        self._reward = np.zeros_like(self._discount)

    def _buffer(self, length: int, like: NDArray[Any]) -> NDArray[Any]:
        runs, batch = self.shape
        return np.zeros((runs, length, batch, *like.shape[1:]), like.dtype)

    @torch.no_grad()
    def collect(
        self,
        w: Tensor,
        z: Tensor,
        epsilon: float | NDArray[np.float64],
        rngs: Sequence[np.random.Generator],
    ) -> Collected:
        """Act on the tasks w [R, B, D] by GPI over the policies z [R, B, N, D], ε-greedily with ε [B] or [R, B]."""
        core_state = self.core_state
        frames = np.zeros(self.shape[0], np.int64)
        episodes = np.zeros(self.shape[0], np.int64)
        ended: list[tuple[NDArray[np.float64], NDArray[np.int64]]] = []
        self._done_before[:, 0] = self.last_action.numpy()
        self._observe(0)
        acting = torch.stack([self._agent.acting_policies(*own) for own in zip(w, z, strict=True)])
        with self._network.holding(acting) as policies:
            for t in range(self._action.shape[1]):
                greedy, self.core_state = self._act(self._present(t), w, policies)
                action = self._exploration.actions(
                    greedy.cpu().numpy(), self._legal[:, t], self._first[:, t], epsilon, rngs
                )
                step = self._step(t, action)
                frames += step.real.reshape(self.shape).sum(axis=1)
                episodes += step.ended.reshape(self.shape).sum(axis=1)
                if step.ended.any():
                    ended.append((step.episode_phi[step.ended], np.flatnonzero(step.ended)))
        self.last_action.copy_(torch.from_numpy(action))
        return Collected(self._trajectory(w, core_state), frames, episodes, *self._joined(ended))

    def _step(self, t: int, action: NDArray[np.int64]) -> Step:
        """Act in all environments, and store the transition."""
        step = self.batch.step(action.reshape(-1))
        self._action[:, t] = action
        self._phi[:, t] = step.phi.reshape(*self.shape, -1)
        self._discount[:, t] = step.discount.reshape(self.shape)
        self._reward[:, t] = step.reward.reshape(self.shape)
        self._observe(t + 1)
        return step

    def _greedy(self, network: Network, present: Present, w: Tensor, z: Tensor) -> tuple[Tensor, CoreState]:
        """The action of GPI over z. No caution is needed: training corrects the errors of ψ that it encounters."""
        situation, core_state = self._agent.situation(network, present, w, CandidateSet.believed(z))
        return greedy_actions(q_values(situation.psi, situation.w).amax(dim=-2), situation.legal), core_state

    def _joined(
        self, ended: list[tuple[NDArray[np.float64], NDArray[np.int64]]]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        if not ended:
            return np.zeros((0, self.batch.features)), np.zeros(0, np.int64)
        episode_phi, environment = zip(*ended, strict=True)
        return np.concatenate(episode_phi), np.concatenate(environment)

    def _observe(self, t: int) -> None:
        self._observation[:, t] = self.batch.observation.reshape(self._observation[:, t].shape)
        self._legal[:, t] = self.batch.legal.reshape(self._legal[:, t].shape)
        self._first[:, t] = self.batch.first.reshape(self.shape)

    def _present(self, t: int) -> Present:
        return Present(
            self._tensor(self._observation[:, t]),
            self._tensor(self._done_before[:, t]),
            self._tensor(self._legal[:, t]),
            self._tensor(self._first[:, t]),
            self.core_state,
        )

    def _trajectory(self, w: Tensor, core_state: CoreState) -> Trajectory:
        return Trajectory(
            observation=self._tensor(self._observation),
            previous_action=self._tensor(self._done_before),
            legal=self._tensor(self._legal),
            first=self._tensor(self._first),
            action=self._tensor(self._action),
            phi=self._tensor(self._phi),
            discount=self._tensor(self._discount),
            w=w,
            core_state=core_state,
            reward=self._tensor(self._reward),
        )

    def _tensor(self, buffer: NDArray[Any]) -> Tensor:
        """A view of the buffer on the CPU, a copy on a GPU."""
        return torch.from_numpy(buffer).to(self.device)

    def tensors(self) -> dict[str, Tensor]:
        """State tensors, to read and write in place; the state of the environments is not included."""
        memory = {f"core_state.{index}": x for index, x in enumerate(self.core_state)}
        return {"last_action": self.last_action, **memory, **self._exploration.tensors()}

"""Scores by acting: every task, candidate set and episode in one batch of environments."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import torch
from numpy.typing import NDArray

from usfa.agents import Actor
from usfa.environments import Batch
from usfa.errors import InputError
from usfa.networks import Parameters
from usfa.rollout import epsilon_greedy
from usfa.trajectory import Present

__all__ = ["episode_returns"]


@torch.no_grad()
def episode_returns(
    actor: Actor,
    parameters: Parameters,
    batch: Batch,
    w: NDArray[np.float64],
    z: NDArray[np.float64],
    epsilon: float,
    rng: np.random.Generator,
    step_limit: int = 100_000,
) -> NDArray[np.float64]:
    """The undiscounted return of one ε-greedy episode for each of B tasks; the batch is closed afterwards.

    Args:
        actor: the agent.
        parameters: of one run.
        batch: B environments at the start of an episode.
        w: [B, D].
        z: [B, N, D].
        epsilon: ε.
        rng: for the exploration.
        step_limit: an episode that lasts longer is an error.

    Returns: [B].
    """
    with closing(batch):
        if batch.features != w.shape[1]:
            raise InputError(
                f"The environment has {batch.features} features; the agent's tasks have {w.shape[1]} entries."
            )
        return _play(actor, parameters, batch, w, z, epsilon, rng, step_limit)


def _play(
    actor: Actor,
    parameters: Parameters,
    batch: Batch,
    w: NDArray[np.float64],
    z: NDArray[np.float64],
    epsilon: float,
    rng: np.random.Generator,
    step_limit: int,
) -> NDArray[np.float64]:
    tasks, policies = torch.from_numpy(w).float(), torch.from_numpy(z).float()
    memory = actor.initial_state(len(batch))
    returns = np.full(len(batch), np.nan)
    action = np.zeros(len(batch), np.int64)
    for _ in range(step_limit):
        present = Present(
            torch.from_numpy(batch.observation),
            torch.from_numpy(action),
            torch.from_numpy(batch.legal),
            torch.from_numpy(batch.first),
            memory,
        )
        greedy, memory = actor.act(parameters, present, tasks, policies)
        action = epsilon_greedy(greedy.numpy()[None], batch.legal[None], epsilon, [rng])[0]
        step = batch.step(action)
        finished = step.ended & np.isnan(returns)  # an environment goes on after its episode; only the first counts
        returns[finished] = np.einsum("bd,bd->b", step.episode_phi, w)[finished]
        if not np.isnan(returns).any():
            return returns
    raise InputError(f"An episode has not ended after {step_limit} steps; expected an environment with a time limit.")

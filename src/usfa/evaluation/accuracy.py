"""Measure the errors of a trained ψ: follow policies in the training environment, and compare ψ with their returns.

Nothing is learned, and no test task is used.
"""

from __future__ import annotations

import math
from contextlib import closing
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import Agent, TrainedAgent, prepared
from usfa.decisions import Accuracy
from usfa.environments import EnvironmentSource
from usfa.evaluation.episodes import check_fits, environments_of
from usfa.functional import policy_actions, stake, take_actions
from usfa.learning.rollout import Rollout
from usfa.losses import td_errors
from usfa.networks import Network, Runs
from usfa.samplers import LearnedPolicies
from usfa.threads import threads
from usfa.trajectory import Trajectory, is_seam, tensors_of, trajectory_of

__all__ = ["accuracy_of", "measured_accuracy", "measuring_steps"]

Array = NDArray[np.float64]

_FEWEST, _MOST = 24, 192  # environments
_FEWEST_AROUND = 4  # smallest number of policies away from M
_EPISODES = 4  # episodes of each policy away from M
_FARTHEST = 1.5  # distance of the farthest policies, in lengths of the longest training task
_HORIZONS = 4  # trajectory length in effective horizons 1/(1-γ); errors are measured in the first half only
_SHORTEST, _LONGEST = (
    32,
    400,
)  # bounds of the trajectory length T; a return covers at least 1 - γ^(T/2), 86 % for γ ≤ 0.99
_GRID = 9  # number of distances for the optimism
_DEVIATIONS = 3  # the optimism is this many standard deviations above the mean


class _Followed(NamedTuple):
    """T steps in B environments, with one policy followed in each."""

    psi: Tensor  # [T, B, D]  of the action of the policy
    step_error: Tensor  # [T, B, D]  one-step temporal-difference errors
    return_error: Tensor  # [T, B, D]  discounted return minus ψ
    real: Tensor  # [T, B]     bool, not a seam


@threads(1)
def measured_accuracy(
    agent: Agent,
    network: Network,
    environments: EnvironmentSource,
    learned: LearnedPolicies,
    gamma: float,
    frames: int,
    rng: np.random.Generator,
) -> Accuracy:
    """Measure the errors of ψ of one run.

    Args:
        agent: a USFA.
        network: with the agent's weights.
        environments: the environments of the training.
        learned: M and D_z.
        gamma: γ of the learner.
        frames: approximate number of environment steps; they are taken in 24 to 192 environments.
        rng: for environments and policies.
    """
    length, size = _length(gamma), _size(gamma, frames)
    tasks = learned.training_tasks
    own = np.resize(tasks, (max(size // 6, len(tasks)), tasks.shape[1]))
    around = _around(learned, max((size - len(own)) // _EPISODES, _FEWEST_AROUND), rng)
    z = np.concatenate([own, np.repeat(around, _EPISODES, axis=0)])
    followed = _follow(agent, network, environments, z, gamma, length, rng)
    return Accuracy(
        tuple(_step_errors(followed, z, slice(0, len(own)))),
        tuple(_optimism(followed, z, learned.distance(z))),
    )


def measuring_steps(gamma: float, frames: int) -> int:
    """Approximate number of environment steps that :func:`measured_accuracy` takes."""
    return _length(gamma) * _size(gamma, frames)


def _length(gamma: float) -> int:
    return min(max(math.ceil(_HORIZONS / (1 - gamma)), _SHORTEST), _LONGEST) if gamma < 1 else _SHORTEST


def _size(gamma: float, frames: int) -> int:
    """Number of environments."""
    return min(max(frames // _length(gamma), _FEWEST), _MOST)


def accuracy_of(agent: TrainedAgent, trust: bool = False) -> Accuracy:
    """Measure the errors of ψ of a trained USFA with :func:`measured_accuracy`, in the same way as after training.

    Uses a twentieth of the frames of the training. `trust`: whether to import modules that the agent's file names.
    """
    environments, rng = environments_of(agent, trust), np.random.default_rng([agent.seed, 3])
    gamma, frames = agent.file.gamma, agent.file.frames // 20
    return measured_accuracy(agent.actor, agent.network, environments, agent.learned, gamma, frames, rng)


def _around(learned: LearnedPolicies, count: int, rng: np.random.Generator) -> Array:
    """Policies [count, D] at increasing distances from learned ones, in random directions."""
    tasks = learned.training_tasks
    start = learned.sampler.sample(tasks[rng.integers(len(tasks), size=count)], 1, rng)[:, 0]
    if (learned.distance(start) > 1e-9).any():  # D_z is unbounded, with M as its centre
        start = tasks[rng.integers(len(tasks), size=count)]
    direction = rng.standard_normal(start.shape)
    length = np.linspace(0, _FARTHEST * np.linalg.norm(tasks, axis=1).max(), count)
    return start + direction / np.linalg.norm(direction, axis=1, keepdims=True) * length[:, None]


@torch.no_grad()
def _follow(
    agent: Agent,
    network: Network,
    environments: EnvironmentSource,
    z: Array,
    gamma: float,
    length: int,
    rng: np.random.Generator,
) -> _Followed:
    batch = environments.batch(rng.integers(2**31, size=len(z)).tolist(), gamma)
    tasks = torch.from_numpy(z).float()
    with closing(batch):
        check_fits(agent, batch)
        rollout = Rollout(agent, Runs([network]), batch, length)
        tasks = tasks.to(rollout.device)
        collected = rollout.collect(tasks[None], tasks[None, :, None], 0.0, [rng])
    trajectory = trajectory_of({name: x[0] for name, x in tensors_of(collected.trajectory).items()})
    psi, _ = network(prepared(network, trajectory.inputs), trajectory.core_state, tasks[:, None])
    greedy = policy_actions(psi, tasks[:, None], trajectory.legal)
    one_step, complete = (_errors(psi, greedy, trajectory, lambda_)[: length // 2].cpu() for lambda_ in (0.0, 1.0))
    promised = take_actions(psi, greedy)[: length // 2, :, 0].cpu()
    return _Followed(promised, one_step, complete, ~is_seam(trajectory)[: length // 2].cpu())


def _errors(psi: Tensor, greedy: Tensor, trajectory: Trajectory, lambda_: float) -> Tensor:
    return td_errors(psi, psi, greedy, trajectory.phi[:, :, None], trajectory, lambda_)[:, :, 0]


def _step_errors(followed: _Followed, z: Array, own: slice) -> list[float]:
    """ρ, [D]: for each feature, along the policies of M with a small weight on it, or along all if none has one."""
    errors = []
    for feature, weights in enumerate(np.abs(z[own]).T):
        ignoring = weights <= np.abs(z[own]).max(axis=1) / 2
        rows = torch.from_numpy(np.flatnonzero(ignoring if ignoring.any() else weights >= 0))
        real = followed.real[:, rows]
        size = followed.psi[:, rows, feature][real].abs().mean()
        error = followed.step_error[:, rows, feature][real].abs().median()
        errors.append(round(float(error / size), 5) if size > 0 else 0.0)
    return errors


def _optimism(followed: _Followed, z: Array, distance: Array) -> list[tuple[float, float]]:
    """Excess of ψ·z over the return at each distance, as a share of the stake."""
    tasks = torch.from_numpy(z).float()
    over = -torch.einsum("tbd,bd->tb", followed.return_error, tasks)
    at_stake = stake(followed.psi[:, :, None], tasks)[..., 0]
    totals = np.stack([(x * followed.real).sum(dim=0).numpy() for x in (over, at_stake)], axis=1).astype(np.float64)
    _, first, policy = np.unique(z, axis=0, return_index=True, return_inverse=True)
    vain, staked = np.stack([totals[policy.ravel() == index].sum(axis=0) for index in range(len(first))]).T
    return _envelope(distance[first], np.divide(vain, staked, out=np.zeros_like(vain), where=staked > 0))


def _envelope(distance: Array, shares: Array) -> list[tuple[float, float]]:
    """Non-decreasing upper envelope of the shares, on a grid of distances."""
    farthest = distance.max()
    grid, window = np.linspace(0, farthest, _GRID), farthest / (_GRID - 1)
    near = [shares[np.abs(distance - d) <= window] for d in (grid if farthest > 0 else grid[:1])]
    levels = [part.mean() + _DEVIATIONS * part.std() if len(part) else 0.0 for part in near]
    rising = np.maximum.accumulate(np.maximum(levels, 0.0))
    decimals = (
        max(5, 4 - math.floor(math.log10(farthest))) if farthest > 0 else 5
    )  # so that rounded distances stay distinct
    return [(round(float(d), decimals), round(float(level), 5)) for d, level in zip(grid, rising, strict=False)]

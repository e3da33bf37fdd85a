"""How wrong is a trained ψ? Policies are followed in the training environment, and ψ is compared with their returns.
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

from usfa.agents import Agent, TrainedAgent
from usfa.decisions import Accuracy
from usfa.environments import EnvironmentSource
from usfa.evaluation.episodes import check_fits, environments_of
from usfa.functional import policy_actions, stake, take_actions
from usfa.learning.rollout import Rollout
from usfa.losses import td_errors
from usfa.networks import Parameters
from usfa.samplers import PolicySampler, distance_from_learned
from usfa.trajectory import Trajectory, is_seam, tensors_of, trajectory_of

__all__ = ["LearnedPolicies", "accuracy_of", "measured_accuracy"]

Array = NDArray[np.float64]

_FEWEST, _MOST = 24, 192  # environments
_FEWEST_AROUND = 4  # policies away from M
_EPISODES = 4  # environments in which each policy away from M is followed
_FARTHEST = 1.5  # distance of the farthest policies, in lengths of the longest training task
_HORIZONS = 4  # steps, in effective horizons 1/(1-γ); only the first half is judged, so that T/2 follow each
_SHORTEST, _LONGEST = 32, 400  # steps; a return is then complete to 1 - γ^(T/2): 86 % up to γ = 0.99
_GRID = 9  # distances at which optimism is kept
_DEVIATIONS = 3  # standard deviations above the mean at which optimism is kept: few policies exceed it


class LearnedPolicies(NamedTuple):
    """Which policies an agent was trained on."""

    training_tasks: Array  # M, [K, D]
    sampler: PolicySampler  # D_z
    acted_on: str  # LearnerConfig.tasks

    def distance(self, z: Array) -> Array:
        return distance_from_learned(z, self.sampler, self.training_tasks, self.acted_on)


class _Followed(NamedTuple):
    """T steps in B environments, with one policy followed in each."""

    psi: Tensor  # [T, B, D]  of the policy's own action
    step_error: Tensor  # [T, B, D]  one-step temporal-difference errors
    return_error: Tensor  # [T, B, D]  the discounted return less ψ
    real: Tensor  # [T, B]     bool, not a seam


def measured_accuracy(
    agent: Agent,
    parameters: Parameters,
    environments: EnvironmentSource,
    learned: LearnedPolicies,
    gamma: float,
    frames: int,
    rng: np.random.Generator,
) -> Accuracy:
    """How wrong ψ of one run is.

    Args:
        agent: a USFA.
        parameters: of one run.
        environments: where it was trained.
        learned: M and D_z.
        gamma: γ of the learner.
        frames: about how many steps to spend; at least 24 and at most 192 environments are used.
        rng: for worlds and policies.
    """
    length = min(max(math.ceil(_HORIZONS / (1 - gamma)), _SHORTEST), _LONGEST) if gamma < 1 else _SHORTEST
    size = min(max(frames // length, _FEWEST), _MOST)
    tasks = learned.training_tasks
    own = np.resize(tasks, (max(size // 6, len(tasks)), tasks.shape[1]))
    around = _around(learned, max((size - len(own)) // _EPISODES, _FEWEST_AROUND), rng)
    z = np.concatenate([own, np.repeat(around, _EPISODES, axis=0)])
    followed = _follow(agent, parameters, environments, z, gamma, length, rng)
    return Accuracy(
        tuple(_step_errors(followed, z, slice(0, len(own)))),
        tuple(_optimism(followed, z, learned.distance(z))),
    )


def accuracy_of(agent: TrainedAgent, trust: bool = False) -> Accuracy:
    """How wrong ψ of a trained USFA is, measured as after training: see :func:`measured_accuracy`.

    A twentieth of the training's frames is spent, within its limits. `trust` says whether the agent's file may name a
    module to import its environment from.
    """
    assert isinstance(agent.actor, Agent)
    learned = LearnedPolicies(agent.training_tasks, agent.sampler, agent.tasks_acted_on)
    environments, file = environments_of(agent, trust), agent.file
    rng = np.random.default_rng([agent.seed, 3])
    return measured_accuracy(agent.actor, agent.parameters, environments, learned, file.gamma, file.frames // 20, rng)


def _around(learned: LearnedPolicies, count: int, rng: np.random.Generator) -> Array:
    """Policies [count, D] at growing distances from learned ones, in all directions."""
    tasks = learned.training_tasks
    start = learned.sampler.sample(tasks[rng.integers(len(tasks), size=count)], 1, rng)[:, 0]
    if (learned.distance(start) > 1e-9).any():  # D_z has no boundary, and M is its centre
        start = tasks[rng.integers(len(tasks), size=count)]
    direction = rng.standard_normal(start.shape)
    length = np.linspace(0, _FARTHEST * np.linalg.norm(tasks, axis=1).max(), count)
    return start + direction / np.linalg.norm(direction, axis=1, keepdims=True) * length[:, None]


@torch.no_grad()
def _follow(
    agent: Agent,
    parameters: Parameters,
    environments: EnvironmentSource,
    z: Array,
    gamma: float,
    length: int,
    rng: np.random.Generator,
) -> _Followed:
    batch = environments.batch(rng.integers(2**31, size=len(z)).tolist(), gamma)
    tasks = torch.from_numpy(z).float()
    one_run = {name: x[None] for name, x in parameters.items()}
    with closing(batch):
        check_fits(agent, batch)
        rollout = Rollout(agent, batch, 1, length, next(iter(parameters.values())).device)
        tasks = tasks.to(rollout.device)
        collected = rollout.collect(one_run, tasks[None], tasks[None, :, None], 0.0, [rng])
    trajectory = trajectory_of({name: x[0] for name, x in tensors_of(collected.trajectory).items()})
    psi, _ = agent.unroll(parameters, trajectory.inputs, trajectory.core_state, tasks[:, None])
    greedy = policy_actions(psi, tasks[:, None], trajectory.legal)
    one_step, complete = (_errors(psi, greedy, trajectory, lambda_)[: length // 2].cpu() for lambda_ in (0.0, 1.0))
    promised = take_actions(psi, greedy)[: length // 2, :, 0].cpu()
    return _Followed(promised, one_step, complete, ~is_seam(trajectory)[: length // 2].cpu())


def _errors(psi: Tensor, greedy: Tensor, trajectory: Trajectory, lambda_: float) -> Tensor:
    return td_errors(psi, psi, greedy, trajectory.phi[:, :, None], trajectory, lambda_)[:, :, 0]


def _step_errors(followed: _Followed, z: Array, own: slice) -> list[float]:
    """ρ, [D]: for each feature along the policies of M with a small weight on it, or along all if there are none."""
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
    """By how much ψ·z exceeds the return at each distance, as a share of the stake."""
    tasks = torch.from_numpy(z).float()
    over = -torch.einsum("tbd,bd->tb", followed.return_error, tasks)
    at_stake = stake(followed.psi[:, :, None], tasks)[..., 0]
    totals = np.stack([(x * followed.real).sum(dim=0).numpy() for x in (over, at_stake)], axis=1).astype(np.float64)
    _, first, policy = np.unique(z, axis=0, return_index=True, return_inverse=True)
    vain, staked = np.stack([totals[policy.ravel() == index].sum(axis=0) for index in range(len(first))]).T
    return _envelope(distance[first], np.divide(vain, staked, out=np.zeros_like(vain), where=staked > 0))


def _envelope(distance: Array, shares: Array) -> list[tuple[float, float]]:
    """A line that never falls: at each of a few distances, the share that few policies at about it exceed."""
    farthest = distance.max()
    grid, window = np.linspace(0, farthest, _GRID), farthest / (_GRID - 1)
    near = [shares[np.abs(distance - d) <= window] for d in (grid if farthest > 0 else grid[:1])]
    levels = [part.mean() + _DEVIATIONS * part.std() if len(part) else 0.0 for part in near]
    rising = np.maximum.accumulate(np.maximum(levels, 0.0))
    decimals = max(5, 4 - math.floor(math.log10(farthest))) if farthest > 0 else 5  # distances grow, however small
    return [(round(float(d), decimals), round(float(level), 5)) for d, level in zip(grid, rising, strict=False)]

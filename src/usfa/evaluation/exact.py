"""Scores without sampling: in a finite MDP the return of a policy is a linear solve."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from usfa.agents import Actor
from usfa.environments import Environment, TabularEnv
from usfa.functional import TabularMDP, greedy_actions, policy_return
from usfa.networks import Parameters, over_runs

__all__ = ["exact_mdp", "exact_scores", "greedy_tables"]


_CHANGE_NOTHING = (gym.wrappers.OrderEnforcing, gym.wrappers.PassiveEnvChecker)


def exact_mdp(env: Environment) -> TabularMDP | None:
    """The tables behind an environment, if it has any and no wrapper shows, does or pays something else."""
    inner: Any = env
    while isinstance(inner, _CHANGE_NOTHING):
        inner = inner.env
    return inner.mdp if isinstance(inner, TabularEnv) else None


def exact_scores(
    actor: Actor,
    parameters: Parameters,
    mdp: TabularMDP,
    w: NDArray[np.float64],
    z: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The expected return of the greedy (GPI) policy for R runs and K tasks in one batch.

    Args:
        actor: the agent.
        parameters: each [R, ...].
        mdp: where it acts.
        w: [K, D], the tasks.
        z: [R, K, N, D], the candidate sets.

    Returns: [R, K].
    """
    policy = greedy_tables(actor, parameters, mdp, w, z)
    scores: NDArray[np.float64] = policy_return(mdp, policy, torch.from_numpy(w)).numpy()
    return scores


@torch.no_grad()
def greedy_tables(
    actor: Actor,
    parameters: Parameters,
    mdp: TabularMDP,
    w: NDArray[np.float64],
    z: NDArray[np.float64],
) -> torch.Tensor:
    """What every run does in every state on every task, [R, K, S]; arguments as in :func:`exact_scores`."""
    runs, tasks = z.shape[:2]
    states = torch.from_numpy(actor.spec.observation.encode(np.tile(np.arange(mdp.states), tasks)))

    def values(run: Parameters, tasks: torch.Tensor, policies: torch.Tensor) -> torch.Tensor:
        return actor.q_values(run, actor.at_start(states), tasks, policies)[0]

    q: torch.Tensor = over_runs(values, parameters)(
        torch.from_numpy(np.repeat(w, mdp.states, axis=0)).float().expand(runs, -1, -1),
        torch.from_numpy(np.repeat(z, mdp.states, axis=1)).float(),
    )
    return greedy_actions(q.unflatten(1, (tasks, mdp.states)), mdp.legal)

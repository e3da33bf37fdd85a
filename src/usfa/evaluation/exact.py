"""Scores without sampling: in a finite MDP the return of a policy is a linear solve."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from usfa.agents import Actor
from usfa.decisions import CandidateSet, Rule, Situation, decided, rule_name
from usfa.environments import Environment, TabularEnv
from usfa.errors import InputError
from usfa.functional import TabularMDP, policy_return
from usfa.networks import Parameters, over_runs

__all__ = ["decision_tables", "exact_mdp", "exact_scores"]


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
    candidates: CandidateSet[NDArray[np.float64]],
    rule: Rule,
) -> NDArray[np.float64]:
    """The expected return of acting by a rule, for R runs and K tasks in one batch.

    Args:
        actor: the agent.
        parameters: each [R, ...].
        mdp: where it acts.
        w: [K, D], the tasks.
        candidates: [R, K, N, D], the candidate sets.
        rule: how to choose among them; one without memory.

    Returns: [R, K].
    """
    policy = decision_tables(actor, parameters, mdp, w, candidates, rule)
    scores: NDArray[np.float64] = policy_return(mdp, policy, torch.from_numpy(w)).numpy()
    return scores


@torch.no_grad()
def decision_tables(
    actor: Actor,
    parameters: Parameters,
    mdp: TabularMDP,
    w: NDArray[np.float64],
    candidates: CandidateSet[NDArray[np.float64]],
    rule: Rule,
) -> torch.Tensor:
    """The action of every run in every state on every task, [R, K, S]; arguments as in :func:`exact_scores`."""
    runs, tasks = candidates.z.shape[:2]
    states = torch.from_numpy(actor.spec.observation.encode(np.tile(np.arange(mdp.states), tasks)))
    legal = mdp.legal.repeat(tasks, 1)

    def situation(run: Parameters, w: torch.Tensor, of_tasks: CandidateSet[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        present = actor.at_start(states)._replace(legal=legal)
        *tensors, _ = actor.situation(run, present, w, of_tasks)[0]  # the rule has no state yet
        return tuple(tensors)

    situations = over_runs(situation, parameters)(
        torch.from_numpy(np.repeat(w, mdp.states, axis=0)).float().expand(runs, -1, -1),
        candidates.map(lambda values: np.repeat(values, mdp.states, axis=1)).tensors(),
    )
    decision = decided(rule, Situation(*(values.flatten(0, 1) for values in situations)))
    if decision.state:
        raise InputError(
            f"The rule {rule_name(rule)!r} has a memory, which no table of states has; expected it to have an "
            "attribute remembers = True, or exact=False."
        )
    return decision.action.unflatten(0, (runs, tasks, mdp.states))

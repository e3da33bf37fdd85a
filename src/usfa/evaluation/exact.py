"""Finite MDPs: the exact return of an agent's decisions, and the terms of Proposition 1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from usfa.agents import Agent, TrainedAgent
from usfa.decisions import CandidateSet, Gpi, Rule, decided, rule_name, task_tensor
from usfa.environments import Environment, LearnedReward, ObservationSpec, RewardVector, TabularEnv
from usfa.errors import InputError
from usfa.functional import (
    TabularMDP,
    gpi_bound,
    optimal_policy,
    optimal_values,
    policy_return,
    policy_values,
    successor_features,
)
from usfa.networks import Network
from usfa.threads import threads

__all__ = ["bound_table", "decision_tables", "exact_mdp", "exact_scores"]

Array = NDArray[np.float64]
_CHANGE_NOTHING = (gym.wrappers.OrderEnforcing, gym.wrappers.PassiveEnvChecker)


def exact_mdp(env: Environment) -> TabularMDP | None:
    """Tables of an environment; None if it has none, or if a wrapper changes observations, actions or rewards.

    If φ is learned, the tables contain the learned φ.
    """
    inner: Any = env
    while isinstance(inner, _CHANGE_NOTHING):
        inner = inner.env
    if isinstance(inner, LearnedReward):
        return _with_learned_phi(inner)
    return inner.mdp if isinstance(inner, TabularEnv) else None


def _with_learned_phi(env: LearnedReward) -> TabularMDP | None:
    """The tables with the learned φ of every (s, a, s′); None if it depends on more than that."""
    inner: Any = env.env.env if isinstance(env.env, RewardVector) else env.env
    tasks = [reward.w for reward in env.env.rewards] if isinstance(env.env, RewardVector) else []
    if not isinstance(inner, TabularEnv) or env.phi.history > 1 or any(w is None for w in tasks):
        return None
    spec, shape = ObservationSpec.of(inner.observation_space), inner.mdp.phi.shape[:-1]
    before, action, after = (index.reshape(-1) for index in np.indices(shape))
    rewards = inner.mdp.phi.numpy().reshape(len(action), -1) @ np.array(tasks or np.zeros((0, inner.mdp.features))).T
    phi = env.phi.of_batch(spec.encode(before), action, spec.encode(after), rewards.astype(np.float32))
    return replace(inner.mdp, phi=torch.from_numpy(phi).to(inner.mdp.phi).reshape(*shape, -1))


def exact_scores(
    actor: Agent, network: Network, mdp: TabularMDP, w: Array, candidates: CandidateSet[Array], rule: Rule
) -> Array:
    """Expected return of acting by a rule, for K tasks in one batch.

    Args:
        actor: the agent.
        network: with the agent's weights.
        mdp: the environment.
        w: [K, D], the tasks.
        candidates: [K, N, D], the candidate sets.
        rule: a decision rule without state.

    Returns: [K].
    """
    policy = decision_tables(actor, network, mdp, w, candidates, rule)
    scores: Array = policy_return(mdp, policy, torch.from_numpy(w)).numpy()
    return scores


@torch.no_grad()
def decision_tables(
    actor: Agent, network: Network, mdp: TabularMDP, w: Array, candidates: CandidateSet[Array], rule: Rule
) -> torch.Tensor:
    """Action in every state on every task, [K, S]; arguments as in :func:`exact_scores`."""
    states = torch.from_numpy(actor.spec.observation.encode(np.tile(np.arange(mdp.states), len(w))))
    present = actor.at_start(states)._replace(legal=mdp.legal.repeat(len(w), 1))
    tasks = task_tensor(np.repeat(w, mdp.states, axis=0))
    sets = candidates.map(lambda values: np.repeat(values, mdp.states, axis=0)).tensors()
    situation, _ = actor.situation(network, present, tasks, sets)
    decision = decided(rule, situation)
    if decision.state:
        raise InputError(
            f"The rule {rule_name(rule)!r} has a state, so it cannot be scored exactly; set its attribute "
            "remembers = True, or exact=False."
        )
    return decision.action.unflatten(0, (len(w), mdp.states))


@threads(1)
def bound_table(agent: TrainedAgent, mdp: TabularMDP, w: Array, z: Array, reward: Array | None = None) -> pd.DataFrame:
    """Proposition 1 for each task: distance, approximation, reward, total, printed, and the true gap of GPI, Eq. 3.

    Args:
        agent: a USFA.
        mdp: the environment.
        w: [K, D], the tasks.
        z: [K, N, D], the candidate set of each.
        reward: [K, S, A, S], the reward of each task, if φ·w only approximates it; the gap is then that of this reward.
    """
    tasks, policies = torch.from_numpy(w), torch.from_numpy(z)
    exact = successor_features(mdp, optimal_policy(mdp, policies))
    truth = None if reward is None else torch.from_numpy(reward).to(mdp.phi)
    bound = gpi_bound(mdp, tasks, policies, exact, _learned_psi(agent, mdp, z), reward=truth)
    policy = decision_tables(agent.actor, agent.network, mdp, w, CandidateSet.believed(z), Gpi())
    if truth is None:
        gap = _loss(mdp, policy, tasks)
    else:
        gap = torch.stack([_loss(mdp, *own) for own in zip(policy, tasks, truth, strict=True)])
    columns = {
        "distance": bound.distance_term,
        "approximation": bound.approximation_term,
        "reward": bound.reward_term,
        "total": bound.total,
        "printed": bound.printed,
        "gap": gap,
    }
    return pd.DataFrame({name: values.numpy() for name, values in columns.items()})


def _loss(mdp: TabularMDP, policy: torch.Tensor, w: torch.Tensor, reward: torch.Tensor | None = None) -> torch.Tensor:
    """‖Q* - Q^π‖_∞ over legal actions for the reward φ·w, or for another reward [S, A, S]."""
    if reward is not None:
        mdp, w = replace(mdp, phi=reward[..., None]), torch.ones(1).to(mdp.phi)
    loss = optimal_values(mdp, w) - policy_values(mdp, policy, w)
    return loss.masked_fill(~mdp.legal, 0.0).amax(dim=(-2, -1))


@torch.no_grad()
def _learned_psi(agent: TrainedAgent, mdp: TabularMDP, z: Array) -> torch.Tensor:
    """ψ̃(s,a,z) as tables: [K, N, D] -> [K, N, S, A, D]."""
    psi = agent.successor_features(np.arange(mdp.states), z.reshape(-1, z.shape[-1]))  # [S, K·N, A, D]
    return torch.from_numpy(psi).double().movedim(0, 1).unflatten(0, z.shape[:2])

"""Proposition 1 for a trained agent in a finite MDP: both terms, the bound and the true gap, for many tasks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from usfa.agents import TrainedAgent
from usfa.decisions import CandidateSet, Gpi
from usfa.evaluation.exact import decision_tables
from usfa.functional import (
    TabularMDP,
    gpi_bound,
    optimal_policy,
    optimal_values,
    policy_values,
    successor_features,
)

__all__ = ["bound_table"]


def bound_table(agent: TrainedAgent, mdp: TabularMDP, w: NDArray[np.float64], z: NDArray[np.float64]) -> pd.DataFrame:
    """A row per task: distance, approximation, total, printed, and the gap of GPI, Eq. 3.

    Args:
        agent: a USFA.
        mdp: where it acts.
        w: [K, D], the tasks.
        z: [K, N, D], the candidate set of each.
    """
    tasks, policies = torch.from_numpy(w), torch.from_numpy(z)
    exact = successor_features(mdp, optimal_policy(mdp, policies))
    bound = gpi_bound(mdp, tasks, policies, exact, _learned_psi(agent, mdp, z))
    one_run = {name: tensor[None] for name, tensor in agent.parameters.items()}
    policy = decision_tables(agent.actor, one_run, mdp, w, CandidateSet.believed(z[None]), Gpi())[0]
    loss = optimal_values(mdp, tasks) - policy_values(mdp, policy, tasks)
    gap = loss.masked_fill(~mdp.legal, 0.0).amax(dim=(-2, -1))
    columns = {
        "distance": bound.distance_term,
        "approximation": bound.approximation_term,
        "total": bound.total,
        "printed": bound.printed,
        "gap": gap,
    }
    return pd.DataFrame({name: values.numpy() for name, values in columns.items()})


@torch.no_grad()
def _learned_psi(agent: TrainedAgent, mdp: TabularMDP, z: NDArray[np.float64]) -> torch.Tensor:
    """ψ̃(s,a,z) as tables: [K, N, D] -> [K, N, S, A, D]."""
    psi = agent.successor_features(np.arange(mdp.states), z.reshape(-1, z.shape[-1]))  # [S, K·N, A, D]
    return torch.from_numpy(psi).double().movedim(0, 1).unflatten(0, z.shape[:2])

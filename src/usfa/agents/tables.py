"""SF&GPI from exact tables: the reference of Section 4.1, with no approximation in it (Barreto et al. 2017)."""

from __future__ import annotations

import torch
from torch import Tensor

from usfa.agents.agent import Actor, AgentSpec
from usfa.decisions import CandidateSet, Situation
from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.functional import TabularMDP, optimal_policy, successor_features
from usfa.networks import Parameters
from usfa.trajectory import CoreState, Present

__all__ = ["SfGpiTables", "exact_sf_gpi"]


class SfGpiTables(Actor):
    """ψ^{π_z} looked up in tables; a z that has none is refused.

    Its parameters are the tables: `psi` [K, S, A, D] and the policies `z` [K, D] they belong to.
    """

    def __init__(self, spec: AgentSpec, policies: int) -> None:
        self.spec = spec
        self.policies = policies

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        states, actions, features = self.spec.observation.states, self.spec.actions, self.spec.features
        return {"psi": (self.policies, states, actions, features), "z": (self.policies, features)}

    def situation(
        self, parameters: Parameters, present: Present, w: Tensor, candidates: CandidateSet[Tensor]
    ) -> tuple[Situation, CoreState]:
        psi, core_state = self.step(parameters, present, candidates.z)
        z, step_error, optimism = candidates.map(lambda values: values.to(psi))
        return Situation(psi, w.to(psi), z, present.legal, step_error, optimism), core_state

    def step(self, parameters: Parameters, present: Present, z: Tensor) -> tuple[Tensor, CoreState]:
        """ψ^{π_z}(s,·) with one-hot observations [B, S]: z [B, N, D] -> [B, N, A, D], memory."""
        tables = parameters["psi"][self._rows(parameters["z"], z)]  # [B, N, S, A, D]
        return torch.einsum("bs,bnsad->bnad", present.observation.to(tables), tables), present.core_state

    @staticmethod
    def _rows(known: Tensor, z: Tensor) -> Tensor:
        same = (z[:, :, None] == known.to(z)).all(dim=-1)  # [B, N, K]
        if not same.any(dim=-1).all():
            unknown = z[~same.any(dim=-1)][0].tolist()
            raise InputError(f"There is no table for policy z = {unknown}; expected one of {known.tolist()}.")
        return same.to(torch.int8).argmax(dim=-1)


def exact_sf_gpi(mdp: TabularMDP, training_tasks: Tensor) -> tuple[SfGpiTables, Parameters]:
    """The tables of the optimal policies of the training tasks [K, D]."""
    masked = not bool(mdp.legal.all())
    spec = AgentSpec(ObservationSpec((mdp.states,), mdp.states), mdp.actions, mdp.features, masked)
    psi = successor_features(mdp, optimal_policy(mdp, training_tasks))
    return SfGpiTables(spec, len(training_tasks)), {"psi": psi, "z": training_tasks.to(psi)}

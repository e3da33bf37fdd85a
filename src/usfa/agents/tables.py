"""SF&GPI from exact tables, without approximation: the reference of Section 4.1 (Barreto et al. 2017)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from usfa.agents.agent import Agent, AgentSpec
from usfa.decisions import CandidateSet, Situation
from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.functional import TabularMDP, optimal_policy, successor_features
from usfa.losses import LossSettings
from usfa.networks import Network, NetworkConfig
from usfa.trajectory import CoreState, Inputs, Present, Trajectory

__all__ = ["SfGpiTables", "exact_sf_gpi"]


class _Tables(Network):
    """ψ^{π_z} looked up in `psi` [K, S, A, D], the tables of the policies `z` [K, D]."""

    def __init__(self, policies: int, spec: AgentSpec) -> None:
        super().__init__()
        shape = (policies, spec.observation.states, spec.actions, spec.features)
        self.psi = nn.Parameter(torch.zeros(shape, dtype=torch.float64), requires_grad=False)
        self.z = nn.Parameter(torch.zeros(policies, spec.features, dtype=torch.float64), requires_grad=False)

    def forward(self, inputs: Inputs, core_state: CoreState, z: Tensor) -> tuple[Tensor, CoreState]:
        tables = self.psi[self._rows(z)]  # [B, N, S, A, D]
        return torch.einsum("tbs,bnsad->tbnad", inputs.observation.to(tables), tables), core_state

    def _rows(self, z: Tensor) -> Tensor:
        same = (z[:, :, None] == self.z.to(z)).all(dim=-1)  # [B, N, K]
        if not same.any(dim=-1).all():
            unknown = z[~same.any(dim=-1)][0].tolist()
            raise InputError(f"There is no table for policy z = {unknown}; expected one of {self.z.tolist()}.")
        return same.to(torch.int8).argmax(dim=-1)


class SfGpiTables(Agent):
    """Exact successor features of a few policies; raises InputError for any other z."""

    trains = False
    learns_psi = False
    default_candidates = "train"

    def __init__(self, spec: AgentSpec, network: NetworkConfig | None = None, policies: int = 1) -> None:
        self.policies = policies
        super().__init__(spec, network or NetworkConfig())

    def build_network(self) -> Network:
        return _Tables(self.policies, self.spec)

    def situation(
        self, network: Network, present: Present, w: Tensor, candidates: CandidateSet[Tensor]
    ) -> tuple[Situation, CoreState]:
        psi, core_state = self.step(network, present, candidates.z)
        chosen = candidates.map(lambda values: values.to(psi))
        return Situation(psi, w.to(psi), chosen.z, present.legal, *chosen[1:]), core_state

    def loss(
        self,
        network: Network,
        trajectory: Trajectory,
        z: Tensor,
        settings: LossSettings,
        target: Network | None = None,
    ) -> Tensor:
        raise NotImplementedError("exact tables are computed, not trained")


def exact_sf_gpi(mdp: TabularMDP, training_tasks: Tensor) -> tuple[SfGpiTables, Network]:
    """Compute the tables of the optimal policies of the training tasks [K, D]."""
    masked = not bool(mdp.legal.all())
    spec = AgentSpec(ObservationSpec((mdp.states,), mdp.states), mdp.actions, mdp.features, masked)
    psi = successor_features(mdp, optimal_policy(mdp, training_tasks))
    agent = SfGpiTables(spec, policies=len(training_tasks))
    network = agent.make_network()
    network.load_state_dict({"psi": psi, "z": training_tasks.to(psi)})
    return agent, network

"""USFA: successor features ψ(s,a,z) of all policies at once, acting by GPI (Section 3)."""

from __future__ import annotations

from torch import Tensor

from usfa.agents.agent import Agent, values_and_targets
from usfa.decisions import CandidateSet, Situation
from usfa.functional import policy_actions
from usfa.losses import LossSettings, mean_of, squared_along, squared_td, td_errors, with_action_gap
from usfa.networks import Network
from usfa.trajectory import CoreState, Present, Trajectory

__all__ = ["UsfaAgent"]


class UsfaAgent(Agent):
    """Learns ψ of any z from any behaviour (off-policy); w affects only which data are collected.

    SF&GPI is this agent with the training tasks as its only policies: D_z = the points of M, C = M.
    """

    def situation(
        self, network: Network, present: Present, w: Tensor, candidates: CandidateSet[Tensor]
    ) -> tuple[Situation, CoreState]:
        psi, core_state = self.step(network, present, candidates.z)
        return Situation(psi, w, candidates.z, present.legal, *candidates[1:]), core_state

    def loss(
        self,
        network: Network,
        trajectory: Trajectory,
        z: Tensor,
        settings: LossSettings,
        target: Network | None = None,
    ) -> Tensor:
        """[φ + γ ψ(s',a',z) - ψ(s,a,z)]² with a' = argmax_b ψ(s',b,z)·z: Algorithm 1, lines 9-11.

        The paper prints ψ(s,b,z) in line 10; the comment next to it, a' ≡ π_z(s'), is correct.
        """
        members, targets = values_and_targets(network, trajectory, z, target)
        greedy = policy_actions(targets, z, trajectory.legal)
        phi = trajectory.phi[:, :, None]
        cumulant = with_action_gap(phi, targets, greedy, trajectory.action, settings.action_gap)
        losses = []
        for psi in members:
            errors = td_errors(psi, targets, greedy, cumulant, trajectory, settings.lambda_)
            along = settings.along_z * squared_along(errors, z, settings.per_trajectory) if settings.along_z else 0.0
            losses.append(squared_td(errors, settings.per_trajectory) + along)
        return mean_of(losses)

"""USFA: successor features ψ(s,a,z) of all policies at once, acting by GPI (Section 3)."""

from __future__ import annotations

from torch import Tensor

from usfa.agents.agent import Agent, AgentSpec
from usfa.decisions import CandidateSet, Situation
from usfa.functional import policy_actions
from usfa.losses import squared_along, squared_td, td_errors
from usfa.networks import Parameters
from usfa.trajectory import CoreState, Present, Trajectory

__all__ = ["UsfaAgent"]


class UsfaAgent(Agent):
    """Learns ψ of any z from any behaviour; w only decides where the data come from.

    SF&GPI is this agent with the training tasks as its only policies: D_z = the points of M, C = M.
    """

    @staticmethod
    def _outputs_per_action(spec: AgentSpec) -> int:
        return spec.features

    def situation(
        self, parameters: Parameters, present: Present, w: Tensor, candidates: CandidateSet[Tensor]
    ) -> tuple[Situation, CoreState]:
        psi, core_state = self.step(parameters, present, candidates.z)
        return Situation(psi, w, candidates.z, present.legal, candidates.step_error, candidates.optimism), core_state

    def loss(
        self,
        parameters: Parameters,
        trajectory: Trajectory,
        z: Tensor,
        lambda_: float,
        older: Parameters | None = None,
        along: float = 0.0,
    ) -> Tensor:
        """[φ + γ ψ(s',a',z) - ψ(s,a,z)]² with a' = argmax_b ψ(s',b,z)·z: Algorithm 1, lines 9-11.

        The box prints ψ(s,b,z) in line 10; its own comment, a' ≡ π_z(s'), says what is meant.
        """
        psi, targets = self._values_and_targets(parameters, trajectory, z, older)
        greedy = policy_actions(targets, z, trajectory.legal)
        errors = td_errors(psi, targets, greedy, trajectory.phi[:, :, None], trajectory, lambda_)
        return squared_td(errors) + (along * squared_along(errors, z) if along else 0.0)

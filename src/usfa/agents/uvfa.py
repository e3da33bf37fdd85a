"""UVFA: the value Q(s,a,w) with the task as an input, no structure assumed (Schaul et al. 2015)."""

from __future__ import annotations

import torch
from torch import Tensor

from usfa.agents.agent import Agent, AgentSpec
from usfa.decisions import CandidateSet, Situation
from usfa.functional import greedy_actions
from usfa.losses import squared_td, td_errors
from usfa.networks import Parameters
from usfa.trajectory import CoreState, Present, Trajectory

__all__ = ["UvfaAgent"]


class UvfaAgent(Agent):
    """The same network with w in the place of z, and one value per action.

    What it learns about is again the sampled z: its own task (on-policy), or every training task (off-policy).
    """

    @staticmethod
    def _outputs_per_action(spec: AgentSpec) -> int:
        return 1

    def situation(
        self, parameters: Parameters, present: Present, w: Tensor, candidates: CandidateSet[Tensor]
    ) -> tuple[Situation, CoreState]:
        """Q(s,a,w) as the successor feature of the reward itself: D = 1, task 1, and a single policy.

        Every rule then takes the greedy action.
        """
        q, core_state = self.step(parameters, present, w[:, None])  # [B, 1, A, 1]
        one, none = torch.ones_like(w[:, :1]), torch.zeros_like(w[:, :1])
        return Situation(q, one, one[:, None], present.legal, none, none), core_state

    def loss(
        self,
        parameters: Parameters,
        trajectory: Trajectory,
        z: Tensor,
        lambda_: float,
        older: Parameters | None = None,
        along: float = 0.0,
    ) -> Tensor:
        """[φ·z + γ max_b Q(s',b,z) - Q(s,a,z)]²: ordinary Q(λ) for every task z."""
        q, targets = self._values_and_targets(parameters, trajectory, z, older)
        greedy = greedy_actions(targets.squeeze(-1), trajectory.legal[:, :, None])
        reward = torch.einsum("tbd,bnd->tbn", trajectory.phi, z)
        return squared_td(td_errors(q, targets, greedy, reward[..., None], trajectory, lambda_))

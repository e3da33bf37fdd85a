"""UVFA: the value Q(s,a,w) with the task as an input (Schaul et al. 2015)."""

from __future__ import annotations

import torch
from torch import Tensor

from usfa.agents.agent import Agent, values_and_targets
from usfa.decisions import CandidateSet, Situation
from usfa.functional import greedy_actions
from usfa.losses import LossSettings, mean_of, squared_td, td_errors, with_action_gap
from usfa.networks import Network
from usfa.trajectory import CoreState, Present, Trajectory

__all__ = ["UvfaAgent"]


class UvfaAgent(Agent):
    """The same network with w instead of z, and one value per action.

    The sampled z are the tasks to learn about: the current task (on-policy), or all training tasks (off-policy).
    """

    has_psi = learns_psi = False
    only_candidates = default_candidates = "task"

    @property
    def outputs_per_action(self) -> int:
        return 1

    def acting_policies(self, w: Tensor, z: Tensor) -> Tensor:
        return w[:, None]

    def situation(
        self, network: Network, present: Present, w: Tensor, candidates: CandidateSet[Tensor]
    ) -> tuple[Situation, CoreState]:
        """Q(s,a,w) as the successor feature of the reward itself: D = 1, task 1, and a single policy.

        Every rule then takes the greedy action. The candidate is w, or z = w/c of a learned length: Q(w) = c Q(z).
        """
        z = candidates.z[:, :1]
        q, core_state = self.step(network, present, z)  # [B, 1, A, 1]
        length = z.square().sum(dim=-1)  # [B, 1]
        scaled = (z != w[:, None]).any(dim=-1) & (length > 0)
        factor = (z * w[:, None]).sum(dim=-1) / length.where(scaled, torch.ones_like(length))
        q = q * factor.where(scaled, torch.ones_like(length))[..., None, None]
        one = torch.ones_like(w[:, :1])
        return Situation(q, one, one[:, None], present.legal, *CandidateSet.believed(one[:, None])[1:]), core_state

    def loss(
        self,
        network: Network,
        trajectory: Trajectory,
        z: Tensor,
        settings: LossSettings,
        target: Network | None = None,
    ) -> Tensor:
        """[φ·z + γ max_b Q(s',b,z) - Q(s,a,z)]²: ordinary Q(λ) for every task z."""
        members, targets = values_and_targets(network, trajectory, z, target, along=torch.ones_like(z[..., :1]))
        greedy = greedy_actions(targets.squeeze(-1), trajectory.legal[:, :, None])
        reward = torch.einsum("tbd,bnd->tbn", trajectory.phi, z)
        cumulant = with_action_gap(reward[..., None], targets, greedy, trajectory.action, settings.action_gap)
        errors = [td_errors(q, targets, greedy, cumulant, trajectory, settings.lambda_) for q in members]
        return mean_of([squared_td(own, settings.per_trajectory) for own in errors])

"""Parts that room_levers.py tries: distributions of policies, losses and networks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from usfa.agents import AgentSpec, UsfaAgent
from usfa.agents.agent import values_and_targets
from usfa.functional import policy_actions
from usfa.losses import LossSettings, squared_td, td_errors
from usfa.networks import Network, NetworkConfig, Sizes
from usfa.networks.universal import UniversalNetwork
from usfa.samplers import PolicySampler
from usfa.tasks import Array
from usfa.trajectory import CoreState, Inputs, Trajectory


@dataclass(frozen=True)
class NearAndAllAround(PolicySampler):
    """A share of the policies from N(w, 0.1 I), the others from the whole sphere; all of length 1."""

    near: float = 0.5

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        z = rng.standard_normal((*w.shape[:-1], n, w.shape[-1]))
        count = round(n * self.near)
        z[..., :count, :] = w[..., None, :] + np.sqrt(0.1) * z[..., :count, :]
        return self.policy_of(z)

    def distance(self, z: Array, tasks: Array) -> Array:
        return np.abs(np.linalg.norm(z, axis=-1) - 1)

    def policy_of(self, w: Array) -> Array:
        length = np.linalg.norm(w, axis=-1, keepdims=True)
        return w / np.where(length > 0, length, 1.0)


class BurnIn(UsfaAgent):
    """Learns nothing from the first steps of a trajectory, which only renew the memory."""

    def __init__(self, spec: AgentSpec, network: NetworkConfig, steps: int = 8) -> None:
        super().__init__(spec, network)
        self.steps = steps

    def loss(
        self,
        network: Network,
        trajectory: Trajectory,
        z: Tensor,
        settings: LossSettings,
        target: Network | None = None,
    ) -> Tensor:
        (psi,), targets = values_and_targets(network, trajectory, z, target)
        greedy = policy_actions(targets, z, trajectory.legal)
        errors = td_errors(psi, targets, greedy, trajectory.phi[:, :, None], trajectory, settings.lambda_)
        return squared_td(errors[self.steps :])


class Heads(UniversalNetwork):
    """Several heads on one trunk and one embedding of z; values are their mean."""

    count = 3

    def __init__(self, sizes: Sizes, config: NetworkConfig) -> None:
        super().__init__(sizes, config)
        inputs, width = self.join.in_features, config.head[0]
        self.join = nn.Linear(inputs, self.count * width)
        outputs = [nn.Linear(width, sizes.actions * sizes.outputs) for _ in range(self.count)]
        del self.output  # each head has its own
        self.output_weights = nn.Parameter(torch.stack([layer.weight.T for layer in outputs]))
        self.output_bias = nn.Parameter(torch.stack([layer.bias for layer in outputs]))

    def of_heads(self, inputs: Inputs, core_state: CoreState, z: Tensor) -> tuple[Tensor, CoreState]:
        """[K, T, B, N, A, D], core state."""
        state, core_state = self.trunk(inputs, core_state)
        policy = z
        for layer in self.embedding:
            policy = torch.relu(layer(policy))
        w_state, w_policy = self.join.weight.split([state.shape[-1], policy.shape[-1]], dim=1)
        x = torch.relu(linear(state, w_state, self.join.bias)[:, :, None] + linear(policy, w_policy))
        of_each = [
            torch.addmm(bias, part.flatten(0, -2), weights).unflatten(0, part.shape[:-1])
            for part, weights, bias in zip(x.chunk(self.count, -1), self.output_weights, self.output_bias, strict=True)
        ]
        return torch.stack(of_each).unflatten(-1, self.outputs), core_state

    def forward(self, inputs: Inputs, core_state: CoreState, z: Tensor) -> tuple[Tensor, CoreState]:
        values, core_state = self.of_heads(inputs, core_state, z)
        return values.mean(dim=0), core_state


class Ensemble(UsfaAgent):
    """Each head learns from its own target, for the actions of the mean."""

    def loss(
        self,
        network: Network,
        trajectory: Trajectory,
        z: Tensor,
        settings: LossSettings,
        target: Network | None = None,
    ) -> Tensor:
        assert isinstance(network, Heads)
        psi, _ = network.of_heads(trajectory.inputs, trajectory.core_state, z)
        with torch.no_grad():
            targets = psi.detach()
            if isinstance(target, Heads):
                targets, _ = target.of_heads(trajectory.inputs, trajectory.core_state, z)
        greedy = policy_actions(targets.mean(dim=0), z, trajectory.legal)
        phi = trajectory.phi[:, :, None]
        losses = [
            squared_td(td_errors(own, own_targets, greedy, phi, trajectory, settings.lambda_))
            for own, own_targets in zip(psi, targets, strict=True)
        ]
        return torch.stack(losses).sum()

"""The paper's network (Figure 1, Appendix C.1): a trunk that sees the state once, and a head that sees every z.

Conditioning is late: whatever the number of policies, the trunk runs once per observation.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from usfa.errors import InputError
from usfa.trajectory import CoreState

__all__ = ["NetworkConfig", "UniversalNetwork"]


@dataclass(frozen=True)
class NetworkConfig:
    """Widths of the layers."""

    trunk: tuple[int, ...] = (64,)
    """Hidden layers that turn an observation into the state embedding f(h)."""
    embedding: tuple[int, ...] = (32, 32)
    """Layers that turn a policy z (for a UVFA: a task w) into its embedding g(z)."""
    head: tuple[int, ...] = (64,)
    """Hidden layers between the two embeddings and the A×D outputs; the paper's head has one."""

    def __post_init__(self) -> None:
        for name, sizes in {"trunk": self.trunk, "embedding": self.embedding, "head": self.head}.items():
            if not sizes or min(sizes) < 1:
                raise InputError(f"network.{name} is {sizes}; expected one or more widths of at least 1.")


class UniversalNetwork(nn.Module):
    """ψ(s, a, z) for vector observations."""

    def __init__(self, config: NetworkConfig, observation: int, condition: int, outputs: tuple[int, int]) -> None:
        """Build the layers, without drawing their weights.

        Args:
            config: widths.
            observation: size of the encoded observation.
            condition: D, the size of z.
            outputs: (A, D): ψ has a vector for every action; a UVFA has (A, 1).
        """
        super().__init__()
        self.outputs = outputs
        # On the meta device modules have shapes but no memory: the weights travel outside of them.
        with torch.device("meta"):
            self.trunk = _layers([observation, *config.trunk])
            self.embedding = _layers([condition, *config.embedding])
            self.join = nn.Linear(config.trunk[-1] + config.embedding[-1], config.head[0])
            self.head = _layers([*config.head])
            self.output = nn.Linear(config.head[-1], outputs[0] * outputs[1])

    def initial_state(self, batch: int) -> CoreState:
        return ()

    def forward(self, observation: Tensor, first: Tensor, core_state: CoreState, z: Tensor) -> tuple[Tensor, CoreState]:
        """One unroll for acting (T = 1) and for learning.

        Args:
            observation: [T, B, ...].
            first: [T, B], where the memory starts anew.
            core_state: the memory before t = 0.
            z: [B, N, D].

        Returns: [T, B, N, A, D] and the memory after the last step.
        """
        state = self.trunk(observation)  # [T, B, F]
        policy = self.embedding(z)  # [B, N, E]
        joined = torch.relu(self._join(state, policy))  # [T, B, N, H]
        return self.output(self.head(joined)).unflatten(-1, self.outputs), core_state

    def _join(self, state: Tensor, policy: Tensor) -> Tensor:
        """The layer on the concatenation [f(h), g(z)], without concatenating.

        W [f, g] = W_f f + W_g g: each part is multiplied once, for T·B states and for B·N policies, instead of once
        for each of the T·B·N pairs.
        """
        w_state, w_policy = self.join.weight.split([state.shape[-1], policy.shape[-1]], dim=1)
        of_state = nn.functional.linear(state, w_state, self.join.bias)
        return of_state[:, :, None] + nn.functional.linear(policy, w_policy)


def _layers(sizes: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers)

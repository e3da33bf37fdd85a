"""The paper's network (Figure 1, Appendix C.1): a trunk that sees the state once, and a head that sees every z.

Conditioning is late: whatever the number of policies, the trunk runs once per observation.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, one_hot

from usfa.networks.config import NetworkConfig
from usfa.networks.images import Convolutions
from usfa.networks.memory import Memory
from usfa.trajectory import CoreState, Inputs

__all__ = ["UniversalNetwork"]


class UniversalNetwork(nn.Module):
    """ψ(s, a, z) for vectors and images, with memory or without."""

    def __init__(
        self, config: NetworkConfig, observation: tuple[int, ...], condition: int, outputs: tuple[int, int]
    ) -> None:
        """Build the layers, without drawing their weights.

        Args:
            config: widths.
            observation: shape of the encoded observation, [F] or [H, W, C].
            condition: D, the size of z.
            outputs: (A, D): ψ has a vector for every action; a UVFA has (A, 1).
        """
        super().__init__()
        self.outputs = outputs
        self.config = config
        self.convolutions: Convolutions | None = None
        self.memory: Memory | None = None
        # On the meta device modules have shapes but no memory: the weights travel outside of them.
        with torch.device("meta"):
            size = observation[0]
            if len(observation) == 3:
                self.convolutions = Convolutions(config.convolutions, observation)
                size = self.convolutions.features
                self.image_norm = _norm(config, size)
            if config.memory:
                self.memory = Memory(size + outputs[0], config.memory)
                size = config.memory
            self.trunk = _layers([size, *config.trunk])
            self.state_norm = _norm(config, config.trunk[-1])
            self.embedding = _layers([condition, *config.embedding])
            self.join = nn.Linear(config.trunk[-1] + config.embedding[-1], config.head[0])
            self.head = _layers([*config.head])
            self.output = nn.Linear(config.head[-1], outputs[0] * outputs[1])

    @property
    def batches_runs(self) -> bool:
        """Whether vmap over several runs is worth it."""
        return self.convolutions is None and self.memory is None

    def initial_state(self, batch: int) -> CoreState:
        return self.memory.initial_state(batch) if self.memory is not None else ()

    def forward(self, inputs: Inputs, core_state: CoreState, z: Tensor) -> tuple[Tensor, CoreState]:
        """One unroll for acting (T = 1) and for learning.

        Args:
            inputs: T steps of B environments; the memory starts anew where `inputs.first` is set.
            core_state: the memory before t = 0.
            z: [B, N, D].

        Returns: [T, B, N, A, D] and the memory after the last step.
        """
        state, core_state = self.see(inputs, core_state)  # [T, B, F]
        policy = self.embedding(z)  # [B, N, E]
        joined = self._join(state, policy)  # [T, B, N, H]
        return self.output(self.head(joined)).float().unflatten(-1, self.outputs), core_state

    def see(self, inputs: Inputs, core_state: CoreState) -> tuple[Tensor, CoreState]:
        """The input processing unit: the state embedding f(h), [T, B, F], and the memory after the last step."""
        x = inputs.observation
        if self.convolutions is not None:
            x = self.image_norm(self.convolutions(x))
        if self.memory is not None:
            # Nothing was done before an episode: no entry is set there.
            acted = one_hot(inputs.previous_action, self.outputs[0]) * ~inputs.first[..., None]
            x, core_state = self.memory(torch.cat([x, acted.to(x.dtype)], dim=-1), inputs.first, core_state)
        return self.state_norm(self.trunk(x)), core_state

    def _join(self, state: Tensor, policy: Tensor) -> Tensor:
        """Where f(h) [T, B, F] meets g(z) [B, N, E]; each is multiplied by its weights only once.

        Concatenation: W [f, g] = W_f f + W_g g, for T·B states and B·N policies instead of T·B·N pairs.
        Inner product: Σ_k o_k (W_f f)_k (W_g g)_k, of which the sum with the weights o is the output layer.
        """
        w_state, w_policy = self.join.weight.split([state.shape[-1], policy.shape[-1]], dim=1)
        of_state = linear(state, w_state, self.join.bias)[:, :, None]
        of_policy = linear(policy, w_policy)
        if self.config.conditioning == "inner-product":
            return torch.relu(of_state) * of_policy
        return torch.relu(of_state + of_policy)


def _norm(config: NetworkConfig, size: int) -> nn.Module:
    return nn.LayerNorm(size) if config.normalise else nn.Identity()


def _layers(sizes: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers)

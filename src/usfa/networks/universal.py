"""The paper's network (Figure 1, Appendix C.1): a trunk that sees the state once, and a head that sees every z.

Conditioning is late: whatever the number of policies, the trunk runs once per observation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import linear, one_hot

from usfa.errors import InputError
from usfa.networks.config import NetworkConfig
from usfa.networks.images import Convolutions
from usfa.networks.layers import Dense, Layer, Normalisation, Parameters
from usfa.networks.memory import Memory
from usfa.trajectory import CoreState, Inputs

__all__ = ["UniversalNetwork"]


class UniversalNetwork:
    """ψ(s, a, z) for vectors and images, with memory or without."""

    def __init__(
        self, config: NetworkConfig, observation: tuple[int, ...], condition: int, outputs: tuple[int, int]
    ) -> None:
        """Build the layers, which hold no weights.

        Args:
            config: widths.
            observation: shape of the encoded observation, [F] or [H, W, C].
            condition: D, the size of z.
            outputs: (A, D): ψ has a vector for every action; a UVFA has (A, 1).
        """
        self.outputs = outputs
        self.config = config
        self.convolutions = Convolutions(config.convolutions, observation) if len(observation) == 3 else None
        size = self.convolutions.features if self.convolutions else observation[0]
        if config.centre and (len(config.centre),) != observation:
            raise InputError(f"network.centre has {len(config.centre)} entries; the observation has {observation}.")
        self.centre, self.spread = torch.tensor(config.centre), torch.tensor(config.spread)
        self.image_norm = Normalisation("image_norm", size) if self.convolutions and config.normalise else None
        self.memory = Memory(size + outputs[0], config.memory) if config.memory else None
        self.trunk = _dense("trunk", [config.memory or size, *config.trunk])
        self.state_norm = Normalisation("state_norm", config.trunk[-1]) if config.normalise else None
        self.embedding = _dense("embedding", [condition, *config.embedding])
        self.join = Dense("join", config.trunk[-1] + config.embedding[-1], config.head[0])
        self.head = _dense("head", [*config.head])
        self.output = Dense("output", config.head[-1], outputs[0] * outputs[1])

    def layers(self) -> Iterator[Layer]:
        """All layers, in the order in which their weights are drawn."""
        if self.convolutions is not None:
            yield from self.convolutions.layers
        if self.image_norm is not None:
            yield self.image_norm
        if self.memory is not None:
            yield from self.memory.layers
        yield from self.trunk
        if self.state_norm is not None:
            yield self.state_norm
        yield from [*self.embedding, self.join, *self.head, self.output]

    @property
    def batches_runs(self) -> bool:
        """Whether vmap over several runs is worth it."""
        return self.convolutions is None and self.memory is None

    def initial_state(self, batch: int) -> CoreState:
        return self.memory.initial_state(batch) if self.memory is not None else ()

    def __call__(
        self, parameters: Parameters, inputs: Inputs, core_state: CoreState, z: Tensor
    ) -> tuple[Tensor, CoreState]:
        """One unroll for acting (T = 1) and for learning.

        Args:
            parameters: of one run.
            inputs: T steps of B environments; the memory starts anew where `inputs.first` is set.
            core_state: the memory before t = 0.
            z: [B, N, D].

        Returns: [T, B, N, A, D] and the memory after the last step.
        """
        state, core_state = self.see(parameters, inputs, core_state)  # [T, B, F]
        policy = _through(self.embedding, parameters, z)  # [B, N, E]
        joined = _through(self.head, parameters, self._join(parameters, state, policy))  # [T, B, N, H]
        values = self.output(parameters, joined).float().unflatten(-1, self.outputs)
        return values if self.config.scale == 1 else values * self.config.scale, core_state

    def see(self, parameters: Parameters, inputs: Inputs, core_state: CoreState) -> tuple[Tensor, CoreState]:
        """The input processing unit: the state embedding f(h), [T, B, F], and the memory after the last step."""
        x = inputs.observation
        if self.convolutions is not None:
            x = self.convolutions(parameters, x)
        elif self.config.centre:
            x = (x - self.centre.to(x.device)) / self.spread.to(x.device)
        if self.image_norm is not None:
            x = self.image_norm(parameters, x)
        if self.memory is not None:
            # Nothing was done before an episode: no entry is set there.
            acted = one_hot(inputs.previous_action, self.outputs[0]) * ~inputs.first[..., None]
            x, core_state = self.memory(parameters, torch.cat([x, acted.to(x.dtype)], dim=-1), inputs.first, core_state)
        x = _through(self.trunk, parameters, x)
        return self.state_norm(parameters, x) if self.state_norm is not None else x, core_state

    def _join(self, parameters: Parameters, state: Tensor, policy: Tensor) -> Tensor:
        """Where f(h) [T, B, F] meets g(z) [B, N, E]; each is multiplied by its weights only once.

        Concatenation: W [f, g] = W_f f + W_g g, for T·B states and B·N policies instead of T·B·N pairs.
        Inner product: Σ_k o_k ReLU(W_f f + b)_k (W_g g)_k, of which the sum with the weights o is the output layer.
        """
        weight = parameters["join.weight"]
        w_state, w_policy = weight.split([state.shape[-1], policy.shape[-1]], dim=1)
        of_state = linear(state, w_state, parameters["join.bias"])[:, :, None]
        of_policy = linear(policy, w_policy)
        if self.config.conditioning == "inner-product":
            return torch.relu(of_state) * of_policy
        return torch.relu(of_state + of_policy)


def _dense(name: str, sizes: list[int]) -> list[Dense]:
    return [Dense(f"{name}.{k}", *pair) for k, pair in enumerate(itertools.pairwise(sizes))]


def _through(layers: list[Dense], parameters: Parameters, x: Tensor) -> Tensor:
    for layer in layers:
        x = torch.relu(layer(parameters, x))
    return x

"""The paper's network (Figure 1, Appendix C.1): a trunk that processes the state, and a head applied to every z.

Conditioning is late: the trunk runs once per observation, for any number of policies. Derive your own networks and
trunks from :class:`Network` and :class:`Trunk`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, one_hot

from usfa.errors import InputError, counted
from usfa.networks.config import NetworkConfig
from usfa.networks.layers import Convolutions, LayerNorm, Memory, mlp
from usfa.registry import Registry
from usfa.trajectory import CoreState, Inputs

__all__ = [
    "NETWORKS",
    "TRUNKS",
    "Ensemble",
    "Network",
    "Sizes",
    "StandardTrunk",
    "Trunk",
    "UniversalNetwork",
    "make_network",
]


class Sizes(NamedTuple):
    """Sizes of the inputs and outputs of a network."""

    observation: tuple[int, ...]
    """Shape of an encoded observation: [F], or [H, W, C] for uint8 images."""
    actions: int
    """Number of actions, A."""
    features: int
    """Number of features, D, the length of z."""
    outputs: int
    """Outputs per action: D for successor features, 1 for values."""


class Trunk(nn.Module):
    """The input processing unit: observations -> f(h). Your own trunks are constructed as `Own(sizes, config)`."""

    features: int
    """F, the size of f(h); the constructor must set it."""
    batches_runs: bool = False
    """Whether several training runs are computed at once (torch.vmap). Set this for networks of dense layers;
    convolutions and LSTMs are faster one run after the other."""

    def initial_state(self, batch: int) -> CoreState:
        """The core state at the start of B episodes; none by default."""
        return ()

    def prepare(self, observation: Tensor) -> Tensor:
        """The part of the processing of observations [T, B, ...] that depends on no weights; none by default.

        :meth:`forward` receives its result. While learning, it is computed once for the network and its target network.
        """
        return observation

    @abstractmethod
    def forward(self, inputs: Inputs, core_state: CoreState) -> tuple[Tensor, CoreState]:
        """T steps of B environments -> f(h) [T, B, F], and the core state after the last step.

        The core state must be reset where `inputs.first` is set.
        """


class Network(nn.Module):
    """ψ(s, a, z) of N policies at once. Your own networks are constructed as `Own(sizes, config)`."""

    batches_runs: bool = False
    """As in :class:`Trunk`."""

    def initial_state(self, batch: int) -> CoreState:
        """The core state at the start of B episodes; none by default."""
        return ()

    def freeze(self) -> None:
        """Prepare the network for acting only: compute once what depends on the weights alone.

        The weights must not change afterwards. Values stay the same to the bit.
        """
        self.requires_grad_(False).eval()
        for part in self.modules():
            if isinstance(part, Convolutions):
                part.freeze()

    def hold(self, z: Tensor) -> None:
        """Compute once what depends on z [B, N, D] and the weights alone, for later calls with the same tensor z.

        These calls have no gradients. Neither z nor the weights may change until :meth:`release`. By default nothing is
        computed.
        """

    def release(self) -> None:
        """Forget what :meth:`hold` computed."""

    def prepare(self, observation: Tensor) -> Tensor:
        """As in :class:`Trunk`."""
        return observation

    @abstractmethod
    def forward(self, inputs: Inputs, core_state: CoreState, z: Tensor) -> tuple[Tensor, CoreState]:
        """Unroll the network over T steps; acting uses T = 1.

        Args:
            inputs: T steps of B environments; the core state must be reset where `inputs.first` is set.
            core_state: the core state before t = 0.
            z: [B, N, D].

        Returns: [T, B, N, A, outputs] and the core state after the last step.
        """

    def each(self, inputs: Inputs, core_state: CoreState, z: Tensor) -> tuple[Tensor, ...]:
        """Values of every member of an ensemble, each as in :meth:`forward`; a single network is its only member."""
        return (self(inputs, core_state, z)[0],)


class StandardTrunk(Trunk):
    """Convolutions for images, an LSTM if `config.memory` is set, then dense layers."""

    obs_centre: Tensor
    obs_scale: Tensor

    def __init__(self, sizes: Sizes, config: NetworkConfig) -> None:
        super().__init__()
        self.actions = sizes.actions
        self.convolutions = (
            Convolutions(config.convolutions, sizes.observation) if len(sizes.observation) == 3 else None
        )
        size = self.convolutions.features if self.convolutions is not None else sizes.observation[0]
        self.image_norm = LayerNorm(size) if self.convolutions is not None and config.normalise else None
        self.memory = Memory(size + sizes.actions, config.memory) if config.memory else None
        self.layers = mlp([config.memory or size, *config.trunk])
        self.norm = LayerNorm(config.trunk[-1]) if config.normalise else None
        self.features = config.trunk[-1]
        self.batches_runs = self.convolutions is None and self.memory is None
        self.centres = bool(config.obs_centre)
        if self.centres and (len(config.obs_centre),) != sizes.observation:
            raise InputError(
                f"network.obs_centre has {counted(len(config.obs_centre), 'entry', 'entries')}; "
                f"expected the shape of an observation, {sizes.observation}."
            )
        self.register_buffer("obs_centre", torch.tensor(config.obs_centre), persistent=False)
        self.register_buffer("obs_scale", torch.tensor(config.obs_scale), persistent=False)

    def initial_state(self, batch: int) -> CoreState:
        return self.memory.initial_state(batch) if self.memory is not None else ()

    def prepare(self, observation: Tensor) -> Tensor:
        return observation.float() if self.convolutions is not None else observation

    def forward(self, inputs: Inputs, core_state: CoreState) -> tuple[Tensor, CoreState]:
        x = inputs.observation
        if self.convolutions is not None:
            x = self.convolutions(x)
        elif self.centres:
            x = (x - self.obs_centre) / self.obs_scale
        if self.image_norm is not None:
            x = self.image_norm(x)
        if self.memory is not None:
            # There is no previous action at the start of an episode: all entries are 0.
            acted = one_hot(inputs.previous_action, self.actions) * ~inputs.first[..., None]
            x, core_state = self.memory(torch.cat([x, acted.to(x.dtype)], dim=-1), inputs.first, core_state)
        for layer in self.layers:
            x = torch.relu_(layer(x))
        return self.norm(x) if self.norm is not None else x, core_state


class UniversalNetwork(Network):
    """A trunk, an embedding of z, and a head that combines both."""

    def __init__(self, sizes: Sizes, config: NetworkConfig) -> None:
        super().__init__()
        self.outputs = (sizes.actions, sizes.outputs)
        self.inner_product = config.conditioning == "inner-product"
        self.output_scale = config.output_scale
        self.trunk = TRUNKS.make(config.trunk_class, sizes, config)
        self.embedding = mlp([sizes.features, *config.embedding])
        self.join = nn.Linear(self.trunk.features + config.embedding[-1], config.head[0])
        self.head = mlp(config.head)
        self.output = nn.Linear(config.head[-1], sizes.actions * sizes.outputs)
        self._held: tuple[Tensor, Tensor] | None = None

    @property
    def batches_runs(self) -> bool:  # type: ignore[override]
        return self.trunk.batches_runs

    def initial_state(self, batch: int) -> CoreState:
        return self.trunk.initial_state(batch)

    def prepare(self, observation: Tensor) -> Tensor:
        return self.trunk.prepare(observation)

    @torch.no_grad()
    def hold(self, z: Tensor) -> None:
        if self._held is None or z is not self._held[0]:
            self._held = z, self._of_policy(z, self._join_weights()[1])

    def release(self) -> None:
        self._held = None

    def forward(self, inputs: Inputs, core_state: CoreState, z: Tensor) -> tuple[Tensor, CoreState]:
        state, core_state = self.trunk(inputs, core_state)  # [T, B, F]
        w_state, w_policy = self._join_weights()
        held = self._held
        of_policy = held[1] if held is not None and z is held[0] else self._of_policy(z, w_policy)
        x = self._join(linear(state, w_state, self.join.bias)[:, :, None], of_policy)  # [T, B, N, H]
        for layer in self.head:
            x = torch.relu_(layer(x))
        values: Tensor = self.output(x).float().view(*x.shape[:-1], *self.outputs)
        return values if self.output_scale == 1 else values * self.output_scale, core_state

    def _join_weights(self) -> tuple[Tensor, ...]:
        """W_f and W_g, where W [f, g] = W_f f + W_g g."""
        features = self.trunk.features
        return self.join.weight.split([features, self.join.in_features - features], dim=1)

    def _of_policy(self, z: Tensor, w_policy: Tensor) -> Tensor:
        """W_g g(z): [B, N, D] -> [B, N, H]."""
        for layer in self.embedding:
            z = torch.relu_(layer(z))  # [B, N, E]
        return linear(z, w_policy)

    def _join(self, of_state: Tensor, of_policy: Tensor) -> Tensor:
        """Combine W_f f(h) + b [T, B, 1, H] and W_g g(z) [B, N, H] -> [T, B, N, H].

        Concatenation: the sum, computed for T·B states and B·N policies instead of T·B·N pairs.
        Inner product: Σ_k o_k ReLU(W_f f + b)_k (W_g g)_k; the output layer computes the sum with the weights o.
        """
        if self.inner_product:
            return torch.relu(of_state) * of_policy
        return torch.relu_(of_state + of_policy)


class Ensemble(Network):
    """Several networks of one kind with different initial weights; its values are their mean."""

    def __init__(self, members: Sequence[Network]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    @property
    def _members(self) -> list[Network]:
        return [member for member in self.members if isinstance(member, Network)]

    @property
    def batches_runs(self) -> bool:  # type: ignore[override]
        return self._members[0].batches_runs

    def initial_state(self, batch: int) -> CoreState:
        return tuple(x for member in self._members for x in member.initial_state(batch))

    def prepare(self, observation: Tensor) -> Tensor:
        return self._members[0].prepare(observation)

    def hold(self, z: Tensor) -> None:
        for member in self._members:
            member.hold(z)

    def release(self) -> None:
        for member in self._members:
            member.release()

    def forward(self, inputs: Inputs, core_state: CoreState, z: Tensor) -> tuple[Tensor, CoreState]:
        values, states = zip(*self._unrolled(inputs, core_state, z), strict=True)
        return torch.stack(values).mean(dim=0), tuple(x for state in states for x in state)

    def each(self, inputs: Inputs, core_state: CoreState, z: Tensor) -> tuple[Tensor, ...]:
        return tuple(values for values, _ in self._unrolled(inputs, core_state, z))

    def _unrolled(self, inputs: Inputs, core_state: CoreState, z: Tensor) -> list[tuple[Tensor, CoreState]]:
        size = len(core_state) // len(self.members)
        own = [core_state[index * size : (index + 1) * size] for index in range(len(self.members))]
        return [member(inputs, state, z) for member, state in zip(self._members, own, strict=True)]


TRUNKS: Registry[Trunk] = Registry("trunk", Trunk, {"standard": StandardTrunk})
NETWORKS: Registry[Network] = Registry("network", Network, {"universal": UniversalNetwork})


def make_network(sizes: Sizes, config: NetworkConfig) -> Network:
    """Make the network of a configuration, with random weights from PyTorch's global generator."""
    members = [NETWORKS.make(config.network_class, sizes, config) for _ in range(config.members)]
    return Ensemble(members) if config.members > 1 else members[0]

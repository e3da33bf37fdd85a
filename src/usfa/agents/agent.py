"""Agents: network, loss and values. They hold no weights, so one object serves any number of runs, and a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from usfa.decisions import CandidateSet, Decision, Rule, RuleState, Situation, decided
from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.losses import LossSettings, least_promising
from usfa.networks import Network, NetworkConfig, Parameters, Runs, Sizes, make_network
from usfa.trajectory import CoreState, Inputs, Present, Trajectory

__all__ = ["Agent", "AgentSpec", "prepared", "values_and_targets"]


@dataclass(frozen=True)
class AgentSpec:
    """Sizes and properties of an environment."""

    observation: ObservationSpec
    actions: int
    features: int
    masked: bool = False  # the environment has an action mask

    def __post_init__(self) -> None:
        """Check the sizes, which may come from a damaged file."""
        for name, count in (("actions", self.actions), ("features", self.features)):
            if not 1 <= count < 2**31:
                raise InputError(f"The number of {name} is {count}; expected 1 to {2**31 - 1:,}.")


class Agent(ABC):
    """Acts on a task w with the policies z in C, and learns about policies z.

    Derive your own agents from this class, or from :class:`UsfaAgent` to change only its loss, its network or its
    optimiser. They are constructed as `Own(spec, network)`; further arguments with defaults are your own settings.
    """

    trains: bool = True
    """Whether the agent is trained, rather than computed."""
    has_psi: bool = True
    """Whether it has successor features, rather than only values for its task."""
    learns_psi: bool = True
    """Whether ψ is learned, so that its errors are measured after training and the default rule is cautious."""
    only_candidates: str | None = None
    """The only candidate set that the agent supports; None if it supports all."""
    default_candidates: str | None = None
    """Default candidate set; None chooses it by D_z."""

    def __init__(self, spec: AgentSpec, network: NetworkConfig) -> None:
        self.spec = spec
        self.network_config = network
        with torch.device("meta"):  # shapes and names, without allocating memory
            self._outline = self.build_network()

    # --- the network ---

    @property
    def outputs_per_action(self) -> int:
        """Outputs of the network per action: D for successor features, 1 for values."""
        return self.spec.features

    def build_network(self) -> Network:
        """Make a network with random weights from PyTorch's global generator."""
        sizes = Sizes(self.spec.observation.shape, self.spec.actions, self.spec.features, self.outputs_per_action)
        return make_network(sizes, self.network_config)

    def make_network(self, seed: int = 0) -> Network:
        """Make a network with random weights from a seed, without changing the global generator."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.build_network()

    def networks(self, parameters: Parameters) -> Runs:
        """Make the networks of several runs from their weights [R, ...]."""
        runs = Runs([self.make_network().eval() for _ in next(iter(parameters.values()))])
        runs.load(parameters)
        return runs

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the weights of one run."""
        return {name: tuple(tensor.shape) for name, tensor in self._outline.state_dict().items()}

    def parameter_types(self) -> dict[str, torch.dtype]:
        """Names and types of the weights."""
        return {name: tensor.dtype for name, tensor in self._outline.state_dict().items()}

    def initial_state(self, batch: int) -> CoreState:
        """The core state at the start of an episode."""
        state = self._outline.initial_state(batch)
        if any(x.is_meta for x in state):
            raise InputError(
                f"initial_state of {type(self._outline).__name__} depends on a weight or its device; expected new "
                "tensors, such as torch.zeros(batch, units)."
            )
        return state

    @property
    def remembers(self) -> bool:
        """Whether the network is recurrent, so that its actions do not depend on the observation alone."""
        return bool(self.initial_state(1))

    # --- acting ---

    @abstractmethod
    def situation(
        self, network: Network, present: Present, w: Tensor, candidates: CandidateSet[Tensor]
    ) -> tuple[Situation, CoreState]:
        """The input of a decision rule, with ψ of all candidates, and the new core state.

        Args:
            network: a network of this agent.
            present: B observations; illegal actions have values too.
            w: [B, D].
            candidates: C, [B, N, D].
        """

    def act(
        self,
        network: Network,
        present: Present,
        w: Tensor,
        candidates: CandidateSet[Tensor],
        rule: Rule,
        state: RuleState | None = None,
    ) -> tuple[Decision, CoreState]:
        """Decide by a rule on task w, without exploration; return the decision and the new core state."""
        situation, core_state = self.situation(network, present, w, candidates)
        return decided(rule, situation._replace(state=state)), core_state

    def acting_policies(self, w: Tensor, z: Tensor) -> Tensor:
        """The candidates [B, N, D] to act with in training, given the policies z [B, N, D] to learn about."""
        return z

    def at_start(self, observation: Tensor) -> Present:
        """First observations [B, ...] of B episodes, with all actions legal."""
        batch = len(observation)
        yes = torch.ones(batch, self.spec.actions, dtype=torch.bool)
        nothing = torch.zeros(batch, dtype=torch.int64)
        return Present(observation, nothing, yes, yes[:, 0], self.initial_state(batch))

    @staticmethod
    def step(network: Network, present: Present, z: Tensor) -> tuple[Tensor, CoreState]:
        """Unroll the network for one step: z [B, N, D] -> [B, N, A, D], core state."""
        values, core_state = network(prepared(network, present.inputs), present.core_state, z)
        return values[0], core_state

    # --- learning ---

    @abstractmethod
    def loss(
        self,
        network: Network,
        trajectory: Trajectory,
        z: Tensor,
        settings: LossSettings,
        target: Network | None = None,
    ) -> Tensor:
        """Temporal-difference loss of all policies z [B, N, D] on one trajectory.

        Args:
            network: the network to train.
            trajectory: T steps of B environments.
            z: [B, N, D].
            settings: λ and others, see `LearnerConfig`.
            target: a target network to bootstrap from; None bootstraps from `network`.

        Returns: a scalar; if `settings.per_trajectory` is set, a loss for each environment, [B].
        """

    def optimizer(self, parameters: list[Tensor], learning_rate: float) -> torch.optim.Optimizer:
        """Make the optimiser; the learner sets its learning rate before every step."""
        return torch.optim.Adam(parameters, learning_rate, fused=True)


def prepared(network: Network, inputs: Inputs) -> Inputs:
    """Inputs as :meth:`Network.forward` receives them."""
    return inputs._replace(observation=network.prepare(inputs.observation))


def values_and_targets(
    network: Network, trajectory: Trajectory, z: Tensor, target: Network | None, along: Tensor | None = None
) -> tuple[tuple[Tensor, ...], Tensor]:
    """Values of every member of the network, with gradient, and the values to bootstrap from, without gradient.

    Args:
        network: the network to train, perhaps an ensemble.
        trajectory: T steps of B environments.
        z: [B, N, D].
        target: a target network; None bootstraps from `network`.
        along: [B, N, outputs], the direction in which members of an ensemble are compared; by default z.

    Returns: [T+1, B, N, A, outputs] each.
    """
    inputs = prepared(network, trajectory.inputs)
    values = network.each(inputs, trajectory.core_state, z)
    if target is None:
        targets = tuple(x.detach() for x in values)
    else:
        with torch.no_grad():
            targets = target.each(inputs, trajectory.core_state, z)
    return values, least_promising(targets, z if along is None else along)

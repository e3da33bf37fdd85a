"""What every agent can do. Agents hold no weights: the same object serves one run, ten at once, or a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from usfa.decisions import CandidateSet, Decision, Rule, RuleState, Situation, decided
from usfa.environments import ObservationSpec
from usfa.networks import NetworkConfig, Parameters, UniversalNetwork, initial_parameters
from usfa.trajectory import CoreState, Inputs, Present, Trajectory

__all__ = ["Actor", "Agent", "AgentSpec"]


@dataclass(frozen=True)
class AgentSpec:
    """The sizes that an environment dictates."""

    observation: ObservationSpec
    actions: int
    features: int
    masked: bool = False  # the environment says which actions are legal


class Actor(ABC):
    """Something that chooses actions for a task w by the policies z it is given."""

    spec: AgentSpec

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameters that this actor wants, of one run; by default none."""
        return {}

    def initial_state(self, batch: int) -> CoreState:
        """The memory at the start of an episode."""
        return ()

    @property
    def remembers(self) -> bool:
        """Whether it has a memory; what such an agent does is no table of states."""
        return bool(self.initial_state(1))

    def at_start(self, observation: Tensor) -> Present:
        """B episodes that open with these observations [B, ...], where everything is legal."""
        batch = len(observation)
        yes = torch.ones(batch, self.spec.actions, dtype=torch.bool)
        nothing = torch.zeros(batch, dtype=torch.int64)
        return Present(observation, nothing, yes, yes[:, 0], self.initial_state(batch))

    @abstractmethod
    def situation(
        self, parameters: Parameters, present: Present, w: Tensor, candidates: CandidateSet[Tensor]
    ) -> tuple[Situation, CoreState]:
        """The input of a decision rule, with ψ of all candidates, and the new memory.

        Args:
            parameters: the weights.
            present: what the agent sees; illegal actions get values as well.
            w: [B, D].
            candidates: C, [B, N, D].
        """

    def act(
        self,
        parameters: Parameters,
        present: Present,
        w: Tensor,
        candidates: CandidateSet[Tensor],
        rule: Rule,
        state: RuleState | None = None,
    ) -> tuple[Decision, CoreState]:
        """The decision of a rule on task w, and the new memory; exploration is up to the caller."""
        situation, core_state = self.situation(parameters, present, w, candidates)
        return decided(rule, situation._replace(state=state)), core_state


class Agent(Actor):
    """An actor that learns, on a universal network."""

    def __init__(self, spec: AgentSpec, network: NetworkConfig) -> None:
        self.spec = spec
        outputs = (spec.actions, self._outputs_per_action(spec))
        self.network = UniversalNetwork(network, spec.observation.shape, spec.features, outputs)

    @staticmethod
    @abstractmethod
    def _outputs_per_action(spec: AgentSpec) -> int:
        """D for successor features, 1 for values."""

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: shape for layer in self.network.layers() for name, shape in layer.shapes().items()}

    def initial_parameters(self, generator: torch.Generator) -> Parameters:
        return initial_parameters(self.network.layers(), generator)

    def initial_state(self, batch: int) -> CoreState:
        return self.network.initial_state(batch)

    @property
    def batches_runs(self) -> bool:
        """Whether several runs are best computed in one call, see :func:`usfa.networks.over_runs`."""
        return self.network.batches_runs

    def unroll(
        self, parameters: Parameters, inputs: Inputs, core_state: CoreState, z: Tensor
    ) -> tuple[Tensor, CoreState]:
        """The network over T steps: inputs [T, B, ...] and z [B, N, D] -> [T, B, N, A, D], memory."""
        return self.network(parameters, inputs, core_state, z)

    def step(self, parameters: Parameters, present: Present, z: Tensor) -> tuple[Tensor, CoreState]:
        """The network at one moment, an unroll with T = 1: z [B, N, D] -> [B, N, A, D], memory."""
        values, core_state = self.unroll(parameters, present.inputs, present.core_state, z)
        return values[0], core_state

    @abstractmethod
    def loss(
        self,
        parameters: Parameters,
        trajectory: Trajectory,
        z: Tensor,
        lambda_: float,
        older: Parameters | None = None,
        along: float = 0.0,
    ) -> Tensor:
        """The temporal-difference loss of all policies z [B, N, D] on one trajectory, a scalar.

        Args:
            parameters: the weights to be improved.
            trajectory: what happened.
            z: [B, N, D].
            lambda_: λ of Watkins' Q(λ).
            older: weights of a target network to bootstrap from; None bootstraps from `parameters`.
            along: how much the error along z counts besides; a value has no other direction.
        """

    def _values_and_targets(
        self, parameters: Parameters, trajectory: Trajectory, z: Tensor, older: Parameters | None
    ) -> tuple[Tensor, Tensor]:
        """[T+1, B, N, A, D] with gradient, and what to bootstrap from, without."""
        values, _ = self.unroll(parameters, trajectory.inputs, trajectory.core_state, z)
        if older is None:
            return values, values.detach()
        with torch.no_grad():
            targets, _ = self.unroll(older, trajectory.inputs, trajectory.core_state, z)
        return values, targets

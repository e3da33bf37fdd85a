"""Records that are passed from the environments to the agent and to the loss."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__ = ["CoreState", "Inputs", "Present", "Trajectory", "is_seam", "tensors_of", "trajectory_of"]

CoreState = tuple[Tensor, ...]
"""The recurrent state of a network, each tensor [B, ...]; empty for feed-forward networks."""


class Inputs(NamedTuple):
    """Inputs of a network over T steps of B environments."""

    observation: Tensor  # [T, B, ...]  float32 vectors, or uint8 images [T, B, H, W, C]
    previous_action: Tensor  # [T, B]       int64, undefined where `first` is set
    first: Tensor  # [T, B]       bool, first observation of an episode


class Present(NamedTuple):
    """One time step of B environments: the input of an agent for acting."""

    observation: Tensor  # [B, ...]  float32 vectors, or uint8 images [B, H, W, C]
    previous_action: Tensor  # [B]       int64
    legal: Tensor  # [B, A]    bool
    first: Tensor  # [B]       bool, first observation of an episode
    core_state: CoreState  # each [B, ...], the recurrent state of the network

    @property
    def inputs(self) -> Inputs:
        """The same as inputs with T = 1."""
        return Inputs(self.observation[None], self.previous_action[None], self.first[None])


class Trajectory(NamedTuple):
    """T transitions of B environments. Time-major; parallel training runs add a leading axis R.

    Termination has discount 0, and the next observation is the first of the next episode. Truncation keeps γ, and the
    final observation is stored; the step from it to the next episode is a *seam*, which is not a real transition.
    """

    observation: Tensor  # [T+1, B, ...]  float32 vectors, or uint8 images [T+1, B, H, W, C]
    previous_action: Tensor  # [T+1, B]       int64, the action before the observation
    legal: Tensor  # [T+1, B, A]    bool
    first: Tensor  # [T+1, B]       bool, first observation of an episode
    action: Tensor  # [T, B]         int64
    phi: Tensor  # [T, B, D]      float32
    discount: Tensor  # [T, B]         float32, γ or 0
    reward: Tensor  # [T, B]         float32, scalar reward of the environment, NaN where it has none
    w: Tensor  # [B, D]         float32, the task that was acted on
    core_state: CoreState  # each [B, ...], the recurrent state at t = 0

    @property
    def inputs(self) -> Inputs:
        """Inputs of the network."""
        return Inputs(self.observation, self.previous_action, self.first)


def tensors_of(trajectory: Trajectory) -> dict[str, Tensor]:
    """All tensors of a trajectory by name; those of the core state are core_state.0, core_state.1, …"""
    fields = {name: value for name, value in trajectory._asdict().items() if name != "core_state"}
    return fields | {f"core_state.{index}": value for index, value in enumerate(trajectory.core_state)}


def trajectory_of(tensors: dict[str, Tensor]) -> Trajectory:
    """The inverse of :func:`tensors_of`."""
    own = {name: value for name, value in tensors.items() if name in Trajectory._fields}
    memory = range(len(tensors) - len(own))
    return Trajectory(**own, core_state=tuple(tensors[f"core_state.{index}"] for index in memory))


def is_seam(trajectory: Trajectory) -> Tensor:
    """Mask [T, B] of the seams: steps to a first observation without termination.

    A seam has no error, and traces end at it.
    """
    return trajectory.first[1:] & (trajectory.discount > 0)

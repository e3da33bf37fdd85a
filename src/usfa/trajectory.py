"""The records that travel from the environments to the agent and to the loss."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__ = ["CoreState", "Inputs", "Present", "Trajectory", "is_seam", "tensors_of", "trajectory_of"]

CoreState = tuple[Tensor, ...]
"""The recurrent state of a network, each tensor [B, ...]; empty for networks without memory."""


class Inputs(NamedTuple):
    """What a network sees over T steps of B environments."""

    observation: Tensor  # [T, B, ...]  float32 vectors, or uint8 images [T, B, H, W, C]
    previous_action: Tensor  # [T, B]       int64, without meaning where `first` is set
    first: Tensor  # [T, B]       bool, the observation opens an episode


class Present(NamedTuple):
    """One moment of B environments: what an agent acts on."""

    observation: Tensor  # [B, ...]  float32 vectors, or uint8 images [B, H, W, C]
    previous_action: Tensor  # [B]       int64
    legal: Tensor  # [B, A]    bool
    first: Tensor  # [B]       bool, the observation opens an episode
    core_state: CoreState  # each [B, ...], the network's memory of the episode so far

    @property
    def inputs(self) -> Inputs:
        """The same as a sequence with T = 1."""
        return Inputs(self.observation[None], self.previous_action[None], self.first[None])


class Trajectory(NamedTuple):
    """T transitions of B environments. Time-major; runs that train side by side add an axis R in front.

    Termination is discount 0, and the next observation opens the next episode. Truncation keeps γ, and the
    observation it leads to is stored; the step from there to the next episode is a *seam*: it never happened.
    """

    observation: Tensor  # [T+1, B, ...]  float32 vectors, or uint8 images [T+1, B, H, W, C]
    previous_action: Tensor  # [T+1, B]       int64, what led to the observation
    legal: Tensor  # [T+1, B, A]    bool
    first: Tensor  # [T+1, B]       bool, the observation opens an episode
    action: Tensor  # [T, B]         int64
    phi: Tensor  # [T, B, D]      float32
    discount: Tensor  # [T, B]         float32, γ or 0
    w: Tensor  # [B, D]         float32, the task that was acted on
    core_state: CoreState  # each [B, ...], the network's memory at t = 0

    @property
    def inputs(self) -> Inputs:
        """What the network sees."""
        return Inputs(self.observation, self.previous_action, self.first)


def tensors_of(trajectory: Trajectory) -> dict[str, Tensor]:
    """Everything in it by name; the tensors of the memory are core_state.0, core_state.1, …"""
    fields = {name: value for name, value in trajectory._asdict().items() if name != "core_state"}
    return fields | {f"core_state.{index}": value for index, value in enumerate(trajectory.core_state)}


def trajectory_of(tensors: dict[str, Tensor]) -> Trajectory:
    """The inverse of :func:`tensors_of`."""
    own = {name: value for name, value in tensors.items() if name in Trajectory._fields}
    memory = range(len(tensors) - len(own))
    return Trajectory(**own, core_state=tuple(tensors[f"core_state.{index}"] for index in memory))


def is_seam(trajectory: Trajectory) -> Tensor:
    """Which of the T steps are seams, [T, B]: into a first observation without termination.

    A seam carries no error, and no trace crosses it.
    """
    return trajectory.first[1:] & (trajectory.discount > 0)

"""Replay buffer of past trajectories. Q-learning is off-policy, so trajectories of old policies remain valid."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.learning.config import LearnerConfig
from usfa.learning.layout import Layout
from usfa.trajectory import Trajectory, tensors_of, trajectory_of

__all__ = ["Replay", "bytes_of_past", "check_replay", "join", "part"]

LARGEST = 16 * 2**30
"""Maximum size of the buffer in bytes."""


class Replay:
    """The last `capacity` trajectories of every run, sampled uniformly."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.added = 0
        self._stored: dict[str, Tensor] = {}  # by field of Trajectory, each [R, capacity, ...]

    def add(self, trajectory: Trajectory) -> None:
        """Add a copy of a trajectory of all runs, replacing the oldest one if the buffer is full."""
        fields = tensors_of(trajectory)
        if not self._stored:
            _check_size(self.capacity, sum(x.nbytes for x in fields.values()))
            self._stored = {name: self._room_for(x) for name, x in fields.items()}
        for name, x in fields.items():
            self._stored[name][:, self.added % self.capacity] = x
        self.added += 1

    def sample(self, count: int, rngs: Sequence[np.random.Generator]) -> Trajectory:
        """Sample `count` trajectories of every run, concatenated along the batch axis.

        Args:
            count: number of trajectories.
            rngs: one generator per run.
        """
        drawn = torch.from_numpy(np.stack([rng.integers(self.size, size=count) for rng in rngs]))
        rows = torch.arange(len(drawn))[:, None]
        return trajectory_of({name: _side_by_side(name, x[rows, drawn]) for name, x in self._stored.items()})

    @property
    def size(self) -> int:
        """Number of stored trajectories per run."""
        return min(self.added, self.capacity)

    def state(self) -> tuple[dict[str, Tensor], int]:
        """The stored tensors, and the number of trajectories added so far."""
        return {name: x[:, : self.size] for name, x in self._stored.items()}, self.added

    def layout(self, of_one: Layout, added: int) -> Layout:
        """The layout of the stored tensors after so many trajectories, given that of one of them."""
        size = min(added, self.capacity)
        return {name: ((shape[0], size, *shape[1:]), dtype) for name, (shape, dtype) in of_one.items()}

    def load_state(self, stored: dict[str, Tensor], added: int, device: torch.device) -> None:
        self.added = added
        self._stored = {name: self._room_for(x[:, 0].to(device)) for name, x in stored.items()}
        for name, x in stored.items():
            self._stored[name][:, : self.size] = x.to(device)

    def _room_for(self, x: Tensor) -> Tensor:
        return x.new_zeros((x.shape[0], self.capacity, *x.shape[1:]))


def check_replay(config: LearnerConfig, observation: ObservationSpec) -> None:
    """Raise InputError if the observations of one run would exceed the maximum size, before training starts."""
    if config.replay_ratio:
        _check_size(config.replay_capacity, _bytes_each(config, observation))


def bytes_of_past(config: LearnerConfig, observation: ObservationSpec) -> int:
    """Bytes of the full buffer of one run; 0 without replay."""
    return config.replay_capacity * _bytes_each(config, observation) if config.replay_ratio else 0


def _bytes_each(config: LearnerConfig, observation: ObservationSpec) -> int:
    """Bytes of the observations of one trajectory; everything else is small."""
    entries = (config.trajectory_length + 1) * config.environments * math.prod(observation.shape)
    return entries * np.dtype(observation.dtype).itemsize


def _check_size(capacity: int, bytes_each: int) -> None:
    size = capacity * bytes_each
    if size > LARGEST:
        raise InputError(
            f"replay_capacity is {capacity} trajectories, which take {size / 2**30:.0f} GiB; expected at most "
            f"{LARGEST >> 30} GiB."
        )


def join(fresh: Trajectory, past: Trajectory) -> Trajectory:
    """Concatenate two trajectories of the same length along the batch axis."""
    new, old = tensors_of(fresh), tensors_of(past)
    return trajectory_of({name: torch.cat([new[name], old[name]], dim=_batch_axis(name)) for name in new})


def part(trajectory: Trajectory, index: int, parts: int) -> Trajectory:
    """One of several equal parts along the batch axis, without copying."""
    fields = tensors_of(trajectory)
    return trajectory_of({name: x.chunk(parts, dim=_batch_axis(name))[index] for name, x in fields.items()})


def _batch_axis(name: str) -> int:
    """Index of the axis B, after R and, where there is one, T."""
    return 1 if name == "w" or name.startswith("core_state") else 2


def _side_by_side(name: str, x: Tensor) -> Tensor:
    """[R, count, ..., B, ...] -> [R, ..., count·B, ...]."""
    axis = _batch_axis(name)
    return x.movedim(1, axis).flatten(axis, axis + 1)

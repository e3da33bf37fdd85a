"""Past trajectories, kept to be learned from again: Q-learning is off-policy, so that old behaviour does no harm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.learning.config import LearnerConfig
from usfa.trajectory import Trajectory, tensors_of, trajectory_of

__all__ = ["Replay", "bytes_of_past", "check_replay", "join", "part"]

LARGEST = 16 * 2**30
"""Bytes that past trajectories may take."""


class Replay:
    """The last `capacity` trajectories of every run, drawn from uniformly."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.added = 0
        self._stored: dict[str, Tensor] = {}  # by field of Trajectory, each [R, capacity, ...]

    def add(self, trajectory: Trajectory) -> None:
        """Copy a trajectory of all runs over the oldest one."""
        fields = tensors_of(trajectory)
        if not self._stored:
            _check_size(self.capacity, sum(x.nbytes for x in fields.values()))
            self._stored = {name: self._room_for(x) for name, x in fields.items()}
        for name, x in fields.items():
            self._stored[name][:, self.added % self.capacity] = x
        self.added += 1

    def sample(self, count: int, rngs: Sequence[np.random.Generator]) -> Trajectory:
        """`count` past trajectories of every run, side by side along the batch axis.

        Args:
            count: how many.
            rngs: one generator per run.
        """
        drawn = torch.from_numpy(np.stack([rng.integers(self.size, size=count) for rng in rngs]))
        rows = torch.arange(len(drawn))[:, None]
        return trajectory_of({name: _side_by_side(name, x[rows, drawn]) for name, x in self._stored.items()})

    @property
    def size(self) -> int:
        """How many trajectories of every run there are."""
        return min(self.added, self.capacity)

    def state(self) -> tuple[dict[str, Tensor], int]:
        """What was added so far, and how much that was."""
        return {name: x[:, : self.size] for name, x in self._stored.items()}, self.added

    def load_state(self, stored: dict[str, Tensor], added: int, device: torch.device) -> None:
        self.added = added
        self._stored = {name: self._room_for(x[:, 0].to(device)) for name, x in stored.items()}
        for name, x in stored.items():
            self._stored[name][:, : self.size] = x.to(device)

    def _room_for(self, x: Tensor) -> Tensor:
        return x.new_zeros((x.shape[0], self.capacity, *x.shape[1:]))


def check_replay(config: LearnerConfig, observation: ObservationSpec) -> None:
    """InputError if the observations of one run alone would take too much memory: said before anything is begun."""
    if config.reuse:
        _check_size(config.replay_capacity, _bytes_each(config, observation))


def bytes_of_past(config: LearnerConfig, observation: ObservationSpec) -> int:
    """What past trajectories of one run will take when there are as many as are kept; without reuse, nothing."""
    return config.replay_capacity * _bytes_each(config, observation) if config.reuse else 0


def _bytes_each(config: LearnerConfig, observation: ObservationSpec) -> int:
    """Of one trajectory: its observations, beside which the rest is small."""
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
    """Two trajectories of the same length as one with more environments."""
    new, old = tensors_of(fresh), tensors_of(past)
    return trajectory_of({name: torch.cat([new[name], old[name]], dim=_batch_axis(name)) for name in new})


def part(trajectory: Trajectory, index: int, parts: int) -> Trajectory:
    """One of several equal parts of the environments, without copying."""
    fields = tensors_of(trajectory)
    return trajectory_of({name: x.chunk(parts, dim=_batch_axis(name))[index] for name, x in fields.items()})


def _batch_axis(name: str) -> int:
    """Behind R, and behind T where there is one."""
    return 1 if name == "w" or name.startswith("core_state") else 2


def _side_by_side(name: str, x: Tensor) -> Tensor:
    """[R, count, ..., B, ...] -> [R, ..., count·B, ...]."""
    axis = _batch_axis(name)
    return x.movedim(1, axis).flatten(axis, axis + 1)

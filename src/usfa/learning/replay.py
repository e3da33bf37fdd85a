"""Replay buffer of past trajectories. Q-learning is off-policy, so trajectories of old policies remain valid."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.learning.config import LearnerConfig
from usfa.learning.layout import Layout
from usfa.trajectory import Trajectory, tensors_of, trajectory_of

__all__ = ["PrioritisedReplay", "Replay", "bytes_of_past", "check_replay", "join", "make_replay", "part"]

LARGEST = 16 * 2**30
"""Maximum size of the buffer in bytes."""
LEAST_PRIORITY = 1e-3
"""Lowest priority, relative to the highest: no trajectory is forgotten."""
_PRIORITY = "priority"  # name of the priorities among the stored tensors


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
        drawn = np.stack([rng.integers(self.size, size=count) for rng in rngs])
        places = torch.from_numpy(drawn + self.capacity * np.arange(len(rngs))[:, None])
        return trajectory_of({name: _side_by_side(name, _rows_of(x, places)) for name, x in self._stored.items()})

    def learned(self, losses: Sequence[Tensor]) -> None:
        """Receive the losses of a round: of the newest trajectories, then of the last sample. Not used here."""

    @property
    def size(self) -> int:
        """Number of stored trajectories per run."""
        return min(self.added, self.capacity)

    def state(self) -> tuple[dict[str, Tensor], int]:
        """The stored tensors, and the number of trajectories added so far."""
        return {name: x[:, : self.size] for name, x in self._stored.items()}, self.added

    def layout(self, of_one: Layout, added: int) -> Layout:
        """The layout of the stored tensors after `added` trajectories, given the layout of one trajectory."""
        size = min(added, self.capacity)
        return {name: ((shape[0], size, *shape[1:]), dtype) for name, (shape, dtype) in of_one.items()}

    def load_state(self, stored: dict[str, Tensor], added: int, device: torch.device) -> None:
        self.added = added
        self._stored = {name: self._room_for(x[:, 0].to(device)) for name, x in stored.items()}
        for name, x in stored.items():
            self._stored[name][:, : self.size] = x.to(device)

    def _room_for(self, x: Tensor) -> Tensor:
        return x.new_zeros((x.shape[0], self.capacity, *x.shape[1:]))


class PrioritisedReplay(Replay):
    """Replay buffer that samples trajectories of single environments with probability ∝ √loss^exponent.

    Prioritised experience replay (Schaul et al., ICLR 2016) of whole trajectories. Importance weights are not needed:
    the targets of Q-learning do not depend on the distribution of states that are learned from.
    """

    def __init__(self, capacity: int, exponent: float) -> None:
        super().__init__(capacity)
        self._exponent = exponent
        self._priority = np.zeros((0, 0, 0))  # [R, capacity, B], root of the last loss
        self._drawn = np.zeros((0, 0), np.int64)  # [R, count · B], indices of (capacity, B) in the last sample

    def add(self, trajectory: Trajectory) -> None:
        """Add a trajectory of all environments with the highest priority in the buffer, so that it is soon replayed."""
        super().add(trajectory)
        runs, batch = trajectory.w.shape[:2]
        if not self._priority.size:
            self._priority = np.zeros((runs, self.capacity, batch))
        highest = self._priority.max(axis=(1, 2), initial=0.0)
        self._priority[:, self._newest] = np.where(highest > 0, highest, 1.0)[:, None]

    def sample(self, count: int, rngs: Sequence[np.random.Generator]) -> Trajectory:
        batch = self._priority.shape[2]
        self._drawn = np.stack([self._draw(run, count * batch, rng) for run, rng in enumerate(rngs)])
        rows = torch.arange(len(rngs))[:, None]
        place, environment = (torch.from_numpy(index) for index in np.divmod(self._drawn, batch))
        chosen = {}
        for name, x in self._stored.items():
            axis = _batch_axis(name)
            chosen[name] = x.movedim(axis + 1, 2)[rows, place, environment].movedim(1, axis)
        return trajectory_of(chosen)

    def _draw(self, run: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Indices of (capacity, B), one from each of `count` equal parts of the total weight, in random order."""
        priority = self._priority[run, : self.size].ravel()
        relative = priority / (priority.max() or 1.0)
        total = (np.maximum(relative, LEAST_PRIORITY) ** self._exponent).cumsum()
        drawn = total.searchsorted((np.arange(count) + rng.random(count)) / count * total[-1], side="right")
        return rng.permutation(np.minimum(drawn, len(total) - 1))

    def learned(self, losses: Sequence[Tensor]) -> None:
        """Set priorities from the losses, together [R, (1 + count) · B]."""
        roots = torch.cat(tuple(losses), dim=1).double().clamp(min=0).sqrt().cpu().numpy()
        batch = self._priority.shape[2]
        self._priority[:, self._newest] = roots[:, :batch]
        for run, places in enumerate(self._priority):
            places.reshape(-1)[self._drawn[run]] = roots[run, batch:]

    @property
    def _newest(self) -> int:
        return (self.added - 1) % self.capacity

    def state(self) -> tuple[dict[str, Tensor], int]:
        stored, added = super().state()
        if not stored:
            return stored, added
        return stored | {_PRIORITY: torch.from_numpy(self._priority[:, : self.size])}, added

    def layout(self, of_one: Layout, added: int) -> Layout:
        runs, batch = of_one["w"][0][:2]
        return super().layout(of_one | {_PRIORITY: ((runs, batch), torch.float64)}, added)

    def load_state(self, stored: dict[str, Tensor], added: int, device: torch.device) -> None:
        rest = {name: x for name, x in stored.items() if name != _PRIORITY}
        super().load_state(rest, added, device)
        if _PRIORITY in stored:
            saved = stored[_PRIORITY].numpy()
            if not ((saved >= 0) & np.isfinite(saved)).all():
                raise InputError("The priorities of the replay buffer are damaged; expected finite numbers from 0 up.")
            self._priority = np.zeros((saved.shape[0], self.capacity, saved.shape[2]))
            self._priority[:, : self.size] = saved


def make_replay(config: LearnerConfig) -> Replay:
    """Make the replay buffer of a configuration."""
    if config.priority_exponent:
        return PrioritisedReplay(config.replay_capacity, config.priority_exponent)
    return Replay(config.replay_capacity)


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
    cut = {}
    for name, x in fields.items():
        axis = _batch_axis(name)
        size = x.shape[axis] // parts
        cut[name] = x.narrow(axis, index * size, size)  # one view; chunk would make all of them, for every part
    return trajectory_of(cut)


def _batch_axis(name: str) -> int:
    """Index of the axis B, after R and, where there is one, T."""
    return 1 if name == "w" or name.startswith("core_state") else 2


def _rows_of(x: Tensor, places: Tensor) -> Tensor:
    """Copy rows of x [R, capacity, ...] by their index in the flattened first two axes: four times faster than x[…]."""
    return x.flatten(0, 1).index_select(0, places.flatten().to(x.device)).unflatten(0, places.shape)


def _side_by_side(name: str, x: Tensor) -> Tensor:
    """[R, count, ..., B, ...] -> [R, ..., count·B, ...]."""
    axis = _batch_axis(name)
    return x.movedim(1, axis).flatten(axis, axis + 1)

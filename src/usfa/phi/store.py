"""A store for collected transitions that keeps every observation once: in memory, or in a file if they are many."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.files import require_space
from usfa.phi.data import Transitions
from usfa.phi.frames import Frames

__all__ = ["ENVIRONMENTS", "MOST_MEMORY", "TransitionStore", "bytes_of"]

ENVIRONMENTS = 32
"""Environments that data is collected in at once."""
MOST_MEMORY = 3 << 30
"""Largest size of collected observations that are kept in memory, and of everything else, in bytes."""


class TransitionStore:
    """Transitions in columns: places of the observations before, actions, place of the next one, rewards, episode.

    Args:
        steps: number of transitions to expect.
        spec: encoding of observations.
        history: H, the number of observations before each next one.
        path: file for observations that take more than `MOST_MEMORY`; by default a temporary one.
    """

    def __init__(self, steps: int, spec: ObservationSpec, history: int, path: Path | None = None) -> None:
        _check_rows(steps, history)
        self._history, self._count = history, 0
        self._columns: tuple[list[NDArray[Any]], ...] = ([], [], [], [], [])
        self._path = path if bytes_of(steps, spec) > MOST_MEMORY else None
        self._frames: NDArray[Any]  # [F, ..., C]  the first `_count` are in use
        if bytes_of(steps, spec) <= MOST_MEMORY:
            self._frames = np.empty((steps + ENVIRONMENTS, *spec.shape), spec.dtype)
        else:
            self._frames = _file_of_frames(path, steps, spec)

    def seen(
        self, observation: NDArray[Any], new: NDArray[np.bool_], known: NDArray[Any] | None = None
    ) -> NDArray[np.int64]:
        """Store the observations [B, ...] that are `new`, and return the places of all, [B, 1]; others are `known`."""
        places = np.zeros((len(observation), 1), np.int64) if known is None else known.copy()
        count = int(new.sum())
        if self._count + count > len(self._frames):  # episodes that terminate have one observation more
            more = np.empty_like(self._frames[: len(self._frames) // 4 + count])
            self._frames = np.concatenate([self._frames, more])
        self._frames[self._count : self._count + count] = observation[new]
        places[new, 0] = np.arange(self._count, self._count + count)
        self._count += count
        return places

    def add(
        self,
        before: NDArray[np.int64],
        action: NDArray[np.int64],
        after: NDArray[np.int64],
        rewards: NDArray[np.float32],
        episode: NDArray[np.int64],
        real: NDArray[np.bool_],
    ) -> None:
        """Add one step of B environments, of those that are `real`; observations by their places."""
        added: tuple[NDArray[Any], ...] = (before, action, after, rewards, episode)
        for column, values in zip(self._columns, added, strict=True):
            column.append(values[real].copy())

    def transitions(self, names: tuple[str, ...], spec: ObservationSpec, actions: int) -> Transitions:
        """All transitions; nothing may be added afterwards."""
        frames = self._frames[: self._count]
        if self._path is not None:
            frames = _finished(frames, self._path)
        before, action, after, rewards, episode = (np.concatenate(column) for column in self._columns)
        return Transitions(
            Frames(frames, before),
            action,
            Frames(frames, after),
            rewards,
            episode,
            np.ones(len(action), np.float32),
            np.ones(rewards.shape, np.bool_),
            names,
            spec,
            actions,
            self._history,
        )


def _check_rows(steps: int, history: int) -> None:
    """Raise InputError if the columns, which are kept in memory, would be too large."""
    size = 8 * steps * (2 * history + 3)  # places, actions, the next place, episode, and about as much for rewards
    if size > MOST_MEMORY:
        raise InputError(
            f"steps is {steps:,}, which would take {size / 2**30:.1f} GiB of memory besides the observations; expected "
            f"at most {MOST_MEMORY >> 30} GiB: set fewer steps."
        )


def _file_of_frames(path: Path | None, steps: int, spec: ObservationSpec) -> NDArray[Any]:
    """An array in a file with room for two observations per step, which no episodes exceed.

    The file is sparse: it takes space on the disk only where something was written.
    """
    require_space(Path(tempfile.gettempdir()) if path is None else path.parent, bytes_of(steps, spec))
    shape = (2 * steps + 2 * ENVIRONMENTS, *spec.shape)
    if path is not None:
        return np.memmap(path, spec.dtype, "w+", shape=shape)
    with tempfile.TemporaryFile() as file:  # the map keeps it after it is closed
        return np.memmap(file, spec.dtype, "w+", shape=shape)


def _finished(frames: NDArray[Any], path: Path) -> NDArray[Any]:
    """Frames in a file, which now ends with them, for reading only."""
    frames.flush()  # type: ignore[attr-defined]  # of a memory map
    with path.open("r+b") as file:
        file.truncate(frames.nbytes)
        os.fsync(file.fileno())
    return np.memmap(path, frames.dtype, "r", shape=frames.shape)


def bytes_of(steps: int, spec: ObservationSpec) -> int:
    """Size of the observations of a number of steps, each stored once."""
    return steps * math.prod(spec.shape) * np.dtype(spec.dtype).itemsize

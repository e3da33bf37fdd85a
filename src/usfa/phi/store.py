"""A store for collected transitions that keeps every observation once: in memory, or in a file if they are many."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.files import require_space
from usfa.phi.data import Transitions
from usfa.phi.frames import Frames

__all__ = ["ENVIRONMENTS", "MOST_MEMORY", "TransitionStore", "check_rows"]

ENVIRONMENTS = 32
"""Number of environments in which data is collected at once."""
MOST_MEMORY = 3 << 30
"""Largest size in bytes of the observations that are kept in memory, and separately of everything else."""


class TransitionStore:
    """Transitions in columns: places of the observations before, actions, place of the next one, rewards, episode.

    Args:
        steps: number of transitions to expect.
        spec: encoding of observations.
        history: H, the number of observations before each next one.
        path: file for observations that take more than `MOST_MEMORY`; by default a temporary one.
    """

    def __init__(self, steps: int, spec: ObservationSpec, history: int, path: Path | None = None) -> None:
        check_rows(steps, history)
        self._history, self._count = history, 0
        self._columns: tuple[list[NDArray[Any]], ...] = ([], [], [], [], [])
        size = steps * math.prod(spec.shape) * np.dtype(spec.dtype).itemsize
        self._frames = _InMemory(steps, spec) if size <= MOST_MEMORY else _InFile(path, size, spec)

    def seen(
        self, observation: NDArray[Any], new: NDArray[np.bool_], known: NDArray[Any] | None = None
    ) -> NDArray[np.int64]:
        """Store the `new` ones of B observations; return the places of all, [B, 1], `known` ones for the others."""
        places = np.zeros((len(observation), 1), np.int64) if known is None else known.copy()
        self._frames.append(observation[new])
        count = int(new.sum())
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
        """Add one step of B environments, only where `real` is set; observations are given as places."""
        added: tuple[NDArray[Any], ...] = (before, action, after, rewards, episode)
        for column, values in zip(self._columns, added, strict=True):
            column.append(values[real].copy())

    def transitions(self, names: tuple[str, ...], spec: ObservationSpec, actions: int) -> Transitions:
        """All transitions; nothing may be added afterwards."""
        frames = self._frames.finished()
        before, action, after, rewards, episode = (_joined(column) for column in self._columns)
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


class _InMemory:
    """Observations in an array."""

    def __init__(self, steps: int, spec: ObservationSpec) -> None:
        self._frames, self._count = np.empty((steps + ENVIRONMENTS, *spec.shape), spec.dtype), 0

    def append(self, observations: NDArray[Any]) -> None:
        end = self._count + len(observations)
        if end > len(self._frames):  # episodes that terminate have one observation more
            more = np.empty_like(self._frames[: len(self._frames) // 4 + len(observations)])
            self._frames = np.concatenate([self._frames, more])
        self._frames[self._count : end] = observations
        self._count = end

    def finished(self) -> NDArray[Any]:
        return self._frames[: self._count]


class _InFile:
    """Observations that are appended to a file, which is mapped into memory when all are written."""

    def __init__(self, path: Path | None, size: int, spec: ObservationSpec) -> None:
        self._path, self._shape, self._dtype, self._count = path, spec.shape, spec.dtype, 0
        if path is None:
            remedy = "Set `out`, or another directory for temporary files (TMPDIR)."
            require_space(Path(tempfile.gettempdir()), size, remedy)
            self._file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)  # left by a run that was killed
            require_space(path.parent, size)
            self._file = path.open("wb+")

    def append(self, observations: NDArray[Any]) -> None:
        try:
            self._file.write(np.ascontiguousarray(observations, self._dtype).data)
        except OSError as error:  # add the name of the file
            raise OSError(error.errno, error.strerror or str(error), str(self._path or "temporary file")) from error
        self._count += len(observations)

    def finished(self) -> NDArray[Any]:
        with self._file as file:  # the map stays valid when the file is closed
            file.flush()
            os.fsync(file.fileno())
            return np.memmap(self._path or file, self._dtype, "r", shape=(self._count, *self._shape))


def check_rows(steps: int, history: int) -> None:
    """Raise InputError if the columns, which are kept in memory, would be too large."""
    size = 8 * steps * (2 * history + 3)  # places, actions, the next place, episode, and about as much for rewards
    if size > MOST_MEMORY:
        raise InputError(
            f"steps is {steps:,}, which would take {size / 2**30:.1f} GiB of memory besides the observations; expected "
            f"at most {MOST_MEMORY >> 30} GiB: set fewer steps or a shorter history."
        )


def _joined(column: list[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate the parts of a column, and free their memory before the next column needs it."""
    joined = np.concatenate(column)
    column.clear()
    return joined

"""Stores of collected transitions: all of them, or those with a rare reward and some others."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.phi.data import COMMON_PER_RARE, WARM_UP, Transitions, most_common
from usfa.phi.frames import Frames

__all__ = ["ENVIRONMENTS", "LARGEST", "Everything", "Store", "Thinned", "bytes_of"]

ENVIRONMENTS = 32
"""Environments that data is collected in at once."""
LARGEST = 3 << 30
"""Largest size of collected observations in bytes."""
_REWARDS = 3  # column of the rewards


class Store(ABC):
    """Transitions in columns: observation, action, next observation, rewards, episode, weight."""

    def __init__(self, steps: int, spec: ObservationSpec, history: int) -> None:
        self._steps, self._spec, self._history = steps, spec, history
        self._columns: tuple[list[NDArray[Any]], ...] = ([], [], [], [], [], [])

    @abstractmethod
    def seen(
        self, observation: NDArray[Any], new: NDArray[np.bool_], known: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Store the observations [B, ...] that are `new`, and return all entries of rows; others are `known`."""

    @abstractmethod
    def _chosen(
        self, rewards: NDArray[np.float32], real: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Which transitions [B] to keep, of those that are `real`, and the weights of all [B]."""

    def add(
        self,
        before: NDArray[Any],
        action: NDArray[np.int64],
        after: NDArray[Any],
        rewards: NDArray[np.float32],
        episode: NDArray[np.int64],
        real: NDArray[np.bool_],
    ) -> None:
        """Add one step of B environments."""
        keep, weight = self._chosen(rewards, real)
        for column, values in zip(self._columns, (before, action, after, rewards, episode, weight), strict=True):
            column.append(values[keep].copy())

    def transitions(self, names: tuple[str, ...], spec: ObservationSpec, actions: int) -> Transitions:
        """All transitions; the store is empty afterwards."""
        before, action, after, rewards, episode, weight = (_joined(column) for column in self._columns)
        seen = np.ones(rewards.shape, np.bool_)
        return Transitions(before, action, after, rewards, episode, weight, seen, names, spec, actions, self._history)

    def _check_size(self, size: float) -> None:
        """Raise InputError if observations would exceed the maximum size in bytes."""
        if size > LARGEST:
            raise InputError(
                f"steps is {self._steps:,}, whose observations would take {size / 2**30:.1f} GiB; expected at most "
                f"{LARGEST >> 30} GiB: set fewer steps."
            )


class Everything(Store):
    """All transitions; every observation is stored once, and rows hold its place."""

    def __init__(self, steps: int, spec: ObservationSpec, history: int) -> None:
        super().__init__(steps, spec, history)
        self._check_size(bytes_of(steps, spec))
        self._store, self._count = np.empty((steps + ENVIRONMENTS, *spec.shape), spec.dtype), 0

    def seen(
        self, observation: NDArray[Any], new: NDArray[np.bool_], known: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        places = np.zeros((len(observation), 1), np.int64) if known is None else known.copy()
        count = int(new.sum())
        if self._count + count > len(self._store):  # episodes that terminate have one observation more
            self._store = np.concatenate([self._store, np.empty_like(self._store[: len(self._store) // 4 + count])])
        self._store[self._count : self._count + count] = observation[new]
        places[new, 0] = np.arange(self._count, self._count + count)
        self._count += count
        return places

    def _chosen(
        self, rewards: NDArray[np.float32], real: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        return real, np.ones(len(real), np.float32)

    def transitions(self, names: tuple[str, ...], spec: ObservationSpec, actions: int) -> Transitions:
        found = super().transitions(names, spec, actions)
        store = self._store[: self._count]
        before, after = (Frames(store, np.asarray(x)) for x in (found.observation, found.next_observation))
        return replace(found, observation=before, next_observation=after)


class Thinned(Store):
    """All transitions with rare rewards, and a share of the others."""

    def __init__(self, rng: np.random.Generator, steps: int, spec: ObservationSpec, history: int) -> None:
        super().__init__(steps, spec, history)
        self._rng = rng
        if steps <= WARM_UP:
            self._check_share(1.0)
        self._seen, self._rare = 0, 0
        self._common: NDArray[np.float32] | None = None  # [K]  most common reward; NaN if none is

    def seen(
        self, observation: NDArray[Any], new: NDArray[np.bool_], known: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        return observation

    def _chosen(
        self, rewards: NDArray[np.float32], real: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        if self._common is None and self._seen >= WARM_UP:
            first = np.concatenate(self._columns[_REWARDS])
            self._common = most_common(first)
            self._check_share((1 + COMMON_PER_RARE) * float((first != self._common).any(axis=1).mean()))
        before = self._seen
        self._seen += int(real.sum())
        if self._common is None:
            return real, np.ones(len(real), np.float32)
        rare = (rewards != self._common).any(axis=1)
        self._rare += int((rare & real).sum())
        share = min(1.0, COMMON_PER_RARE * max(self._rare, 1) / max(before - WARM_UP, WARM_UP))
        keep = real & (rare | (self._rng.random(len(real)) < share))
        return keep, np.where(rare, 1.0, 1.0 / share).astype(np.float32)

    def _check_share(self, share: float) -> None:
        """Raise InputError if the observations of a share of all steps would exceed the maximum size."""
        self._check_size(min(1.0, share) * (self._history + 1) * bytes_of(self._steps, self._spec))


def bytes_of(steps: int, spec: ObservationSpec) -> int:
    """Size of the observations of a number of steps, each stored once."""
    return steps * math.prod(spec.shape) * np.dtype(spec.dtype).itemsize


def _joined(column: list[NDArray[Any]]) -> NDArray[Any]:
    """All parts of a column, whose memory is freed before the next column needs it."""
    joined = np.concatenate(column)
    column.clear()
    return joined

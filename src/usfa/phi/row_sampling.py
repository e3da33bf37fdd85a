"""Sampling of the transitions that an update of φ learns from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["ErrorSampler", "RowSampler"]


class RowSampler:
    """Samples the rows of a batch.

    Args:
        chance: relative probability of each row, [N].
    """

    def __init__(self, chance: NDArray[Any]) -> None:
        self._chance = chance / chance.mean(dtype=np.float64)
        self._uniform = bool((chance == chance[0]).all())
        self._bounds = np.zeros(0) if self._uniform else self._chance.cumsum()

    def __len__(self) -> int:
        return len(self._chance)

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        if self._uniform:
            return rng.integers(len(self), size=size)
        return self._bounds.searchsorted(rng.random(size) * self._bounds[-1], side="right")

    def weight_of(self, rows: Tensor) -> Tensor:
        """Importance weights [B]: a weighted mean over drawn rows estimates the mean over all rows."""
        return torch.from_numpy((1 / self._chance[rows.numpy()]).astype(np.float32))

    def learned(self, rows: Tensor, error: Tensor) -> None:
        """Receive the errors of rows, [B]. Not used here."""

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        pass


class ErrorSampler(RowSampler):
    """Draws a share of each batch in proportion to each row's last error, which lowers the variance of the gradient.

    Args:
        chance: relative probability of each row in the rest of the update, [N].
        error: initial errors, [N].
        share: share that is drawn by error.
    """

    REFRESH = 100
    """Number of updates that are drawn by the same errors. To resume to the bit, save after a multiple of it."""

    def __init__(self, chance: NDArray[Any], error: Tensor, share: float) -> None:
        super().__init__(chance)
        self._others, self._error, self._share = self._chance, error.clone(), share
        self._uniform, self._drawn = False, 0  # number of updates drawn

    def sample(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        if self._drawn % self.REFRESH == 0:
            error = self._error.double().numpy()
            self._chance = (1 - self._share) * self._others + self._share * error / max(error.mean(), 1e-30)
            self._bounds = self._chance.cumsum()
        self._drawn += 1
        return super().sample(size, rng)

    def learned(self, rows: Tensor, error: Tensor) -> None:
        self._error[rows] = error

    def state(self) -> dict[str, Tensor]:
        return {"error": self._error}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self._error = state["error"].clone()

"""Observations that are stored once, although they belong to several transitions and their histories."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Frames", "Observations"]


class Frames:
    """Rows of the last H observations, found by their places in a store.

    Indexing gives a part of the rows without a copy; `np.asarray` stacks them, [N, ..., H · C].

    Args:
        store: [F, ..., C], the observations.
        places: [N, H], those of each row, oldest first.
    """

    def __init__(self, store: NDArray[Any], places: NDArray[np.int64]) -> None:
        self.store, self.places = store, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, rows: Any) -> Frames:
        return Frames(self.store, self.places[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        stacked = np.concatenate([self.store[place] for place in self.places.T], axis=-1)
        return stacked if dtype is None else stacked.astype(dtype)


Observations = NDArray[Any] | Frames
"""Observations [N, ...], as an array or by their places."""

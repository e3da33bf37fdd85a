"""Observations that are stored once, although they belong to several transitions and their histories."""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.files import require_space

__all__ = ["Frames", "Observations", "frames_file", "read_frames", "save_frames"]


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


# --- files, for observations that do not fit into memory ---

_COPIED = 1024  # frames at a time


def frames_file(data: Path) -> Path:
    """The file of the observations that belong to a file of transitions."""
    return data.with_suffix(".frames")


def save_frames(frames: np.memmap[Any, Any], path: Path) -> str:
    """Write frames to a file, unless they are mapped from it; return its checksum."""
    if frames.filename is None or Path(frames.filename) != path.absolute():
        require_space(path.parent, frames.nbytes)
        with path.open("wb") as file:
            for begin in range(0, len(frames), _COPIED):
                file.write(np.ascontiguousarray(frames[begin : begin + _COPIED]).data)
            os.fsync(file.fileno())
    return _digest(path)


def read_frames(path: Path, spec: ObservationSpec, checksum: str) -> np.memmap[Any, Any]:
    """Map a file of frames [F, ..., C] into memory; raise InputError if it is not the one with this checksum."""
    if not path.is_file():
        raise InputError(f"File {path} is missing; expected the observations of {path.with_suffix('.npz')}.")
    size = math.prod(spec.shape) * np.dtype(spec.dtype).itemsize
    if not path.stat().st_size or path.stat().st_size % size or _digest(path) != checksum:
        raise InputError(f"File {path} is torn or was changed: its checksum does not match its content.")
    return np.memmap(path, spec.dtype, "r", shape=(path.stat().st_size // size, *spec.shape))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

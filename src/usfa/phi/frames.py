"""Observations that are stored once, although they belong to several transitions and their histories."""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usfa.errors import InputError
from usfa.files import require_space

__all__ = ["Frames", "Observations", "frames_file", "read_frames", "save_frames"]


class Frames:
    """Rows of the last H observations, as places (indices) in a store that holds each observation once.

    Indexing selects rows without copying observations; `np.asarray` stacks them, [N, ..., H · C].

    Args:
        store: [F, ..., C], the observations.
        places: [N, H], the places of the observations of each row, oldest first.
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

_COPIED = 1024  # frames copied at a time


def frames_file(data: Path) -> Path:
    """The file of the observations that belong to a file of transitions."""
    return data.with_suffix(".frames")


def save_frames(frames: np.memmap[Any, Any], path: Path) -> dict[str, NDArray[Any]]:
    """Write frames to a file, unless they are mapped from it; return the shape, type and checksum of the file."""
    if not (path.exists() and frames.filename is not None and os.path.samefile(frames.filename, path)):
        require_space(path.parent, frames.nbytes)
        part = path.with_name(f".{path.name}.part")
        with part.open("wb") as file:
            for begin in range(0, len(frames), _COPIED):
                file.write(np.ascontiguousarray(frames[begin : begin + _COPIED]).data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)  # another map of the old file stays valid
    return {
        "frames_shape": np.array(frames.shape),
        "frames_type": np.array(frames.dtype.name),
        "frames_sha256": np.array(_digest(path)),
    }


def read_frames(
    path: Path, archive: Path, shape: tuple[int, ...], dtype: np.dtype[Any], checksum: str
) -> np.memmap[Any, Any]:
    """Map the file with an archive's observations into memory; raise InputError if it is missing or was changed."""
    if not path.is_file():
        raise InputError(f"File {path} is missing; expected the observations of {archive}.")
    if path.stat().st_size != math.prod(shape) * dtype.itemsize or _digest(path) != checksum:
        raise InputError(f"File {path} is torn or was changed: its checksum does not match its content.")
    return np.memmap(path, dtype, "r", shape=shape)


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"File {path} cannot be read: {error.strerror}.") from error

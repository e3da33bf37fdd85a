"""Read transitions from npz archives with the names of D4RL, without pickles.

They hold observations [N, ...], actions [N], next_observations [N, ...], rewards [N] or [N, K], and episodes [N] or
terminals and timeouts [N]; reward_names and weights are optional. φ of a history needs all transitions of an episode in
order. Observations of archives that usfa wrote may be in NAME.frames beside them.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usfa.environments import ObservationSpec, check_history
from usfa.errors import InputError
from usfa.files import read_bytes
from usfa.phi.data import Transitions
from usfa.phi.frames import Frames, frames_file, read_frames

__all__ = ["read_transitions"]


def read_transitions(
    path: Path, spec: ObservationSpec, actions: int, environment: str, history: int = 1
) -> Transitions:
    """Read an npz file; raise InputError if it is not one, or if its data is of another environment.

    Args:
        path: the file.
        spec: encoding of the observations of the environment.
        actions: the number of actions of the environment.
        environment: its name in errors.
        history: H, the number of observations before each next one; they are taken from the rows of an episode, unless
            the file was saved with the same H.
    """
    found = _read(path, spec, actions, environment)
    if found.history == history:
        return found
    alone = found.with_latest_only()
    return alone if history == 1 else _with_history(alone, history, path)


def _read(path: Path, spec: ObservationSpec, actions: int, environment: str) -> Transitions:
    arrays = _read_arrays(path)
    for name in ("observations", "actions", "next_observations", "rewards"):
        if name not in arrays:
            raise InputError(f"File {path} has no array {name!r}; expected the names of D4RL, see the docs.")
    history = _whole(path, arrays, "history", 1)
    check_history(history)
    action = _actions(path, arrays["actions"], history, actions, environment)
    count = len(action)
    frames, encoded = _frames(path, arrays, spec, environment), bool(_whole(path, arrays, "encoded", 0))
    before, after = (
        _observations(path, arrays[name], spec, count, environment, seen if encoded else None)
        if frames is None
        else _placed(path, frames, arrays[name], spec, (count, seen), environment)
        for name, seen in (("observations", history), ("next_observations", 1))
    )
    rewards = _matrix(path, "rewards", arrays["rewards"], count, fewest=0 if encoded else 1)
    seen = arrays.get("seen", np.ones(rewards.shape, np.bool_))
    if seen.shape != rewards.shape or seen.dtype.kind != "b":
        raise InputError(f"The array 'seen' of {path} is {seen.dtype} {seen.shape}; expected bool {rewards.shape}.")
    return Transitions(
        before,
        action,
        after,
        rewards,
        _episodes(path, arrays, count),
        _weights(path, arrays, count),
        seen.astype(np.bool_),
        _names(path, arrays, rewards.shape[1]),
        spec,
        actions,
        history,
    )


def _actions(path: Path, action: NDArray[Any], history: int, actions: int, environment: str) -> NDArray[np.int64]:
    """Actions [N], or [N, H] if H > 1, where those before an episode are -1."""
    each = (history,) if history > 1 else ()
    if not action.ndim or action.shape[1:] != each or action.dtype.kind not in "iu" or not action.size:
        expected = f"[N, {history}]" if each else "[N]"
        raise InputError(f"The actions of {path} are {action.dtype} {action.shape}; expected whole numbers {expected}.")
    last = action[:, -1] if each else action
    if last.min() < 0 or action.min() < -1 or action.max() >= actions:
        raise InputError(
            f"The actions of {path} are {action.min()} to {action.max()}; the environment {environment!r} has 0 to "
            f"{actions - 1}: the data is of another one."
        )
    return action.astype(np.int64)


def _names(path: Path, arrays: dict[str, NDArray[Any]], rewards: int) -> tuple[str, ...]:
    """Names of the K rewards; r1, r2, … by default."""
    names = tuple(str(name) for name in arrays.get("reward_names", [f"r{k + 1}" for k in range(rewards)]))
    if len(names) != rewards:
        raise InputError(f"File {path} has {len(names)} reward_names and {rewards} rewards; expected as many.")
    return names


def _weights(path: Path, arrays: dict[str, NDArray[Any]], count: int) -> NDArray[np.float32]:
    """The number of transitions that each one represents, [N]; 1 by default."""
    weight = arrays.get("weights", np.ones(count))
    numbers = weight.shape == (count,) and weight.dtype.kind in "fiu"
    if not numbers or not (np.isfinite(weight).all() and (weight > 0).all()):
        raise InputError(f"The weights of {path} are not {count} positive numbers.")
    return weight.astype(np.float32)


def _with_history(data: Transitions, history: int, path: Path) -> Transitions:
    """Add the rows before each transition as its history; raise InputError if rows of an episode are missing."""
    order = np.argsort(data.episode, kind="stable")
    data = data.rows(order)
    first = np.concatenate([[True], data.episode[1:] != data.episode[:-1]])
    gaps = _gaps(data, np.flatnonzero(~first))
    if len(gaps):
        raise InputError(
            f"The rows of episode {data.episode[gaps[0]]} of {path} do not follow one another: an observation is not "
            f"the next one of the row before; expected all transitions in order, or history 1."
        )
    begin = np.maximum.accumulate(np.where(first, np.arange(len(data)), 0))  # row that the episode begins with
    rows = np.arange(len(data))[:, None] - np.arange(history - 1, -1, -1)  # [N, H]
    places = np.maximum(rows, begin[:, None])
    before = data.observation
    seen = Frames(before.store, before.places[places, 0]) if isinstance(before, Frames) else Frames(before, places)
    action = np.where(rows >= begin[:, None], data.action[places], -1)
    return replace(data, observation=seen, action=action, history=history)


def _gaps(data: Transitions, later: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the rows of `later`, all but the first of each episode, that do not follow on from the row before."""
    before, after = data.observation, data.next_observation
    if isinstance(before, Frames) and isinstance(after, Frames):  # stored once, so comparing places is enough
        return later[before.places[later, 0] != after.places[later - 1, 0]]
    seen, found = np.asarray(before), np.asarray(after)
    return later[[not np.array_equal(seen[row], found[row - 1]) for row in later]]


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    content = read_bytes(path)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (
        *(ValueError, OSError, EOFError, KeyError, AttributeError, TypeError, NotImplementedError, MemoryError),
        *(zipfile.BadZipFile, zlib.error),
    ) as error:
        raise InputError(f"File {path} is not an npz archive of arrays: {error}.") from error


def _frames(
    path: Path, arrays: dict[str, NDArray[Any]], spec: ObservationSpec, environment: str
) -> NDArray[Any] | None:
    """Observations that were saved once each, [F, ...], in the archive or in a file beside it; None in other files."""
    if "frames_sha256" not in arrays:
        return arrays.get("frames")
    sizes, dtype = arrays.get("frames_shape", np.zeros(0)), np.dtype(spec.dtype)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise InputError(f"The frames_shape of {path} is {sizes}; expected the shape of its observations.")
    shape = tuple(sizes.tolist())
    if shape[1:] != spec.shape or str(arrays.get("frames_type")) != dtype.name:
        raise _of_another(path, shape, (*shape[:1], *spec.shape), environment)
    return read_frames(frames_file(path), path, shape, dtype, str(arrays["frames_sha256"]))


def _observations(
    path: Path, values: NDArray[Any], spec: ObservationSpec, count: int, environment: str, encoded: int | None
) -> NDArray[Any]:
    """Observations [N, ...]; `encoded` is the number of observations in each row if they were saved by us."""
    if encoded is not None:
        expected = (count, *spec.shape[:-1], encoded * spec.shape[-1])
        if values.shape != expected or values.dtype != spec.dtype:
            raise _of_another(path, values.shape, expected, environment)
        return values
    try:
        found = spec.encode(values)
    except InputError as error:
        raise InputError(f"The observations of {path} are not those of {environment!r}: {error}") from error
    if found.shape != (count, *spec.shape):
        raise _of_another(path, values.shape, (count, *spec.shape), environment)
    return found


def _placed(
    path: Path,
    frames: NDArray[Any],
    places: NDArray[Any],
    spec: ObservationSpec,
    expected: tuple[int, int],
    environment: str,
) -> Frames:
    """Observations that were saved once each, with their places."""
    if not frames.ndim or frames.shape[1:] != spec.shape or frames.dtype != spec.dtype:
        raise _of_another(path, frames.shape, (*frames.shape[:1], *spec.shape), environment)
    if places.shape != expected or places.dtype.kind not in "iu" or places.min() < 0 or places.max() >= len(frames):
        raise InputError(
            f"The places of observations in {path} are {places.dtype} {places.shape}; expected whole numbers "
            f"{expected} from 0 to {len(frames) - 1}."
        )
    return Frames(frames, places.astype(np.int64))


def _of_another(path: Path, shape: tuple[int, ...], expected: tuple[int, ...], environment: str) -> InputError:
    return InputError(
        f"The observations of {path} have shape {shape}; the environment {environment!r} has {expected}: the "
        "data is of another one."
    )


def _whole(path: Path, arrays: dict[str, NDArray[Any]], name: str, default: int) -> int:
    """A whole number among the arrays."""
    value = arrays.get(name, np.array(default))
    if value.size != 1 or value.dtype.kind not in "iub":
        raise InputError(f"The array {name!r} of {path} is {value.dtype} {value.shape}; expected one whole number.")
    return int(value.item())


def _matrix(path: Path, name: str, values: NDArray[Any], count: int, fewest: int = 1) -> NDArray[np.float32]:
    """Rewards [N, K]; [N] is one reward. Data for learners without rewards has none."""
    matrix = values[:, None] if values.ndim == 1 else values
    if matrix.ndim != 2 or len(matrix) != count or matrix.shape[1] < fewest or matrix.dtype.kind not in "fiub":
        raise InputError(f"The {name} of {path} have shape {values.shape}; expected ({count},) or ({count}, K).")
    return matrix.astype(np.float32)


def _episodes(path: Path, arrays: dict[str, NDArray[Any]], count: int) -> NDArray[np.int64]:
    if "episodes" in arrays:
        episodes = arrays["episodes"]
        if episodes.shape != (count,) or episodes.dtype.kind not in "iu":
            raise InputError(f"The episodes of {path} have shape {episodes.shape}; expected {count} whole numbers.")
        return episodes.astype(np.int64)
    ends = [arrays[name].astype(np.bool_) for name in ("terminals", "timeouts") if name in arrays]
    if not ends or any(end.shape != (count,) for end in ends):
        raise InputError(f"File {path} has neither episodes nor terminals and timeouts; expected [{count}] of them.")
    ended = np.logical_or.reduce(ends)
    return np.concatenate([[0], np.cumsum(ended[:-1])]).astype(np.int64)

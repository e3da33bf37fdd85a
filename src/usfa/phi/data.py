"""Transitions with the rewards of K tasks: collected in an environment, or read from a file.

Files are npz archives with the names of D4RL, without pickles: observations [N, ...], actions [N], next_observations
[N, ...], rewards [N] or [N, K], and episodes [N] or terminals and timeouts [N]; reward_names and weights are optional.
φ of a history needs all transitions of an episode in order.
"""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usfa.environments import Batch, EnvironmentSource, History, ObservationSpec, check_history
from usfa.errors import InputError
from usfa.files import read_bytes, write_atomically
from usfa.phi.frames import Frames, Observations

__all__ = [
    "LARGEST",
    "Behaviour",
    "RandomActions",
    "Transitions",
    "bytes_of",
    "check_rewards",
    "collect",
    "concatenated",
    "read_transitions",
]

Behaviour = Callable[[Batch], NDArray[np.int64]]
"""Chooses an action [B] in each of B environments."""

ENVIRONMENTS = 32
"""Environments that data is collected in at once."""
LARGEST = 3 << 30
"""Largest size of collected observations in bytes."""
_WARM_UP = 2000  # transitions that are all kept, to find out which rewards are rare
_COMMON_PER_RARE = 4  # transitions without a rare reward that are kept for each with one


@dataclass(frozen=True)
class Transitions:
    """N transitions with the rewards of K tasks, each with the last H observations and actions."""

    observation: Observations  # [N, ..., H · C]  encoded, see ObservationSpec and History
    action: NDArray[np.int64]  # [N], or [N, H] if H > 1
    next_observation: Observations  # [N, ..., C]  encoded
    rewards: NDArray[np.float32]  # [N, K]
    episode: NDArray[np.int64]  # [N]      number of its episode
    weight: NDArray[np.float32]  # [N]      number of transitions that it stands for
    seen: NDArray[np.bool_]  # [N, K]   whether the reward was observed; others have no effect
    names: tuple[str, ...]  # K names of the rewards
    spec: ObservationSpec
    actions: int
    history: int = 1  # H

    def __len__(self) -> int:
        return len(self.action)

    @property
    def last_action(self) -> NDArray[np.int64]:
        """The action of each transition itself, [N]."""
        return self.action if self.history == 1 else self.action[:, -1]

    def rows(self, index: NDArray[Any]) -> Transitions:
        """A part of the transitions, by index or mask."""
        names = ("observation", "action", "next_observation", "rewards", "episode", "weight", "seen")
        return replace(self, **{name: getattr(self, name)[index] for name in names})

    def split(self, share: float = 0.2, seed: int = 0) -> tuple[Transitions, Transitions]:
        """Split into transitions to learn from and a share of whole episodes that is held out.

        The share is held out of the episodes of each set of rewards that were seen together, so that no reward is lost.
        An only episode is learned from.
        """
        rng, held = np.random.default_rng([seed, 7]), []
        for episodes in self._episodes_by_rewards():
            if len(episodes) > 1:
                held.append(rng.permutation(episodes)[: max(1, round(share * len(episodes)))])
        if not held:
            raise InputError(
                f"The data has {len(np.unique(self.episode))} episode, or one for each reward; expected at least 2, to "
                "hold one out."
            )
        out = np.isin(self.episode, np.concatenate(held))
        return self.rows(~out), self.rows(out)

    @property
    def rare(self) -> NDArray[np.bool_]:
        """Whether a transition has a rare reward: one other than that of most transitions, [N]."""
        rare: NDArray[np.bool_] = (self.seen & (self.rewards != _most_common(self.rewards))).any(axis=1)
        return rare

    @property
    def is_thinned(self) -> bool:
        """Whether transitions without a rare reward were left out, so that the others count for more."""
        return bool((self.weight != self.weight[:1]).any())

    def thinned(self, seed: int = 0) -> Transitions:
        """All transitions with a rare reward and four others for each, which count for more; all, if rewards are not
        rare.
        """
        rare = self.rare
        others, keep = np.flatnonzero(~rare), _COMMON_PER_RARE * int(rare.sum())
        if self.is_thinned or len(self) <= _WARM_UP or keep >= len(others) or not keep:
            return self
        kept = np.random.default_rng([seed, 17]).permutation(others)[:keep]
        part = self.rows(np.sort(np.concatenate([np.flatnonzero(rare), kept])))
        weight = np.where(part.rare, part.weight, part.weight * np.float32(len(others) / keep))
        return replace(part, weight=weight.astype(np.float32))

    def _episodes_by_rewards(self) -> list[NDArray[np.int64]]:
        """Episodes, grouped by the rewards that were seen in them."""
        episodes, index = np.unique(self.episode, return_inverse=True)
        seen = np.zeros((len(episodes), len(self.names)), np.bool_)
        np.logical_or.at(seen, index, self.seen)
        groups: dict[bytes, list[np.int64]] = {}
        for episode, own in zip(episodes, seen, strict=True):
            groups.setdefault(own.tobytes(), []).append(episode)
        return [np.array(group) for group in groups.values()]

    def _saved_observations(self) -> tuple[dict[str, NDArray[Any]], NDArray[Any], NDArray[Any]]:
        """Observations as a file holds them: themselves, or their places among frames that are stored once."""
        before, after = self.observation, self.next_observation
        if isinstance(before, Frames) and isinstance(after, Frames) and before.store is after.store:
            return {"frames": before.store}, before.places, after.places
        return {}, np.asarray(before), np.asarray(after)

    def save(self, path: Path) -> None:
        """Write an npz file that :func:`read_transitions` reads."""
        content = io.BytesIO()
        frames, before, after = self._saved_observations()
        np.savez(
            content,
            **frames,  # type: ignore[arg-type]  # arrays by name
            observations=before,
            next_observations=after,
            actions=self.action,
            rewards=self.rewards,
            episodes=self.episode,
            weights=self.weight,
            seen=self.seen,
            reward_names=np.array(self.names),
            encoded=np.array(True),
            history=np.array(self.history),
        )
        write_atomically(path, content.getbuffer())


def _places(observations: Observations) -> NDArray[Any]:
    return observations.places if isinstance(observations, Frames) else np.asarray(observations)


def concatenated(parts: Sequence[Transitions]) -> Transitions:
    """All transitions of several data sets with the same rewards; their episodes stay apart."""
    names = ("observation", "action", "next_observation", "rewards", "weight", "seen")
    joined: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    starts = np.cumsum([0, *(int(part.episode.max()) + 1 for part in parts[:-1])])
    episode = np.concatenate([part.episode + start for part, start in zip(parts, starts, strict=True)])
    return replace(parts[0], episode=episode, **joined)


# --- checks ---


def check_rewards(data: Transitions) -> None:
    """Raise InputError for rewards that nothing can be learned from."""
    for index, name in enumerate(data.names):
        own = data.rewards[data.seen[:, index], index]
        if not len(own):
            raise InputError(f"The reward {name!r} was never observed; expected at least one transition with it.")
        if not np.isfinite(own).all():
            raise InputError(f"The reward {name!r} holds NaN or infinity; expected finite numbers.")
        if (own == own[0]).all():
            raise InputError(
                f"The reward {name!r} is {own[0]:g} in all {len(own):,} transitions; expected one that varies: collect "
                "more data, or leave it out."
            )


# --- files ---


def read_transitions(
    path: Path, spec: ObservationSpec, actions: int, environment: str, history: int = 1
) -> Transitions:
    """Read an npz file; raise InputError if it is anything else, or data of another environment.

    Args:
        path: the file.
        spec: encoding of the observations of the environment.
        actions: their number in the environment.
        environment: its name in errors.
        history: H, the number of observations before each next one; they are taken from the rows of an episode, unless
            the file was saved with them.
    """
    found = _read(path, spec, actions, environment)
    if found.history == history:
        return found
    if found.history != 1:
        raise InputError(f"The transitions of {path} have a history of {found.history}; expected history {history}.")
    return _with_history(found, history, path)


def _read(path: Path, spec: ObservationSpec, actions: int, environment: str) -> Transitions:
    arrays = _read_arrays(path)
    frames = arrays.pop("frames", None)
    for name in ("observations", "actions", "next_observations", "rewards"):
        if name not in arrays:
            raise InputError(f"File {path} has no array {name!r}; expected the names of D4RL, see the docs.")
    history, action = _whole(path, arrays, "history", 1), arrays["actions"]
    check_history(history)
    each = (history,) if history > 1 else ()
    if not action.ndim or action.shape[1:] != each or action.dtype.kind not in "iu" or not action.size:
        expected = f"[N, {history}]" if each else "[N]"
        raise InputError(f"The actions of {path} are {action.dtype} {action.shape}; expected whole numbers {expected}.")
    last = action[:, -1] if each else action  # those before an episode are -1
    if last.min() < 0 or action.min() < -1 or action.max() >= actions:
        raise InputError(
            f"The actions of {path} are {action.min()} to {action.max()}; the environment {environment!r} has 0 to "
            f"{actions - 1}: the data is of another one."
        )
    encoded = bool(_whole(path, arrays, "encoded", 0))
    before, after = (
        _observations(path, arrays[name], spec, len(action), environment, seen if encoded else None)
        if frames is None
        else _placed(path, frames, arrays[name], spec, (len(action), seen), environment)
        for name, seen in (("observations", history), ("next_observations", 1))
    )
    rewards = _matrix(path, "rewards", arrays["rewards"], len(action), fewest=0 if encoded else 1)
    names = tuple(str(name) for name in arrays.get("reward_names", [f"r{k + 1}" for k in range(rewards.shape[1])]))
    if len(names) != rewards.shape[1]:
        raise InputError(f"File {path} has {len(names)} reward_names and {rewards.shape[1]} rewards; expected as many.")
    weight = arrays.get("weights", np.ones(len(action)))
    numbers = weight.shape == (len(action),) and weight.dtype.kind in "fiu"
    if not numbers or not (np.isfinite(weight).all() and (weight > 0).all()):
        raise InputError(f"The weights of {path} are not {len(action)} positive numbers.")
    seen = arrays.get("seen", np.ones(rewards.shape, np.bool_))
    if seen.shape != rewards.shape or seen.dtype.kind != "b":
        raise InputError(f"The array 'seen' of {path} is {seen.dtype} {seen.shape}; expected bool {rewards.shape}.")
    return Transitions(
        before,
        action.astype(np.int64),
        after,
        rewards,
        _episodes(path, arrays, len(action)),
        weight.astype(np.float32),
        seen.astype(np.bool_),
        names,
        spec,
        actions,
        history,
    )


def _with_history(data: Transitions, history: int, path: Path) -> Transitions:
    """The same transitions, each with the rows before it; InputError if rows of an episode are missing."""
    order = np.argsort(data.episode, kind="stable")
    data = data.rows(order)
    first = np.concatenate([[True], data.episode[1:] != data.episode[:-1]])
    later = np.flatnonzero(~first)
    before, after = np.asarray(data.observation), np.asarray(data.next_observation)
    gaps = later[[not np.array_equal(before[row], after[row - 1]) for row in later]]
    if len(gaps):
        raise InputError(
            f"The rows of episode {data.episode[gaps[0]]} of {path} do not follow one another: an observation is not "
            f"the next one of the row before; expected all transitions in order, or history 1."
        )
    begin = np.maximum.accumulate(np.where(first, np.arange(len(data)), 0))  # row that the episode begins with
    rows = np.arange(len(data))[:, None] - np.arange(history - 1, -1, -1)  # [N, H]
    places = np.maximum(rows, begin[:, None])
    action = np.where(rows >= begin[:, None], data.action[places], -1)
    return replace(data, observation=Frames(before, places), action=action, history=history)


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


def _observations(
    path: Path, values: NDArray[Any], spec: ObservationSpec, count: int, environment: str, encoded: int | None
) -> NDArray[Any]:
    """Observations [N, ...]; `encoded` is the number of observations in each row if they were saved by us."""
    if encoded is not None:
        expected = (count, *spec.shape[:-1], encoded * spec.shape[-1])
        if values.shape != expected or values.dtype != spec.dtype:
            raise _of_another(path, values, expected, environment)
        return values
    try:
        found = spec.encode(values)
    except InputError as error:
        raise InputError(f"The observations of {path} are not those of {environment!r}: {error}") from error
    if found.shape != (count, *spec.shape):
        raise _of_another(path, values, (count, *spec.shape), environment)
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
        raise _of_another(path, frames, (*frames.shape[:1], *spec.shape), environment)
    if places.shape != expected or places.dtype.kind not in "iu" or places.min() < 0 or places.max() >= len(frames):
        raise InputError(
            f"The places of observations in {path} are {places.dtype} {places.shape}; expected whole numbers "
            f"{expected} from 0 to {len(frames) - 1}."
        )
    return Frames(frames, places.astype(np.int64))


def _of_another(path: Path, values: NDArray[Any], expected: tuple[int, ...], environment: str) -> InputError:
    return InputError(
        f"The observations of {path} have shape {values.shape}; the environment {environment!r} has {expected}: the "
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


# --- collecting ---


class RandomActions:
    """Random legal actions, with given probabilities and repetitions.

    Args:
        rng: generator.
        probabilities: relative probability of each action; equal by default.
        repeat: probability of doing the last action again.
    """

    def __init__(self, rng: np.random.Generator, probabilities: Sequence[float] = (), repeat: float = 0.0) -> None:
        self._rng, self._probabilities, self._repeat = rng, np.array(probabilities, np.float64), repeat
        self._last: NDArray[np.int64] | None = None

    def __call__(self, batch: Batch) -> NDArray[np.int64]:
        if len(self._probabilities) not in (0, batch.actions):
            raise InputError(
                f"There are {len(self._probabilities)} probabilities of actions; expected {batch.actions}, one for "
                "each action."
            )
        legal = batch.legal.astype(np.float64)
        likely = legal * self._probabilities if len(self._probabilities) else legal
        likely = np.where(likely.sum(axis=1, keepdims=True) > 0, likely, legal)
        bounds = likely.cumsum(axis=1) / likely.sum(axis=1, keepdims=True)
        action = (self._rng.random((len(batch), 1)) >= bounds).sum(axis=1).astype(np.int64)
        if self._last is not None and self._repeat:
            again = (self._rng.random(len(batch)) < self._repeat) & ~batch.first
            again &= np.take_along_axis(batch.legal, self._last[:, None], axis=1)[:, 0]
            action = np.where(again, self._last, action)
        self._last = action
        return action


def collect(
    environments: EnvironmentSource,
    names: Sequence[str],
    spec: ObservationSpec,
    behaviour: Behaviour,
    steps: int,
    seed: int = 0,
    on_steps: Callable[[int], object] | None = None,
    *,
    thin: bool = True,
    history: int = 1,
) -> Transitions:
    """Act in environments whose φ are the K rewards, and keep transitions.

    Where rewards are rare, such as those of collecting an object, `thin` keeps all transitions with one, and four
    others for each of them. The others count for more, so that weighted means stay what they were; transitions of an
    episode are then no longer consecutive. Otherwise every observation is stored once.

    Args:
        environments: with the vector of rewards as φ, see `usfa.environments.rewarded`.
        names: of the rewards.
        spec: encoding of observations.
        behaviour: chooses the actions.
        steps: of all environments together.
        seed: of the environments.
        on_steps: called with the number of steps after each.
        thin: whether to leave out transitions without a rare reward.
        history: H, the number of observations before each next one that are kept.
    """
    rng = np.random.default_rng([seed, 5])
    size = max(1, min(ENVIRONMENTS, steps // 100))
    kept = _Thinned(rng, steps, spec, history) if thin else _All(steps, spec, history)
    with closing(environments.batch(rng.integers(2**31, size=size).tolist(), 0.99)) as batch:
        episode, episodes = np.arange(size), size
        past = History(history, kept.seen(batch.observation, batch.first))
        for _ in range(-(-steps // size)):
            action = behaviour(batch)
            past.act(action)
            step = batch.step(action)
            after = kept.seen(batch.next_observation, step.real)
            kept.add(past.observation, past.action, after, step.phi, episode, step.real)
            past.see(kept.seen(batch.observation, batch.first, after), batch.first)
            ended = np.flatnonzero(step.ended)
            episode[ended] = episodes + np.arange(len(ended))
            episodes += len(ended)
            if on_steps is not None:
                on_steps(size)
        return kept.transitions(tuple(names), spec, batch.actions)


class _Kept(ABC):
    """Transitions that are kept, in columns: observation, action, next observation, rewards, episode, weight."""

    def __init__(self, steps: int, spec: ObservationSpec, history: int) -> None:
        self._steps, self._spec, self._history = steps, spec, history
        self._columns: tuple[list[NDArray[Any]], ...] = ([], [], [], [], [], [])

    @abstractmethod
    def seen(
        self, observation: NDArray[Any], new: NDArray[np.bool_], known: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Store the observations [B, ...] that are `new`, and return all entries of rows; others are `known`."""

    @abstractmethod
    def add(
        self,
        before: NDArray[Any],
        action: NDArray[np.int64],
        after: NDArray[Any],
        rewards: NDArray[np.float32],
        episode: NDArray[np.int64],
        real: NDArray[np.bool_],
    ) -> None: ...

    def _append(self, keep: NDArray[np.bool_], *values: NDArray[Any]) -> None:
        for column, own in zip(self._columns, values, strict=True):
            column.append(own[keep].copy())

    def _check_size(self, size: float) -> None:
        """Raise InputError if observations would exceed the maximum size in bytes."""
        if size > LARGEST:
            raise InputError(
                f"steps is {self._steps:,}, whose observations would take {size / 2**30:.1f} GiB; expected at most "
                f"{LARGEST >> 30} GiB: set fewer steps."
            )

    def transitions(self, names: tuple[str, ...], spec: ObservationSpec, actions: int) -> Transitions:
        before, action, after, rewards, episode, weight = (_joined(column) for column in self._columns)
        seen = np.ones(rewards.shape, np.bool_)
        return Transitions(before, action, after, rewards, episode, weight, seen, names, spec, actions, self._history)


class _All(_Kept):
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

    def add(
        self,
        before: NDArray[Any],
        action: NDArray[np.int64],
        after: NDArray[Any],
        rewards: NDArray[np.float32],
        episode: NDArray[np.int64],
        real: NDArray[np.bool_],
    ) -> None:
        self._append(real, before, action, after, rewards, episode, np.ones(len(action), np.float32))

    def transitions(self, names: tuple[str, ...], spec: ObservationSpec, actions: int) -> Transitions:
        found = super().transitions(names, spec, actions)
        store = self._store[: self._count]
        before, after = (Frames(store, _places(x)) for x in (found.observation, found.next_observation))
        return replace(found, observation=before, next_observation=after)


class _Thinned(_Kept):
    """All transitions with rare rewards, and a share of the others."""

    def __init__(self, rng: np.random.Generator, steps: int, spec: ObservationSpec, history: int) -> None:
        super().__init__(steps, spec, history)
        self._rng = rng
        if steps <= _WARM_UP:
            self._check_share(1.0)
        self._seen, self._rare = 0, 0
        self._common: NDArray[np.float32] | None = None  # [K]  most common reward; NaN if none is

    def seen(
        self, observation: NDArray[Any], new: NDArray[np.bool_], known: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        return observation

    def add(
        self,
        before: NDArray[Any],
        action: NDArray[np.int64],
        after: NDArray[Any],
        rewards: NDArray[np.float32],
        episode: NDArray[np.int64],
        real: NDArray[np.bool_],
    ) -> None:
        if self._common is None and self._seen >= _WARM_UP:
            first = np.concatenate(self._columns[3])
            self._common = _most_common(first)
            self._check_share((1 + _COMMON_PER_RARE) * float((first != self._common).any(axis=1).mean()))
        share = 1.0
        keep = real.copy()
        if self._common is not None:
            rare = (rewards != self._common).any(axis=1)
            self._rare += int((rare & real).sum())
            share = min(1.0, _COMMON_PER_RARE * max(self._rare, 1) / max(self._seen - _WARM_UP, _WARM_UP))
            draws = self._rng.random(len(action))
            keep &= rare | (draws < share)
        else:
            rare = np.ones(len(action), np.bool_)
        self._seen += int(real.sum())
        weight = np.where(rare, 1.0, 1.0 / share).astype(np.float32)
        self._append(keep, before, action, after, rewards, episode, weight)

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


def _most_common(rewards: NDArray[np.float32]) -> NDArray[np.float32]:
    """The value of each reward [K] in most transitions [N, K]; NaN if no value has half of them."""
    common = np.full(rewards.shape[1], np.nan, np.float32)
    for index, own in enumerate(rewards.T):
        values, counts = np.unique(own, return_counts=True)
        if counts.max() > len(own) / 2:
            common[index] = values[counts.argmax()]
    return common

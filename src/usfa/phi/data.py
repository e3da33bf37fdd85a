"""Transitions with the rewards of K tasks, to learn φ from."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.files import write_atomically
from usfa.phi.frames import Frames, Observations, frames_file, save_frames

__all__ = ["Transitions", "check_rewards", "concatenated", "most_common"]

_FEW = 2000  # transitions that are never thinned
_COMMON_PER_RARE = 4  # transitions without a rare reward that thinning keeps for each with one


@dataclass(frozen=True)
class Transitions:
    """N transitions with the rewards of K tasks, each with the last H observations and actions."""

    observation: Observations  # [N, ..., H · C]  encoded, see ObservationSpec and History
    action: NDArray[np.int64]  # [N], or [N, H] if H > 1
    next_observation: Observations  # [N, ..., C]  encoded
    rewards: NDArray[np.float32]  # [N, K]
    episode: NDArray[np.int64]  # [N]      number of its episode
    weight: NDArray[np.float32]  # [N]      number of transitions that it represents
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

    def with_latest_only(self) -> Transitions:
        """The same transitions without a history: s and a themselves."""
        before, channels = self.observation, self.spec.shape[-1]
        latest = Frames(before.store, before.places[:, -1:]) if isinstance(before, Frames) else before[..., -channels:]
        return replace(self, observation=latest, action=self.last_action, history=1)

    def split(self, share: float = 0.2, seed: int = 0) -> tuple[Transitions, Transitions]:
        """Split into transitions to learn from and a share of whole episodes that is held out.

        Episodes are grouped by the rewards that were seen in them. The share is held out of each group, so that no
        reward is lost; a group of one episode is learned from.
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
        """Whether a transition has a rare reward, one that differs from that of most transitions, [N]."""
        rare: NDArray[np.bool_] = (self.seen & (self.rewards != most_common(self.rewards, self.seen))).any(axis=1)
        return rare

    @property
    def is_thinned(self) -> bool:
        """Whether transitions without a rare reward were left out, so that the others count for more."""
        return bool((self.weight != self.weight[:1]).any())

    def thinned(self, seed: int = 0) -> Transitions:
        """All transitions with a rare reward, and four others for each, which get a larger weight.

        Data that is small or thinned already, or whose rewards are not rare, is returned unchanged.
        """
        rare = self.rare
        others, keep = np.flatnonzero(~rare), _COMMON_PER_RARE * int(rare.sum())
        if self.is_thinned or len(self) <= _FEW or keep >= len(others) or not keep:
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

    def _saved_observations(self, path: Path) -> tuple[dict[str, NDArray[Any]], NDArray[Any], NDArray[Any]]:
        """Observations as they are saved: arrays, or places among frames that are stored once."""
        before, after = self.observation, self.next_observation
        if not (isinstance(before, Frames) and isinstance(after, Frames) and before.store is after.store):
            return {}, np.asarray(before), np.asarray(after)
        if isinstance(before.store, np.memmap):
            return save_frames(before.store, frames_file(path)), before.places, after.places
        return {"frames": before.store}, before.places, after.places

    def save(self, path: Path) -> None:
        """Write an npz file that :func:`usfa.phi.read_transitions` reads.

        Observations that are kept on disk go to NAME.frames beside it; the npz file has their checksum.
        """
        content = io.BytesIO()
        frames, before, after = self._saved_observations(path)
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


def concatenated(parts: Sequence[Transitions]) -> Transitions:
    """All transitions of several data sets with the same rewards; episodes are renumbered to stay distinct."""
    names = ("action", "rewards", "weight", "seen")
    joined: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    joined["observation"], joined["next_observation"] = _joined_observations(parts)
    starts = np.cumsum([0, *(int(part.episode.max()) + 1 for part in parts[:-1])])
    episode = np.concatenate([part.episode + start for part, start in zip(parts, starts, strict=True)])
    return replace(parts[0], episode=episode, **joined)


def _joined_observations(parts: Sequence[Transitions]) -> tuple[Observations, Observations]:
    """Observations and next observations of all parts; stored once if every part stores them once."""
    pairs = [(part.observation, part.next_observation) for part in parts]
    if not all(isinstance(x, Frames) and isinstance(y, Frames) and x.store is y.store for x, y in pairs):
        before, after = (np.concatenate([np.asarray(x) for x in column]) for column in zip(*pairs, strict=True))
        return before, after
    framed = [(x, y) for x, y in pairs if isinstance(x, Frames) and isinstance(y, Frames)]
    store = np.concatenate([before.store for before, _ in framed])
    starts = np.cumsum([0, *(len(before.store) for before, _ in framed[:-1])])
    places = [
        np.concatenate([x.places + start for x, start in zip(column, starts, strict=True)])
        for column in zip(*framed, strict=True)
    ]
    return Frames(store, places[0]), Frames(store, places[1])


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


def most_common(rewards: NDArray[np.float32], seen: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The value of each reward [K] in more than half of the transitions [N, K] where it was seen; NaN if none is."""
    common = np.full(rewards.shape[1], np.nan, np.float32)
    for index in range(rewards.shape[1]):
        own = rewards[seen[:, index], index]
        values, counts = np.unique(own, return_counts=True)
        if len(own) and counts.max() > len(own) / 2:
            common[index] = values[counts.argmax()]
    return common

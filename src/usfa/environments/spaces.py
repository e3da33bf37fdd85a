"""Spaces of an environment: encoding of observations, and the numbers of actions and features."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from usfa.errors import InputError

__all__ = ["ObservationSpec", "action_count", "feature_count", "step_limit"]


@dataclass(frozen=True)
class ObservationSpec:
    """Encoding of observations as arrays: integers one-hot, vectors float32, images uint8.

    | space                                  | encoded                                                    |
    |----------------------------------------|------------------------------------------------------------|
    | Discrete                               | one-hot, [states]                                          |
    | MultiDiscrete, MultiBinary, and a Box  | 2 or 3 entries with few combinations: one-hot of these;    |
    | of whole numbers with few values       | otherwise one-hot per entry, [sum of counts]               |
    | Box of bytes 0..255 with 2 to 4 axes   | image [H, W, C]; see :meth:`_image`                        |
    | any other Box                          | float32, flattened, [F]; bounded entries scaled to -1..1   |
    | Dict, Tuple without images             | their encoded parts, concatenated, [F]                     |

    It is saved with every agent, so that a loaded agent encodes observations as the trained one did.
    """

    shape: tuple[int, ...]  # [F], or [H, W, C] of an image
    states: int = 0  # of a Discrete space; 0 for the others
    start: int = 0  # index of the first state
    given: tuple[int, ...] | None = None  # shape of the environment's observation, if different
    counts: tuple[int, ...] = ()  # number of values of each entry of several integers
    starts: tuple[int, ...] = ()  # first value of each entry
    joint: bool = False  # whether every combination of values has its own entry
    centre: tuple[float, ...] = ()  # of the bounds of each entry of a vector, for scaling to -1..1
    reach: tuple[float, ...] = ()  # from the centre to the bounds
    parts: tuple[tuple[str, ObservationSpec], ...] = ()  # of a Dict by key, of a Tuple by index

    def __post_init__(self) -> None:
        if len(self.shape) not in (1, 3) or not all(
            1 <= size < 2**31 for size in self.shape
        ):  # from a file that is not ours
            raise InputError(f"The shape of observations is {self.shape}; expected (F,), or (H, W, C) of an image.")

    @classmethod
    def of(cls, space: gym.Space[Any]) -> ObservationSpec:
        """Make the spec of a space; InputError if the space is not supported."""
        match space:
            case gym.spaces.Discrete():
                return cls((int(space.n),), int(space.n), int(space.start))
            case gym.spaces.MultiDiscrete():
                return cls._entries(space.shape, space.nvec, space.start)
            case gym.spaces.MultiBinary() if space.shape:
                return cls._entries(space.shape, np.full(space.shape, 2), np.zeros(space.shape, np.int64))
            case gym.spaces.Box() if _is_image(space):
                return cls._image(space.shape)
            case gym.spaces.Box() if _is_small_table(space):
                return cls._entries(space.shape, space.high.astype(np.int64) - space.low + 1, space.low)
            case gym.spaces.Box() if math.prod(space.shape):
                return cls._vector(space)
            case gym.spaces.Dict() if space.spaces:
                return cls._joined(space, space.spaces)
            case gym.spaces.Tuple() if space.spaces:
                return cls._joined(space, dict(enumerate(space.spaces)))
        raise InputError(
            f"Observations of {space} are not supported; expected Discrete, MultiDiscrete, MultiBinary, a Box, or a "
            "Dict or Tuple of them."
        )

    @classmethod
    def _joined(cls, space: gym.Space[Any], spaces: Mapping[Any, gym.Space[Any]]) -> ObservationSpec:
        if isinstance(space, gym.spaces.Dict) and not all(isinstance(key, str) for key in spaces):
            raise InputError(f"Observations of {space} are not supported; expected str keys.")
        parts = tuple((str(key), cls.of(part)) for key, part in spaces.items())
        if any(part.is_image for _, part in parts):
            raise InputError(
                f"Observations of {space} hold an image and are not supported; expected an image alone, or none."
            )
        return cls((sum(part.shape[0] for _, part in parts),), parts=parts)

    @classmethod
    def _entries(cls, shape: tuple[int, ...], counts: NDArray[Any], starts: NDArray[Any]) -> ObservationSpec:
        values = tuple(counts.reshape(-1).tolist())
        joint = len(values) in (2, 3) and math.prod(values) <= _MOST_VALUES  # a place in a grid
        size = math.prod(values) if joint else sum(values)
        return cls((size,), given=shape, counts=values, starts=tuple(starts.reshape(-1).tolist()), joint=joint)

    @classmethod
    def _vector(cls, space: gym.spaces.Box) -> ObservationSpec:
        flat = (math.prod(space.shape),)
        low, high = space.low.reshape(-1).astype(np.float64), space.high.reshape(-1).astype(np.float64)
        bounded = (abs(low) < _BOUNDLESS) & (abs(high) < _BOUNDLESS) & (low < high)
        low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
        centre, reach = (low + high) / 2, (high - low) / 2
        given = None if space.shape == flat else space.shape
        if not centre.any() and (reach == 1).all():
            return cls(flat, given=given)
        return cls(flat, given=given, centre=tuple(centre.tolist()), reach=tuple(reach.tolist()))

    @classmethod
    def _image(cls, given: tuple[int, ...]) -> ObservationSpec:
        """Make the spec of an image: [H, W, C]; [C, H, W], if C is the smallest axis; or grey [H, W].

        Frames stacked as [S, H, W, C] or [S, C, H, W] are concatenated along the channels.
        """
        match given:
            case (height, width):
                return cls((height, width, 1), given=given)
            case (channels, height, width) if _has_channels_first(given):
                return cls((height, width, channels), given=given)
            case (frames, channels, height, width) if _has_channels_first(given):
                return cls((height, width, frames * channels), given=given)
            case (frames, height, width, channels):
                return cls((height, width, frames * channels), given=given)
        return cls(given)

    @property
    def is_image(self) -> bool:
        return len(self.shape) == 3

    @property
    def is_vector(self) -> bool:
        """Whether it is neither an image nor entirely one-hot."""
        return not self.is_image and bool(self.amounts.any())

    @property
    def amounts(self) -> NDArray[np.bool_]:
        """Mask of the entries that are amounts, not one-hot, [F]; not for images."""
        if self.parts:
            return np.concatenate([part.amounts for _, part in self.parts])
        return np.full(self.shape[0], not (self.states or self.counts))

    @property
    def dtype(self) -> type[np.generic]:
        """Images stay uint8: the network scales them, and buffers are a quarter as large."""
        return np.uint8 if self.is_image else np.float32

    def describe(self) -> str:
        """Describe the observation and the network's trunk for it in one sentence."""
        given = f", given as {_times(self.given)}" if self.given else ""
        if self.is_image:
            return f"image {_times(self.shape)}{given}: convolutions"
        if self.parts:
            return f"{len(self.parts)} parts with {self.shape[0]} entries in all: layers"
        if self.states:
            return f"table of {self.states} states: one-hot"
        if self.joint:
            return f"{len(self.counts)} whole numbers with {self.shape[0]} combinations: one-hot"
        if self.counts:
            numbers = "whole number" if len(self.counts) == 1 else "whole numbers"
            return f"{len(self.counts)} {numbers} with {sum(self.counts)} values in all: one-hot"
        return f"vector of {self.shape[0]}{given}: layers{', scaled by its bounds' if self.centre else ''}"

    def encode(self, observation: object) -> NDArray[Any]:
        """Encode one observation or a batch as [..., *shape], always a copy."""
        if self.parts:
            return self._encode_parts(observation)
        values = _array_of(observation)
        if self.states:
            return _one_hot(values[..., None], (self.states,), (self.start,))
        given = self.shape if self.given is None else self.given
        batch = values.shape[: values.ndim - len(given)]
        if values.shape != (*batch, *given):
            raise InputError(f"The observation has shape {values.shape}; expected {given}.")
        if self.counts:
            hot = _one_hot(values.reshape(*batch, -1), self.counts, self.starts)
            return _combined(hot, self.counts) if self.joint else hot
        if self.is_image:
            return self._encode_image(values, batch)
        if values.dtype.kind not in "fiub":
            raise InputError(f"The observation is of {values.dtype}; expected real numbers.")
        flat = values.reshape(*batch, *self.shape)
        return ((flat - self.centre) / self.reach if self.centre else flat).astype(np.float32)

    def encode_one(self, observation: object) -> NDArray[Any]:
        """Encode a single observation as [*shape]; InputError if it is a batch."""
        if self.parts:
            return np.concatenate([part.encode_one(_part_of(observation, key)) for key, part in self.parts])
        encoded = self.encode(observation)
        if encoded.shape != self.shape:
            given = () if self.states else self.given or self.shape
            raise InputError(f"The observation has shape {np.asarray(observation).shape}; expected {given}.")
        return encoded

    def _encode_parts(self, observation: object) -> NDArray[Any]:
        """Encode a Dict or Tuple; a batch is a dict or tuple of arrays."""
        encoded = [part.encode(_part_of(observation, key)) for key, part in self.parts]
        batches = {x.shape[:-1] for x in encoded}
        if len(batches) > 1:
            raise InputError(f"The parts of the observation are batches of {sorted(batches)}; expected one size.")
        return np.concatenate(encoded, axis=-1)

    def _encode_image(self, values: NDArray[Any], batch: tuple[int, ...]) -> NDArray[np.uint8]:
        if values.dtype != np.uint8:
            raise InputError(f"The image is of {values.dtype}; expected uint8, from 0 to 255.")
        given = self.given or ()
        if len(given) > 2 and _has_channels_first(given):
            values = np.moveaxis(values, -3, -1)
        if len(given) == 4:
            values = np.moveaxis(values, -4, -2)
        return np.array(values.reshape(*batch, *self.shape), order="C")


def _array_of(observation: object) -> NDArray[Any]:
    if isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], dict):
        raise InputError("The observation is the pair that env.reset() returns; expected its first entry.")
    try:
        return np.asarray(observation)
    except ValueError:  # lists of different lengths
        raise InputError(f"The observation is a {type(observation).__name__} that is no array; expected one.") from None


def _has_channels_first(given: tuple[int, ...]) -> bool:
    """Whether the third-last axis holds the channels: it is smaller than the last two."""
    return given[-3] < min(given[-2:])


def _part_of(observation: Any, key: str) -> object:
    """Part of a Dict or Tuple observation."""
    match observation:
        case dict() if key in observation:
            return observation[key]
        case tuple() if key.isdecimal() and int(key) < len(observation):
            return observation[int(key)]
        case dict() | tuple():
            raise InputError(f"The observation has {len(observation)} parts and none is {key!r}; expected one that is.")
    raise InputError(f"The observation is of {type(observation).__name__}; expected parts, of which {key!r} is one.")


_BOUNDLESS = 1e6  # bounds this large are treated as none
_MOST_VALUES = 1024  # values or combinations of integers that are encoded one-hot


def _is_small_table(space: gym.spaces.Box) -> bool:
    """Whether a Box holds integers with few values, such as rows and columns; many values are treated as amounts."""
    if not np.issubdtype(space.dtype, np.integer) or not math.prod(space.shape):
        return False
    return bool((space.high.astype(np.float64) - space.low + 1).sum() <= _MOST_VALUES)


def _is_image(space: gym.spaces.Box) -> bool:
    """Whether a Box is an image: uint8 from 0 to 255. Other bounds, such as planes of a board game, are not."""
    bytes_ = space.dtype == np.uint8 and bool((space.low == 0).all() and (space.high == 255).all())
    return bytes_ and len(space.shape) in (2, 3, 4) and math.prod(space.shape) > 0


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))


def _one_hot(values: NDArray[Any], counts: tuple[int, ...], starts: tuple[int, ...]) -> NDArray[np.float32]:
    """Encode integers [..., K] as [..., sum of counts], with a one for each integer."""
    spread = values if len(counts) == 1 else values.repeat(counts, axis=-1)
    hot = spread == _numbers(counts, starts)
    if values.dtype.kind not in "iub" or not (hot.sum(axis=-1) == len(counts)).all():
        shown = values[..., 0] if len(counts) == 1 else values
        raise InputError(f"The observation {shown} is not a state; {_expected(counts, starts)}.")
    return hot.astype(np.float32)


def _combined(hot: NDArray[np.float32], counts: tuple[int, ...]) -> NDArray[np.float32]:
    """Turn one-hot per entry [..., sum of counts] into one-hot of combinations [..., product of counts]."""
    parts = np.split(hot, np.cumsum(counts)[:-1], axis=-1)
    joined = parts[0]
    for part in parts[1:]:
        joined = (joined[..., :, None] * part[..., None, :]).reshape(*hot.shape[:-1], -1)
    return joined


@lru_cache
def _numbers(counts: tuple[int, ...], starts: tuple[int, ...]) -> NDArray[np.int64]:
    """Value that each entry of the encoding stands for, [sum of counts]."""
    return np.concatenate([np.arange(start, start + count) for count, start in zip(counts, starts, strict=True)])


def _expected(counts: tuple[int, ...], starts: tuple[int, ...]) -> str:
    if len(counts) == 1:
        return f"expected a whole number below {starts[0] + counts[0]}"
    ends = np.add(starts, counts).tolist()
    return f"expected whole numbers from {list(starts)}, below {ends}"


def feature_count(env: gym.Env[Any, Any]) -> int:
    """D, from the environment's `reward_space`; InputError if that is missing or unsuitable."""
    space = env.get_wrapper_attr("reward_space") if env.has_wrapper_attr("reward_space") else None
    if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1 or not space.shape[0]:
        raise InputError(
            f"The environment {env} has the reward_space {space}; expected a Box of shape [D], one entry per feature "
            "of φ, as in MO-Gymnasium. From scalar rewards, usfa learn-features learns φ."
        )
    return int(space.shape[0])


def action_count(env: gym.Env[Any, Any]) -> int:
    """A, from the environment's action space; InputError if it is not Discrete from 0."""
    if not isinstance(env.action_space, gym.spaces.Discrete) or env.action_space.start != 0:
        raise InputError(f"The environment {env} has the actions {env.action_space}; expected Discrete from 0.")
    return int(env.action_space.n)


def step_limit(env: gym.Env[Any, Any]) -> int | None:
    """Number of steps after which episodes are truncated, if known from a TimeLimit wrapper or from the environment's
    own `step_limit`.
    """
    inner: Any = env
    while isinstance(inner, gym.Wrapper):
        if isinstance(inner, gym.wrappers.TimeLimit):
            return int(inner._max_episode_steps)
        inner = inner.env
    return getattr(inner, "step_limit", None)

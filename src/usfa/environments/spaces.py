"""What an environment shows and pays: observations as float vectors or images, features as a checked size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from usfa.errors import InputError

__all__ = ["ObservationSpec", "action_count", "feature_count"]


@dataclass(frozen=True)
class ObservationSpec:
    """How observations become arrays: states of a table one-hot, vectors float32, images as their bytes.

    It is saved with every agent, so that a loaded agent reads observations as the trained one did.
    """

    shape: tuple[int, ...]  # [F], or [H, W, C] of an image
    states: int = 0  # of a table; 0 for vectors and images
    start: int = 0  # the number of the first state

    @classmethod
    def of(cls, space: gym.Space[Any]) -> ObservationSpec:
        match space:
            case gym.spaces.Discrete():
                return cls((int(space.n),), int(space.n), int(space.start))
            case gym.spaces.Box(shape=(size,)):
                return cls((size,))
            case gym.spaces.Box(shape=(height, width, channels), dtype=np.uint8):
                return cls((height, width, channels))
        raise InputError(
            f"Observations of {space} are not supported; expected Discrete, a Box with one axis, or images: a Box of "
            "uint8 with the axes height, width and channels."
        )

    @property
    def dtype(self) -> type[np.generic]:
        """Bytes stay bytes: the network scales them, and a buffer of images is a quarter as large."""
        return np.uint8 if len(self.shape) == 3 else np.float32

    def encode(self, observation: object) -> NDArray[Any]:
        """One observation or a batch of them: [..., *shape]."""
        values = np.asarray(observation)
        if self.states:
            return self._one_hot(values)
        if values.shape[-len(self.shape) :] != self.shape:
            raise InputError(f"The observation has shape {values.shape}; expected {self.shape}.")
        if self.dtype == np.uint8 and values.dtype != np.uint8:
            raise InputError(f"The image is of {values.dtype}; expected uint8, from 0 to 255.")
        return values.astype(self.dtype)

    def _one_hot(self, values: NDArray[Any]) -> NDArray[np.float32]:
        whole = np.issubdtype(values.dtype, np.integer)
        index = values - self.start if whole else np.array(-1)
        if (index < 0).any() or (index >= self.states).any():
            last = self.start + self.states
            raise InputError(f"The observation {values} is not a state; expected a whole number below {last}.")
        return np.eye(self.states, dtype=np.float32)[index]


def feature_count(env: gym.Env[Any, Any]) -> int:
    """D, from the environment's `reward_space`; one sentence if it has none that fits."""
    space = getattr(env.unwrapped, "reward_space", None)
    if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1 or not space.shape[0]:
        raise InputError(
            f"The environment {env} has the reward_space {space}; expected a Box of shape [D], one entry per feature "
            "of φ, as in MO-Gymnasium."
        )
    return int(space.shape[0])


def action_count(env: gym.Env[Any, Any]) -> int:
    """A, from the environment's action space."""
    if not isinstance(env.action_space, gym.spaces.Discrete) or env.action_space.start != 0:
        raise InputError(f"The environment {env} has the actions {env.action_space}; expected Discrete from 0.")
    return int(env.action_space.n)

"""The last H observations and actions of environments, for φ that a single transition does not determine."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usfa.errors import InputError

__all__ = ["LONGEST_HISTORY", "History", "check_history"]

LONGEST_HISTORY = 64
"""Largest H."""


def check_history(history: int) -> None:
    """Raise InputError unless history is a whole number from 1 to `LONGEST_HISTORY`."""
    if not isinstance(history, int) or not 1 <= history <= LONGEST_HISTORY:
        raise InputError(f"history is {history}; expected a whole number from 1 to {LONGEST_HISTORY}.")


class History:
    """The last H observations of B environments and the actions after them, oldest first.

    When an episode begins, its first observation fills all H places, and the actions are -1.

    Args:
        length: H.
        observation: [B, ..., C], the present observations.
    """

    observation: NDArray[Any]  # [B, ..., H · C]  newest last along the last axis

    def __init__(self, length: int, observation: NDArray[Any]) -> None:
        check_history(length)
        self.length = length
        self.observation = np.concatenate([observation] * length, axis=-1)
        self._actions = np.full((len(observation), length), -1, np.int64)

    @property
    def action(self) -> NDArray[np.int64]:
        """Actions after each of the observations, [B, H]; [B] if H is 1."""
        return self._actions if self.length > 1 else self._actions[:, 0]

    def act(self, action: NDArray[np.int64]) -> None:
        """Add the actions [B] taken after the present observations."""
        self._actions[:, :-1] = self._actions[:, 1:]
        self._actions[:, -1] = action

    def see(self, observation: NDArray[Any], first: NDArray[np.bool_]) -> None:
        """Add the next observations [B, ..., C]; where `first`, forget everything before them."""
        channels = observation.shape[-1]
        self.observation[..., :-channels] = self.observation[..., channels:]
        self.observation[..., -channels:] = observation
        self.begin(observation, first)

    def begin(self, observation: NDArray[Any], first: NDArray[np.bool_]) -> None:
        """Forget everything before these observations where `first`."""
        if first.any():
            self.observation[first] = np.concatenate([observation[first]] * self.length, axis=-1)
            self._actions[first] = -1

    def state(self) -> dict[str, Any]:
        """Return the observations and actions, JSON-ready."""
        content = base64.b64encode(np.ascontiguousarray(self.observation).tobytes()).decode()
        return {"observations": content, "actions": self._actions.tolist()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from the state that :meth:`state` returned."""
        content = np.frombuffer(base64.b64decode(state["observations"]), self.observation.dtype)
        self.observation[:] = content.reshape(self.observation.shape)
        self._actions[:] = state["actions"]

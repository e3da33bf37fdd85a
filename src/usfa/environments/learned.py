"""Environments whose φ was learned: a wrapper for one, and a batch that computes φ for all of them in one call.

A learned φ is identified by its content: configurations and agents' files hold the text "learned:CHECKSUM", and this
process remembers the φ of every text that was learned or loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from usfa.environments.batch import Batch, Step, WrappedBatch
from usfa.environments.history import History
from usfa.environments.rewards import RewardVector, rewards_of
from usfa.environments.spaces import ObservationSpec, action_count
from usfa.errors import InputError

__all__ = [
    "LEARNED",
    "FrozenPhi",
    "LearnedBatch",
    "LearnedReward",
    "is_known_phi",
    "known_phi",
    "remember_phi",
    "with_rewards",
]

LEARNED = "learned:"
"""Prefix of the text of a learned φ, before its checksum."""


@runtime_checkable
class FrozenPhi(Protocol):
    """A learned φ(s, a, s′) that is final, or a learned φ of the last H observations, their actions, and s′."""

    features: int
    history: int  # H
    rewards: tuple[str, ...]  # rewards that φ is computed from, beside the transition; usually none

    @property
    def text(self) -> str:
        """`LEARNED`, followed by the checksum of the content."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...]: ...

    def of_batch(
        self,
        observation: NDArray[Any],
        action: NDArray[np.int64],
        next_observation: NDArray[Any],
        rewards: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        """φ [B, D] of B transitions.

        Args:
            observation: the last H observations, encoded, see :class:`usfa.environments.history.History`.
            action: [B], or [B, H].
            next_observation: the next observation, encoded.
            rewards: [B, K]; used only if φ is computed from them.
        """
        ...

    def check_fits(self, observation: ObservationSpec, actions: int) -> None:
        """Raise InputError if φ was learned in an environment with other observations or actions."""
        ...


_KNOWN: dict[str, FrozenPhi] = {}


def remember_phi(phi: FrozenPhi) -> str:
    """Make a φ known in this process by its text, and return the text."""
    _KNOWN[phi.text] = phi
    return phi.text


def is_known_phi(text: str) -> bool:
    """Whether the φ of a text was learned or loaded in this process."""
    return text in _KNOWN


def known_phi(text: str) -> FrozenPhi:
    """The φ of a text; InputError if it was not learned or loaded in this process."""
    if text not in _KNOWN:
        raise InputError(f"phi is {text!r}, which is not loaded; load it first, with usfa.load_features(PATH).")
    return _KNOWN[text]


def with_rewards(env: gym.Env[Any, Any], texts: Sequence[str]) -> gym.Env[Any, Any]:
    """Wrap an environment so that its reward is the vector of these rewards, or of its own reward if there are none."""
    if texts:
        return RewardVector(env, rewards_of(texts))
    return env if env.has_wrapper_attr("reward_space") else RewardVector(env, rewards_of(["reward"]))


class LearnedReward(gym.Wrapper[Any, Any, Any, Any]):
    """Wrapper with the contract of MO-Gymnasium: the reward is the learned φ of shape [D]."""

    def __init__(self, env: gym.Env[Any, Any], phi: FrozenPhi) -> None:
        super().__init__(with_rewards(env, phi.rewards))
        self.phi = phi
        self._spec = ObservationSpec.of(env.observation_space)
        phi.check_fits(self._spec, action_count(env))
        self.reward_space = gym.spaces.Box(-np.inf, np.inf, (phi.features,), np.float32)
        self._history: History | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._history = History(self.phi.history, self._spec.encode_one(observation)[None])
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        after = self._spec.encode_one(observation)[None]
        assert self._history is not None
        self._history.act(np.array([action], np.int64))
        given = np.asarray(reward, np.float32)[None]
        phi = self.phi.of_batch(self._history.observation, self._history.action, after, given)[0]
        self._history.see(after, np.zeros(1, np.bool_))
        return observation, phi, terminated, truncated, info


class LearnedBatch(WrappedBatch):
    """A batch whose φ is learned."""

    def __init__(self, inside: Batch, phi: FrozenPhi) -> None:
        super().__init__(inside, phi.features)
        self._phi = phi
        self._history = History(phi.history, inside.observation)
        self._episode_phi = np.zeros((len(inside), phi.features))

    def step(self, action: NDArray[np.int64]) -> Step:
        history = self._history
        history.act(action)
        step = self._inside.step(action)
        phi = self._phi.of_batch(history.observation, history.action, self._inside.next_observation, step.phi)
        history.see(self._inside.observation, self._inside.first)
        phi = np.where(step.real[:, None], phi, np.float32(0))
        self._episode_phi += phi
        episode_phi = np.where(step.ended[:, None], self._episode_phi, np.nan)
        self._episode_phi[step.ended] = 0.0
        return step._replace(phi=phi, episode_phi=episode_phi)

    def state(self) -> dict[str, Any]:
        state = {"inside": self._inside.state(), "learned_phi": self._episode_phi.tolist()}
        return state if self._history.length == 1 else {**state, "history": self._history.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        self._inside.load_state(state["inside"])
        self._episode_phi[:] = state["learned_phi"]
        if self._history.length == 1:
            self._history = History(1, self._inside.observation)
        else:
            self._history.load_state(state["history"])
            self._history.begin(self._inside.observation, self._inside.first)  # environments may start new episodes
        self._episode_phi[self._inside.first] = 0.0

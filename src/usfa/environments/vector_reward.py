"""φ for environments with a scalar reward, from their info or from a function of the transition."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from usfa.environments.batch import failing_in, real_numbers
from usfa.environments.learned import LEARNED, FrozenPhi, LearnedReward, known_phi
from usfa.environments.spaces import action_count
from usfa.errors import InputError, told
from usfa.registry import imported

__all__ = ["Phi", "PhiSource", "VectorReward", "learned_phi", "with_phi"]

Phi = Callable[[Any, Any, Any], ArrayLike]
"""φ(observation, action, next observation), D numbers."""

PhiSource = str | Phi | FrozenPhi
"""Source of φ: "reward" (a vector), "info" (`info["vector_reward"]`), "module:function", the function, or a learned
one."""


class VectorReward(gym.Wrapper[Any, Any, Any, Any]):
    """Wrapper with the contract of MO-Gymnasium: the reward is φ of shape [D], and there is a `reward_space`.

    The environment's own reward is in `info["scalar_reward"]`, for :func:`usfa.infer_task`.

    Args:
        env: an environment with discrete actions.
        phi: "info" takes φ from `info["vector_reward"]`; a function is called with the observation, the action and the
            next observation.
        features: D; by default found with one step, after which the environment has to be reset.
    """

    def __init__(
        self, env: gym.Env[Any, Any], phi: Literal["info"] | Phi = "info", features: int | None = None
    ) -> None:
        super().__init__(env)
        if not callable(phi) and phi != "info":
            raise InputError(f"phi is {phi!r}; expected 'info' or a function of observation, action, next observation.")
        self._phi = phi if callable(phi) else None
        self._observation: Any = None
        size = self._probe() if features is None else features
        if size < 1:
            raise InputError(f"φ has {size} features; expected at least one.")
        self.reward_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)

    @property
    def computes_phi(self) -> bool:
        """Whether φ comes from a function, not from the environment."""
        return self._phi is not None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._remember(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        phi = self._features_of(action, observation, info)
        if phi.shape != self.reward_space.shape:
            raise InputError(f"φ was {phi}; expected {self.reward_space.shape[0]} numbers, as many as before.")
        self._remember(observation)
        return observation, phi, terminated, truncated, {**info, "scalar_reward": reward}

    def _remember(self, observation: Any) -> None:
        if self._phi is not None:  # a copy, because some environments later change the array they returned
            self._observation = copy.deepcopy(observation)

    def _features_of(self, action: Any, observation: Any, info: dict[str, Any]) -> NDArray[np.float64]:
        value = self._call(action, observation) if self._phi is not None else info.get("vector_reward")
        if value is None and self._phi is None:
            raise InputError(
                f"A step of {self.env} has no info['vector_reward']; expected φ there, or another source of "
                "it as phi: the reward itself, or a function."
            )
        phi = real_numbers(value)
        if phi.ndim != 1:
            raise InputError(f"φ was {value!r}; expected a vector of numbers, one for each feature.")
        return phi

    def _call(self, action: Any, observation: Any) -> object:
        assert self._phi is not None
        try:
            return self._phi(self._observation, action, observation)
        except Exception as error:  # the function is the user's code and may raise anything
            raise InputError(f"φ(observation, action, next observation) failed: {told(error)}.") from error

    def _probe(self) -> int:
        with failing_in("reset", self.env):
            observation, info = self.env.reset(seed=0)
        self._remember(observation)
        legal = np.flatnonzero(info.get("action_mask", np.ones(action_count(self.env))))
        action = int(legal[0]) if len(legal) else 0
        with failing_in("step", self.env):
            observation, *_, info = self.env.step(action)
        return len(self._features_of(action, observation, info))


def learned_phi(phi: PhiSource) -> FrozenPhi | None:
    """Return the learned φ of a source, which is the φ itself or its text; None for other sources."""
    if isinstance(phi, str):
        return known_phi(phi) if phi.startswith(LEARNED) else None
    return phi if isinstance(phi, FrozenPhi) else None


def with_phi(env: gym.Env[Any, Any], phi: PhiSource) -> gym.Env[Any, Any]:
    """Wrap an environment so that its reward is φ."""
    if phi == "reward":
        return env
    learned = learned_phi(phi)
    if learned is not None:
        return LearnedReward(env, learned)
    if isinstance(phi, str) and ":" in phi:
        phi = imported(phi, "φ")
    if callable(phi) or phi == "info":
        return VectorReward(env, phi)  # type: ignore[arg-type]  # phi is "info" or a function here
    raise InputError(f"phi is {phi!r}; expected 'reward', 'info' or the name of a function, 'module:function'.")

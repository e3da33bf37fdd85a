"""Several scalar rewards of one environment, as tasks for users who have no φ."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from usfa.environments.batch import Batch, Step, WrappedBatch
from usfa.environments.spaces import feature_count
from usfa.errors import InputError, told
from usfa.registry import imported, path_of
from usfa.tasks import format_task, parse_task, parse_tasks

__all__ = ["Reward", "RewardVector", "RewardsOfTasks", "reward_texts", "rewards_of", "runs_code"]

RewardFunction = Callable[[Any, Any, Any], float]
_BETWEEN = re.compile(r",(?=[A-Za-z_])")  # not the commas of a task
_EXPECTED = "expected reward, info:KEY, task:1,0, tasks:NAME, or module:function"


@dataclass(frozen=True)
class Reward:
    """One scalar reward of a transition."""

    text: str
    """reward: the environment's own; info:KEY: an entry of info; task:1,0: the environment's vector reward times w;
    module:function: a function of observation, action and next observation."""
    function: RewardFunction | None = None

    @cached_property
    def w(self) -> NDArray[np.float64] | None:
        """The task of "task:…"; None for other rewards."""
        return parse_task(self.text.removeprefix("task:")) if self.text.startswith("task:") else None

    def of(self, before: Any, action: Any, after: Any, reward: Any, info: dict[str, Any]) -> float:
        """The reward of a transition; InputError if it is not a finite number."""
        value = self._value(before, action, after, reward, info)
        if np.ndim(value) or not isinstance(value, int | float | np.number | np.bool_) or not np.isfinite(value):
            raise InputError(f"The reward {self.text!r} of a step is {value!r}; expected a finite number.")
        return float(value)

    def _value(self, before: Any, action: Any, after: Any, reward: Any, info: dict[str, Any]) -> Any:
        if self.function is not None:
            try:
                return self.function(before, action, after)
            except Exception as error:  # the function is the user's code and may raise anything
                raise InputError(f"The reward {self.text!r} failed: {told(error)}.") from error
        if self.w is not None:
            vector = np.asarray(reward, np.float64)
            return vector @ (self.w if vector.shape == self.w.shape else parse_task(self.w, vector.size))
        if self.text == "reward":
            return np.asarray(reward).item() if np.size(reward) == 1 else reward
        key = self.text.removeprefix("info:")
        if key not in info:
            raise InputError(f"A step has no info[{key!r}], which the reward {self.text!r} names.")
        return info[key]


def reward_texts(rewards: object) -> tuple[str, ...]:
    """Convert rewards to texts, which can be saved; "tasks:NAME" becomes a text for each task of the set.

    Args:
        rewards: a text, a function, or a list of them; a text may hold several rewards, separated by commas.
    """
    listed = list(rewards) if isinstance(rewards, list | tuple) else [rewards]
    words = [word for reward in listed for word in (_BETWEEN.split(reward) if isinstance(reward, str) else [reward])]
    texts = [text for word in words for text in _texts_of(word)]
    if not texts:
        raise InputError(f"The rewards are empty; {_EXPECTED}.")
    if len(set(texts)) < len(texts):
        raise InputError(f"The rewards are {texts}; expected each once.")
    return tuple(texts)


def _texts_of(reward: object) -> list[str]:
    if isinstance(reward, FunctionType):
        return [path_of(reward, "reward")]
    if not isinstance(reward, str):
        raise InputError(f"A reward is {reward!r}; {_EXPECTED}, or in Python a function at the top of a module.")
    if reward.startswith("tasks:"):
        return [f"task:{format_task(w)}" for w in parse_tasks(reward.removeprefix("tasks:"))]
    if reward == "reward" or reward.startswith("info:") or ":" in reward:
        return [reward]
    raise InputError(f"A reward is {reward!r}; {_EXPECTED}.")


def rewards_of(texts: Sequence[str]) -> tuple[Reward, ...]:
    """Rewards from their texts; functions are imported, which runs their modules."""
    return tuple(Reward(text, _function(text)) for text in texts)


def _function(text: str) -> RewardFunction | None:
    if not runs_code(text):
        return None
    found = imported(text, "reward")
    if not callable(found):
        raise InputError(f"The reward {text!r} is {found!r}; expected a function of observation, action, observation.")
    function: RewardFunction = found
    return function


def runs_code(text: str) -> bool:
    """Whether a reward is a function of a user, whose module :func:`rewards_of` imports."""
    return text != "reward" and text.partition(":")[0] not in ("info", "task")


class RewardVector(gym.Wrapper[Any, Any, Any, Any]):
    """Wrapper whose reward is the vector of several scalar rewards [K].

    The environment's own reward is in `info["scalar_reward"]` if it is a number.
    """

    def __init__(self, env: gym.Env[Any, Any], rewards: Sequence[Reward]) -> None:
        super().__init__(env)
        self.rewards = tuple(rewards)
        for reward in self.rewards:
            _check_task(reward, env)
        self.reward_space = gym.spaces.Box(-np.inf, np.inf, (len(self.rewards),), np.float32)
        self._before: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._before = copy.deepcopy(observation)  # some environments later change the array they returned
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        after, own, terminated, truncated, info = self.env.step(action)
        values = np.array([reward.of(self._before, action, after, own, info) for reward in self.rewards])
        self._before = copy.deepcopy(after)
        own_number = {"scalar_reward": own} if np.ndim(np.asarray(own)) == 0 else {}
        return after, values, terminated, truncated, {**info, **own_number}


def _check_task(reward: Reward, env: gym.Env[Any, Any]) -> None:
    if reward.w is not None:
        parse_task(reward.w, feature_count(env))  # raises for another number of features


class RewardsOfTasks(WrappedBatch):
    """A batch whose φ is replaced by the rewards φ·w of K tasks, for environments that are stepped together."""

    def __init__(self, inside: Batch, w: NDArray[np.float64]) -> None:
        super().__init__(inside, len(w))
        self._w = w.astype(np.float32)

    def step(self, action: NDArray[np.int64]) -> Step:
        step = self._inside.step(action)
        return step._replace(phi=step.phi @ self._w.T, episode_phi=step.episode_phi @ self._w.T.astype(np.float64))

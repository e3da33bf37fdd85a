"""B environments stepped in one process, with explicit seams between episodes and statistics of them.

Gymnasium's vector environments hide the last observation of an episode behind their autoreset modes; here every
observation appears once, in order, and `first` marks those that open an episode.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from usfa.environments.spaces import ObservationSpec, action_count, feature_count
from usfa.errors import InputError, told

__all__ = [
    "LARGEST_PHI",
    "LONGEST_EPISODE",
    "Batch",
    "Environment",
    "EnvironmentBatch",
    "Step",
    "WrappedBatch",
    "close_environment",
    "failing_in",
    "is_savable",
    "real_numbers",
]

Environment = gym.Env[Any, Any]

LARGEST_PHI = 1e15
"""Largest entry of φ that is allowed: squared errors of such returns still fit into single precision."""
LONGEST_EPISODE = 100_000
"""Steps after which an episode is truncated if the environment has no `get_state`: a resumed run plays it again."""


class Step(NamedTuple):
    """Result of one step of every environment. The present observation is in the batch itself."""

    phi: NDArray[np.float32]  # [B, D]
    discount: NDArray[np.float32]  # [B]     γ, or 0 on termination
    real: NDArray[np.bool_]  # [B]     False at a seam, where the environment was only reset
    episode_phi: NDArray[np.float64]  # [B, D]  Σφ of the episode that ended here, NaN where none did
    ended: NDArray[np.bool_]  # [B]     an episode ended with this step
    reward: NDArray[np.float32]  # [B]     scalar reward of the environment, NaN where it has none


class Batch(Protocol):
    """B environments stepped together, with seams and episodes as in :class:`EnvironmentBatch`."""

    actions: int
    features: int

    @property
    def observation(self) -> NDArray[Any]:
        """[B, ...], encoded."""
        ...

    @property
    def legal(self) -> NDArray[np.bool_]:
        """[B, A]."""
        ...

    @property
    def first(self) -> NDArray[np.bool_]:
        """[B]."""
        ...

    @property
    def next_observation(self) -> NDArray[Any]:
        """[B, ...], the observation after the last step, before a terminated environment was reset."""
        ...

    def __len__(self) -> int: ...

    def step(self, action: NDArray[np.int64]) -> Step:
        """Act once in every environment; the next step may overwrite the result."""
        ...

    def state(self) -> dict[str, Any]: ...

    def load_state(self, state: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


class WrappedBatch:
    """A batch that delegates everything to another one; subclasses change φ in `step`."""

    def __init__(self, inside: Batch, features: int) -> None:
        self._inside = inside
        self.features = features
        self.actions = inside.actions

    def __len__(self) -> int:
        return len(self._inside)

    @property
    def observation(self) -> NDArray[Any]:
        return self._inside.observation

    @property
    def legal(self) -> NDArray[np.bool_]:
        return self._inside.legal

    @property
    def first(self) -> NDArray[np.bool_]:
        return self._inside.first

    @property
    def next_observation(self) -> NDArray[Any]:
        return self._inside.next_observation

    def step(self, action: NDArray[np.int64]) -> Step:
        return self._inside.step(action)

    def state(self) -> dict[str, Any]:
        return self._inside.state()

    def load_state(self, state: dict[str, Any]) -> None:
        self._inside.load_state(state)

    def close(self) -> None:
        self._inside.close()


@dataclass
class _Episode:
    """The running episode of an environment, so that it can be played again."""

    seed: int
    actions: list[int] = field(default_factory=list)


class EnvironmentBatch:
    """A list of environments with the same spaces, each with its own random generator.

    After :meth:`step`, `observation`, `legal` and `first` describe the present. A terminated environment is reset
    at once; a truncated one first shows its last observation, and its next step is a seam that only resets it.

    An environment without `get_state` and `set_state` gets a seed for every episode. Seed and actions then determine
    the episode, and :meth:`load_state` plays it again.
    """

    observation: NDArray[Any]  # [B, ...]  encoded
    legal: NDArray[np.bool_]  # [B, A]
    first: NDArray[np.bool_]  # [B]
    next_observation: NDArray[Any]  # [B, ...]  after the last step, before a terminated environment was reset

    def __init__(self, envs: Sequence[Environment], gamma: float, seeds: Sequence[int]) -> None:
        if not envs or len(envs) != len(seeds):
            raise InputError(f"{len(envs)} environments have {len(seeds)} seeds; expected one each, and at least one.")
        if len({id(env) for env in envs}) < len(envs):
            raise InputError(f"The environment {envs[0]} is in the batch twice; expected a new one in each place.")
        if not 0 < gamma <= 1:  # 0 would make a seam look like a termination
            raise InputError(f"gamma is {gamma}; expected a number above 0, at most 1.")
        self.envs = list(envs)
        self.gamma = gamma
        self.spec = ObservationSpec.of(envs[0].observation_space)
        self.actions = action_count(envs[0])
        self.features = feature_count(envs[0])
        self.observation = np.zeros((len(envs), *self.spec.shape), self.spec.dtype)
        self.next_observation = np.zeros_like(self.observation)
        self.legal = np.ones((len(envs), self.actions), np.bool_)
        self._all_legal = np.ones(self.actions, np.bool_)
        self.first = np.ones(len(envs), np.bool_)
        self._truncated = np.zeros(len(envs), np.bool_)
        self._savable = [is_savable(env) for env in envs]
        self._episode_seeds = [np.random.default_rng([seed, 1]) for seed in seeds]
        self._episodes = [_Episode(seed) for seed in seeds]
        self._episode_phi = np.zeros((len(envs), self.features))
        self._warned = False
        for index, seed in enumerate(seeds):
            self._reset(index, seed)

    def __len__(self) -> int:
        return len(self.envs)

    def step(self, action: NDArray[np.int64]) -> Step:
        size = len(self.envs)
        step = Step(
            phi=np.zeros((size, self.features), np.float32),
            discount=np.full(size, self.gamma, np.float32),
            real=~self._truncated,
            episode_phi=np.full((size, self.features), np.nan),
            ended=np.zeros(size, np.bool_),
            reward=np.full(size, np.nan, np.float32),
        )
        for index in range(size):
            if self._truncated[index]:
                self._reset(index)
                self.next_observation[index] = self.observation[index]
            else:
                with failing_in("step", self.envs[index]):
                    self._step_one(index, int(action[index]), step)
        return step

    def _step_one(self, index: int, action: int, step: Step) -> None:
        observation, reward, terminated, truncated, info = self.envs[index].step(action)
        if not self._savable[index]:
            self._episodes[index].actions.append(action)
            truncated = truncated or self._is_too_long(index)
        step.phi[index] = self._checked_phi(reward)
        own_reward = info.get("scalar_reward", np.nan)  # set by VectorReward; may still be a vector
        step.reward[index] = own_reward if np.ndim(own_reward) == 0 else np.nan
        self._episode_phi[index] += step.phi[index]
        if terminated or truncated:
            step.ended[index] = True
            step.episode_phi[index] = self._episode_phi[index]
        if terminated:
            step.discount[index] = 0.0
            self.next_observation[index] = self.spec.encode_one(observation)
            self._reset(index)
        else:
            self._show(index, observation, info, first=False)
            self.next_observation[index] = self.observation[index]
            self._truncated[index] = truncated

    def _is_too_long(self, index: int) -> bool:
        """Whether an episode has to be truncated, because a resumed run would have to play all of it again."""
        if len(self._episodes[index].actions) < LONGEST_EPISODE:
            return False
        warnings.warn(
            f"An episode of the environment {_name_of(self.envs[index])} was truncated after {LONGEST_EPISODE:,} "
            "steps; expected shorter ones, or get_state and set_state.",
            stacklevel=2,
        )
        return True

    def _reset(self, index: int, seed: int | None = None) -> None:
        if not self._savable[index]:
            seed = int(self._episode_seeds[index].integers(2**31)) if seed is None else seed
            self._episodes[index] = _Episode(seed)
        with failing_in("reset", self.envs[index]):
            observation, info = self.envs[index].reset(seed=seed)
            self._show(index, observation, info, first=True)
        self._truncated[index] = False
        self._episode_phi[index] = 0.0

    def _show(self, index: int, observation: object, info: dict[str, Any], *, first: bool) -> None:
        self.observation[index] = seen = self.spec.encode_one(observation)
        if not self.spec.is_image and not np.isfinite(seen).all():
            raise InputError(f"The observation is {observation}; expected finite numbers.")
        self._warn_of_bounds(observation)
        mask = np.asarray(info.get("action_mask", self._all_legal))
        if mask.shape != (self.actions,) or not mask.any():
            raise InputError(
                f"The action_mask is {mask}; expected {self.actions} entries with at least one legal action."
            )
        self.legal[index] = mask
        self.first[index] = first

    def _warn_of_bounds(self, observation: object) -> None:
        """Warn once if a vector is outside of its space by more than the width of the space."""
        space = self.envs[0].observation_space
        if self._warned or self.spec.is_image or not isinstance(space, gym.spaces.Box):
            return
        width = space.high.astype(np.float64) - space.low
        seen = np.asarray(observation)
        far = (seen < space.low - width) | (seen > space.high + width)
        if far.any():
            self._warned = True
            warnings.warn(
                f"The observation {seen[far][0]:g} is far outside of its space, "
                f"{space.low[far][0]:g} to {space.high[far][0]:g}; expected a wider space.",
                stacklevel=2,
            )

    def _checked_phi(self, reward: object) -> NDArray[np.float32]:
        # A copy, because some wrappers later change the array they returned.
        phi = real_numbers(reward).astype(np.float32)
        if phi.shape != (self.features,) or not np.isfinite(phi).all():
            raise InputError(
                f"The reward is {reward}; expected {self.features} finite numbers, the size of reward_space."
            )
        if abs(phi).max() > LARGEST_PHI:
            raise InputError(f"The reward is {reward}; expected numbers up to {LARGEST_PHI:g}.")
        return phi

    def state(self) -> dict[str, Any]:
        """Return everything that a resumed run needs to continue exactly, JSON-ready."""
        return {
            "envs": [self._state_of(index) for index in range(len(self))],
            "observation": self.observation.tolist(),
            "legal": self.legal.tolist(),
            "first": self.first.tolist(),
            "truncated": self._truncated.tolist(),
            "episode_phi": self._episode_phi.tolist(),
        }

    def _state_of(self, index: int) -> dict[str, Any]:
        if not self._savable[index]:
            episode = self._episodes[index]
            rng = self._episode_seeds[index].bit_generator.state
            return {"seed": episode.seed, "actions": episode.actions.copy(), "rng": rng}
        env: Any = self.envs[index]
        with failing_in("get_state", env):
            saved: dict[str, Any] = env.get_state()
            json.dumps(saved)  # raises here, where the environment is known
        return saved

    def close(self) -> None:
        for env in self.envs:
            close_environment(env)

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from the state that :meth:`state` returned.

        An environment that does not repeat an episode, because it draws from elsewhere than its seed, starts a new one.
        """
        self.observation[:] = state["observation"]
        self.legal[:] = state["legal"]
        self.first[:] = state["first"]
        self._truncated[:] = state["truncated"]
        self._episode_phi[:] = state["episode_phi"]
        env: Any
        for index, (env, saved) in enumerate(zip(self.envs, state["envs"], strict=True)):
            if self._savable[index]:
                with failing_in("set_state", env):
                    env.set_state(saved)
            else:
                self._episodes[index] = self._checked_episode(saved)
                self._episode_seeds[index].bit_generator.state = saved["rng"]
                if not self._truncated[index]:  # the next step only resets a truncated one
                    self._continue_episode(index)

    def _checked_episode(self, saved: dict[str, Any]) -> _Episode:
        """The episode in a checkpoint; raise ValueError if it cannot be played."""
        if set(saved) != {"seed", "actions", "rng"}:
            raise ValueError(
                "it has no seeds and actions of its episodes; expected a checkpoint of this version of usfa"
            )
        seed, actions = saved["seed"], saved["actions"]
        if type(seed) is not int or not 0 <= seed < 2**63:
            raise ValueError(f"the seed of an episode is {seed!r}; expected a whole number from 0")
        if not isinstance(actions, list) or len(actions) > LONGEST_EPISODE:
            raise ValueError(f"the actions of an episode are not a list of at most {LONGEST_EPISODE:,}")
        if not all(type(action) is int and 0 <= action < self.actions for action in actions):
            raise ValueError(f"an action of an episode is not a whole number from 0 to {self.actions - 1}")
        return _Episode(seed, actions)

    def _continue_episode(self, index: int) -> None:
        """Play the running episode again; start a new one if it takes another course."""
        if self._repeats(index):
            return
        warnings.warn(
            f"The environment {_name_of(self.envs[index])} does not repeat an episode from its seed and actions, and "
            "starts a new one; expected all randomness from self.np_random, or get_state and set_state.",
            stacklevel=2,
        )
        self._reset(index)

    def _repeats(self, index: int) -> bool:
        """Play the running episode again; whether it leads to the same observation, legal actions and sum of φ."""
        try:
            return self._replays(self.envs[index], index)
        except Exception:  # the user's code may raise anything if another course makes an action illegal
            return False

    def _replays(self, env: Environment, index: int) -> bool:
        total = np.zeros(self.features)
        observation, info = env.reset(seed=self._episodes[index].seed)
        for action in self._episodes[index].actions:
            if not np.asarray(info.get("action_mask", self._all_legal))[action]:
                return False
            observation, reward, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                return False
            total += self._checked_phi(reward)
        return (
            np.array_equal(self.spec.encode_one(observation), self.observation[index])
            and np.array_equal(info.get("action_mask", self._all_legal), self.legal[index])
            and np.array_equal(total, self._episode_phi[index])
        )


@contextmanager
def failing_in(method: str, env: Environment) -> Iterator[None]:
    """Turn an exception of the user's environment into an InputError that names the environment and the method."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"The {method} of the environment {_name_of(env)} failed: {told(error)}; usfa check-env says what is "
            "expected of it."
        ) from error


def close_environment(env: Environment) -> None:
    """Close an environment; if that fails only warn, because the environment is no longer needed."""
    try:
        env.close()
    except Exception as error:  # the environment is the user's code and may raise anything
        warnings.warn(f"The close of the environment {_name_of(env)} failed: {told(error)}.", stacklevel=2)


def _name_of(env: Environment) -> str:
    return type(getattr(env, "unwrapped", env)).__name__


def real_numbers(values: object) -> NDArray[np.float64]:
    """Copy values as real numbers; return a single NaN for texts, complex numbers and anything else."""
    try:
        given = np.asarray(values)
    except ValueError:  # lists of different lengths
        return np.array(np.nan)
    return np.array(given, np.float64) if given.dtype.kind in "fiub" else np.array(np.nan)


def is_savable(env: Environment) -> bool:
    """Whether an environment can be saved in the middle of an episode."""
    return hasattr(env, "get_state") and hasattr(env, "set_state")

"""B environments stepped in one process, with seams and episode statistics made explicit.

Gymnasium's vector environments hide the last observation of an episode behind their autoreset modes; here the
caller sees every observation once, in order, and knows which of them opens an episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from usfa.environments.spaces import ObservationSpec, action_count, feature_count
from usfa.errors import InputError, told

__all__ = ["Batch", "Environment", "EnvironmentBatch", "Step", "failing_in", "is_savable"]

Environment = gym.Env[Any, Any]


class Step(NamedTuple):
    """What one step of every environment brought. The present observation is in the batch itself."""

    phi: NDArray[np.float32]  # [B, D]
    discount: NDArray[np.float32]  # [B]     γ, or 0 on termination
    real: NDArray[np.bool_]  # [B]     False at a seam, where nothing was done
    episode_phi: NDArray[np.float64]  # [B, D]  Σφ of the episode that ended here, NaN where none did
    ended: NDArray[np.bool_]  # [B]     an episode ended with this step


class Batch(Protocol):
    """B environments that are stepped together; :class:`EnvironmentBatch` says how seams and episodes are shown."""

    observation: NDArray[Any]  # [B, ...]  encoded
    legal: NDArray[np.bool_]  # [B, A]
    first: NDArray[np.bool_]  # [B]
    actions: int
    features: int

    @property
    def saves_exactly(self) -> bool:
        """Whether :meth:`state` leaves every episode as it is."""
        ...

    def __len__(self) -> int: ...

    def step(self, action: NDArray[np.int64]) -> Step:
        """Act once in every environment; what is returned may be overwritten by the next step."""
        ...

    def state(self) -> dict[str, Any]: ...

    def load_state(self, state: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


class EnvironmentBatch:
    """A list of environments with the same spaces, each with its own random generator.

    After :meth:`step`, `observation`, `legal` and `first` describe the present. A terminated environment is reset
    at once; a truncated one first shows its last observation, and its next step is a seam that only resets it.
    """

    observation: NDArray[Any]  # [B, ...]  encoded
    legal: NDArray[np.bool_]  # [B, A]
    first: NDArray[np.bool_]  # [B]

    def __init__(self, envs: Sequence[Environment], gamma: float, seeds: Sequence[int]) -> None:
        if not envs or len(envs) != len(seeds):
            raise InputError(f"{len(envs)} environments came with {len(seeds)} seeds; expected as many, at least one.")
        if len({id(env) for env in envs}) < len(envs):
            raise InputError(f"The environment {envs[0]} came twice; expected a new one in each place of the batch.")
        if not 0 < gamma <= 1:  # 0 would make a seam look like a termination
            raise InputError(f"gamma is {gamma}; expected a number above 0, at most 1.")
        self.envs = list(envs)
        self.gamma = gamma
        self.spec = ObservationSpec.of(envs[0].observation_space)
        self.actions = action_count(envs[0])
        self.features = feature_count(envs[0])
        self.observation = np.zeros((len(envs), *self.spec.shape), self.spec.dtype)
        self.legal = np.ones((len(envs), self.actions), np.bool_)
        self._all_legal = np.ones(self.actions, np.bool_)
        self.first = np.ones(len(envs), np.bool_)
        self._truncated = np.zeros(len(envs), np.bool_)
        self._restarts = [np.random.default_rng([seed, 1]) for seed in seeds]
        self._episode_phi = np.zeros((len(envs), self.features))
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
        )
        for index in range(size):
            if self._truncated[index]:
                self._reset(index)
            else:
                with failing_in("step", self.envs[index]):
                    self._step_one(index, int(action[index]), step)
        return step

    def _step_one(self, index: int, action: int, step: Step) -> None:
        observation, reward, terminated, truncated, info = self.envs[index].step(action)
        step.phi[index] = self._checked_phi(reward)
        self._episode_phi[index] += step.phi[index]
        if terminated or truncated:
            step.ended[index] = True
            step.episode_phi[index] = self._episode_phi[index]
        if terminated:
            step.discount[index] = 0.0
            self._reset(index)
        else:
            self._show(index, observation, info, first=False)
            self._truncated[index] = truncated

    def _reset(self, index: int, seed: int | None = None) -> None:
        with failing_in("reset", self.envs[index]):
            observation, info = self.envs[index].reset(seed=seed)
            self._show(index, observation, info, first=True)
        self._truncated[index] = False
        self._episode_phi[index] = 0.0

    def _show(self, index: int, observation: object, info: dict[str, Any], *, first: bool) -> None:
        self.observation[index] = seen = self.spec.encode_one(observation)
        if not self.spec.is_image and not np.isfinite(seen).all():
            raise InputError(f"The environment showed the observation {observation}; expected finite numbers.")
        mask = np.asarray(info.get("action_mask", self._all_legal))
        if mask.shape != (self.actions,) or not mask.any():
            raise InputError(
                f"The environment gave the action_mask {mask}; expected {self.actions} entries with a legal action."
            )
        self.legal[index] = mask
        self.first[index] = first

    def _checked_phi(self, reward: object) -> NDArray[np.float32]:
        # A copy, because some wrappers go on to change the array they returned.
        try:
            phi = np.array(reward, dtype=np.float32)
        except (TypeError, ValueError):
            phi = np.full(0, np.nan, np.float32)
        if phi.shape != (self.features,) or not np.isfinite(phi).all():
            raise InputError(
                f"The environment returned the reward {reward}; expected {self.features} finite numbers, "
                "as its reward_space says."
            )
        return phi

    def state(self) -> dict[str, Any]:
        """What a resumed run needs to go on exactly, JSON-ready.

        An environment without `get_state` and `set_state` cannot be saved in the middle of an episode. It starts a
        new one here, also in the run that goes on, so that both see the same.
        """
        return {
            "envs": [self._state_of(index) for index in range(len(self))],
            "restarts": [rng.bit_generator.state for rng in self._restarts],
            "observation": self.observation.tolist(),
            "legal": self.legal.tolist(),
            "first": self.first.tolist(),
            "truncated": self._truncated.tolist(),
            "episode_phi": self._episode_phi.tolist(),
        }

    @property
    def saves_exactly(self) -> bool:
        """Whether :meth:`state` leaves every episode as it is."""
        return all(is_savable(env) for env in self.envs)

    def _state_of(self, index: int) -> dict[str, Any]:
        env: Any = self.envs[index]
        if is_savable(env):
            saved: dict[str, Any] = env.get_state()
            return saved
        seed = int(self._restarts[index].integers(2**31))
        self._reset(index, seed)
        return {"restart_seed": seed}

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def load_state(self, state: dict[str, Any]) -> None:
        for rng, saved in zip(self._restarts, state["restarts"], strict=True):
            rng.bit_generator.state = saved
        self.observation[:] = state["observation"]
        self.legal[:] = state["legal"]
        self.first[:] = state["first"]
        self._truncated[:] = state["truncated"]
        self._episode_phi[:] = state["episode_phi"]
        env: Any
        for index, (env, saved) in enumerate(zip(self.envs, state["envs"], strict=True)):
            if "restart_seed" in saved:
                self._reset(index, saved["restart_seed"])  # shows what is there, also if it does not heed seeds
            else:
                env.set_state(saved)


@contextmanager
def failing_in(method: str, env: Environment) -> Iterator[None]:
    """Say whose mistake it was: an environment is other people's code."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        name = type(getattr(env, "unwrapped", env)).__name__
        raise InputError(
            f"The {method} of the environment {name} failed: {told(error)}; usfa check-env says what is expected of it."
        ) from error


def is_savable(env: Environment) -> bool:
    """Whether it can be saved in the middle of an episode."""
    return hasattr(env, "get_state") and hasattr(env, "set_state")

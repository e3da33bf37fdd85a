"""Any TabularMDP as a Gymnasium environment with vector reward: the rules exist once, in the tables."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from usfa.errors import InputError
from usfa.functional import TabularMDP

__all__ = ["TabularEnv"]


class TabularEnv(gym.Env[np.int64, np.int64]):
    """A finite MDP to act in.

    ## Observation
    Discrete: the number of the state.

    ## Actions
    Discrete. `info["action_mask"]` says which are legal in the present state; others are refused.

    ## Reward
    The vector φ(s,a,s') of shape [D], as in MO-Gymnasium (`reward_space`).
    """

    def __init__(self, mdp: TabularMDP, state_names: tuple[str, ...], action_names: tuple[str, ...]) -> None:
        self.mdp = mdp
        self.state_names = state_names
        self.action_names = action_names
        self.observation_space = gym.spaces.Discrete(mdp.states)
        self.action_space = gym.spaces.Discrete(mdp.actions)
        phi = mdp.possible_phi.numpy()
        self.reward_space = gym.spaces.Box(
            phi.min(axis=0).astype(np.float32), phi.max(axis=0).astype(np.float32), dtype=np.float32
        )
        # Sampling wants plain arrays: a torch scalar costs a microsecond at every access.
        self._successors = mdp.transition.numpy().cumsum(axis=-1)
        self._phi = mdp.phi.numpy()
        self._continues = mdp.discount.numpy() > 0
        self._legal = mdp.legal.numpy()
        self._start = mdp.start.numpy().cumsum()
        self._state = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = self._draw(self._start)
        return np.int64(self._state), self._info()

    def step(self, action: int | np.int64) -> tuple[np.int64, NDArray[np.float64], bool, bool, dict[str, Any]]:
        source = self._state
        if not 0 <= action < self.mdp.actions or not self._legal[source, action]:
            legal = ", ".join(f"{a} ({self.action_names[a]})" for a in np.flatnonzero(self._legal[source]))
            raise InputError(
                f"Action {action} is not legal in state {self.state_names[source]}; expected one of {legal}, "
                'as info["action_mask"] says.'
            )
        self._state = self._draw(self._successors[source, action])
        phi = self._phi[source, action, self._state].copy()
        terminated = not self._continues[source, action, self._state]
        return np.int64(self._state), phi, terminated, False, self._info()

    def get_state(self) -> dict[str, Any]:
        """Everything the next step depends on, JSON-ready, for exact resume."""
        return {"state": self._state, "rng": self.np_random.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`get_state` was taken."""
        self._state = state["state"]
        self.np_random.bit_generator.state = state["rng"]

    def _draw(self, cumulative: NDArray[np.float64]) -> int:
        return int(np.searchsorted(cumulative, self.np_random.random() * cumulative[-1], side="right"))

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._legal[self._state].astype(np.int8)}

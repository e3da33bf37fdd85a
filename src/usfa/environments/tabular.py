"""Tabular environments: any TabularMDP, the paper's Trip MDP (Section 4.1) and its one-state MDP (Appendix A)."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from usfa.errors import InputError
from usfa.functional import TabularMDP

__all__ = ["OneState", "TabularEnv", "Trip", "one_state_mdp", "trip_mdp"]


class TabularEnv(gym.Env[np.int64, np.int64]):
    """A Gymnasium environment with vector reward from the tables of a finite MDP.

    ## Observation
    Discrete: the index of the state.

    ## Actions
    Discrete. `info["action_mask"]` marks the legal actions of the present state; others raise InputError.

    ## Reward
    The vector φ(s,a,s') of shape [D], as in MO-Gymnasium (`reward_space`).
    """

    feature_names: tuple[str, ...] = ()

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
        # numpy arrays, because every access to a torch scalar costs a microsecond.
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
                'as in info["action_mask"].'
            )
        self._state = self._draw(self._successors[source, action])
        phi = self._phi[source, action, self._state].copy()
        terminated = not self._continues[source, action, self._state]
        return np.int64(self._state), phi, terminated, False, self._info()

    def get_state(self) -> dict[str, Any]:
        """Return everything the next step depends on, JSON-ready, for exact resume."""
        return {"state": self._state, "rng": self.np_random.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from the state that :meth:`get_state` returned."""
        self._state = state["state"]
        self.np_random.bit_generator.state = state["rng"]

    def _draw(self, cumulative: NDArray[np.float64]) -> int:
        return int(np.searchsorted(cumulative, self.np_random.random() * cumulative[-1], side="right"))

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._legal[self._state].astype(np.int8)}


# --- the Trip MDP: coffee, food, and places that serve both ---


def trip_mdp(places: int = 6, exploration_cost: float = 0.05) -> TabularMDP:
    """Trip MDP of Section 4.1 and Appendix B: two states, D = 2 (coffee, food), γ = 1.

    In s1 the traveller takes C (φ = [1,0]), F (φ = [0,1]) or explores with E (φ = [-ε,-ε], leads to s2). In s2 every
    place is in reach: φ = [cos θ, sin θ] for θ = kπ/2N, k = 0..N, so that k = 0 is C and k = N is F. Every place
    ends the trip.

    Actions 0..N are the places in the order of k, action N+1 is E.

    Args:
        places: N. Section 4.1 has N = 5 alternative places, Appendix B N = 6: five mixed ones plus C and F.
        exploration_cost: ε.
    """
    if places < 1:
        raise InputError(f"places is {places}; expected at least 1.")
    if not math.isfinite(exploration_cost):
        raise InputError(f"exploration_cost is {exploration_cost}; expected a finite number.")
    explore = places + 1
    theta = torch.arange(places + 1, dtype=torch.float64) * torch.pi / (2 * places)
    legal = torch.zeros(2, places + 2, dtype=torch.bool)
    legal[0, [0, places, explore]] = True
    legal[1, : places + 1] = True
    phi = torch.zeros(2, places + 2, 2, 2, dtype=torch.float64)
    phi[:, : places + 1] = torch.stack([theta.cos(), theta.sin()], dim=-1)[:, None]
    phi[:, explore] = -exploration_cost
    transition = torch.zeros(2, places + 2, 2, dtype=torch.float64)
    transition[:, : places + 1, 0] = 1  # any state would do, as the discount is 0
    transition[:, explore, 1] = 1
    discount = torch.zeros_like(transition)
    discount[:, explore] = 1
    return TabularMDP(transition, phi, discount, legal, start=torch.tensor([1.0, 0.0], dtype=torch.float64))


class Trip(TabularEnv):
    """Environment of :func:`trip_mdp`."""

    feature_names = ("coffee", "food")

    def __init__(self, places: int = 6, exploration_cost: float = 0.05) -> None:
        mixed = tuple(f"P{k}" for k in range(1, places))
        super().__init__(trip_mdp(places, exploration_cost), ("s1", "s2"), ("C", *mixed, "F", "E"))


# --- the one-state MDP: stay for 0 or leave for w ---


def one_state_mdp(gamma: float = 0.9) -> TabularMDP:
    """One-state MDP of Appendix A, D = 1: a1 stays with φ = 0, a2 ends the episode with φ = 1.

    For w > 0 it is best to take a2 (reward w, then termination), for w ≤ 0 to stay with a1. (Appendix A swaps the
    sign and the names of the actions in its description of the two optimal policies.)

    Args:
        gamma: γ < 1, not given in the paper; staying is worth 0 for every γ.
    """
    if not 0 <= gamma < 1:
        raise InputError(f"gamma is {gamma}; expected 0 ≤ gamma < 1, as staying forever must have a value.")
    phi = torch.tensor([0.0, 1.0], dtype=torch.float64).reshape(1, 2, 1, 1)
    return TabularMDP(
        transition=torch.ones(1, 2, 1, dtype=torch.float64),
        phi=phi,
        discount=torch.tensor([gamma, 0.0], dtype=torch.float64).reshape(1, 2, 1),
        legal=torch.ones(1, 2, dtype=torch.bool),
        start=torch.ones(1, dtype=torch.float64),
    )


class OneState(TabularEnv):
    """Environment of :func:`one_state_mdp`."""

    def __init__(self, gamma: float = 0.9) -> None:
        super().__init__(one_state_mdp(gamma), ("s",), ("a1", "a2"))

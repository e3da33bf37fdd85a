"""The Trip MDP of Section 4.1 and Appendix B: coffee, food, and places that serve both."""

from __future__ import annotations

import math

import torch

from usfa.environments.tabular import TabularEnv
from usfa.errors import InputError
from usfa.functional import TabularMDP

__all__ = ["Trip", "trip_mdp"]


def trip_mdp(places: int = 6, exploration_cost: float = 0.05) -> TabularMDP:
    """Two states, D = 2 (coffee, food), γ = 1.

    In s1 the traveller takes C (φ = [1,0]), F (φ = [0,1]) or explores with E (φ = [-ε,-ε], leads to s2). In s2 every
    place is in reach: φ = [cos θ, sin θ] for θ = kπ/2N, k = 0..N, so that k = 0 is C and k = N is F. Every place
    ends the trip.

    Actions 0..N are the places in the order of k, action N+1 is E.

    Args:
        places: N. Section 4.1 speaks of N = 5 alternative places, Appendix B ran N = 6: five mixed ones plus C and F.
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
    transition[:, : places + 1, 0] = 1  # where a trip ends does not matter: its discount is 0
    transition[:, explore, 1] = 1
    discount = torch.zeros_like(transition)
    discount[:, explore] = 1
    return TabularMDP(transition, phi, discount, legal, start=torch.tensor([1.0, 0.0], dtype=torch.float64))


class Trip(TabularEnv):
    """The Trip MDP to act in; see :func:`trip_mdp`."""

    def __init__(self, places: int = 6, exploration_cost: float = 0.05) -> None:
        mixed = tuple(f"P{k}" for k in range(1, places))
        super().__init__(trip_mdp(places, exploration_cost), ("s1", "s2"), ("C", *mixed, "F", "E"))

"""The MDP of Appendix A: one state, stay for nothing or leave for w."""

from __future__ import annotations

import torch

from usfa.environments.tabular import TabularEnv
from usfa.errors import InputError
from usfa.functional import TabularMDP

__all__ = ["OneState", "one_state_mdp"]


def one_state_mdp(gamma: float = 0.9) -> TabularMDP:
    """One state, D = 1: a1 stays with φ = 0, a2 ends the episode with φ = 1.

    For w > 0 it is best to take a2 (reward w, then termination), for w ≤ 0 to stay with a1. (Appendix A swaps the
    sign and the names of the actions in its description of the two optimal policies.)

    Args:
        gamma: γ < 1, which the paper leaves open; staying is worth 0 under any.
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
    """The MDP of Appendix A to act in; see :func:`one_state_mdp`."""

    def __init__(self, gamma: float = 0.9) -> None:
        super().__init__(one_state_mdp(gamma), ("s",), ("a1", "a2"))

"""ε-greedy exploration, in which a random action may be repeated for several steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["LONGEST", "Exploration", "epsilon_greedy"]

LONGEST = 1000
"""Maximum number of repetitions of a random action."""


class Exploration:
    """ε-greedy actions in R·B environments; random ones are repeated as in εz-greedy (Dabney et al., ICLR 2021).

    The number of repetitions n has probability ∝ n^-exponent: mostly 1, sometimes large. This reaches distant states,
    which independent random actions reach with a probability that falls exponentially with the distance.
    """

    def __init__(self, shape: tuple[int, int], exponent: float | None = None, share: float = 1.0) -> None:
        """Args: shape (R, B), the exponent (None does not repeat actions), and the share of B that repeats actions."""
        self.action = np.zeros(shape, np.int64)  # the random action that is repeated
        self.left = np.zeros(shape, np.int64)  # number of repetitions still to come
        self._cumulative = None if exponent is None else _cumulative(exponent)
        self._repeating = np.diff(np.ceil(np.arange(shape[1] + 1) * share)) > 0  # [B]  evenly spaced from the first

    def actions(
        self,
        greedy: NDArray[np.int64],
        legal: NDArray[np.bool_],
        first: NDArray[np.bool_],
        epsilon: float | NDArray[np.float64],
        rngs: Sequence[np.random.Generator],
    ) -> NDArray[np.int64]:
        """Replace greedy actions by random ones, see :func:`epsilon_greedy`; `first` [R, B] marks new episodes."""
        if self._cumulative is None:
            return epsilon_greedy(greedy, legal, epsilon, rngs)
        # Stop repeating an action that has become illegal, or whose episode has ended.
        possible = np.take_along_axis(legal, self.action[..., None], axis=-1)[..., 0]
        repeats = (self.left > 0) & possible & ~first
        start, random = _draws(legal, epsilon, rngs)
        length = 1 + np.stack([self._cumulative.searchsorted(rng.random(greedy.shape[1])) for rng in rngs])
        length = np.where(self._repeating, length, 1)
        starts = ~repeats & start
        self.action[:] = np.where(starts, random, self.action)
        self.left[:] = np.where(starts, length - 1, np.where(repeats, self.left - 1, 0))
        return np.where(repeats | starts, self.action, greedy)

    def tensors(self) -> dict[str, Tensor]:
        """State tensors, to read and write in place; empty if actions are not repeated."""
        if self._cumulative is None:
            return {}
        return {"repeated": torch.from_numpy(self.action), "repetitions": torch.from_numpy(self.left)}


def _cumulative(exponent: float) -> NDArray[np.float64]:
    weights = np.arange(1, LONGEST + 1) ** -exponent
    return weights[:-1].cumsum() / weights.sum()


def epsilon_greedy(
    greedy: NDArray[np.int64],
    legal: NDArray[np.bool_],
    epsilon: float | NDArray[np.float64],
    rngs: Sequence[np.random.Generator],
) -> NDArray[np.int64]:
    """Replace greedy actions by uniformly random legal actions with probability ε.

    Args:
        greedy: [R, B].
        legal: [R, B, A].
        epsilon: ε, one for all, [B] or [R, B].
        rngs: one generator per run, so that runs are independent.
    """
    explores, random = _draws(legal, epsilon, rngs)
    return np.where(explores, random, greedy)


def _draws(
    legal: NDArray[np.bool_], epsilon: float | NDArray[np.float64], rngs: Sequence[np.random.Generator]
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Draw whether to explore, with probability ε, and a uniformly random legal action, each [R, B]."""
    _, batch, actions = legal.shape
    draws = np.stack([rng.random((batch, 1 + actions)) for rng in rngs])
    return draws[..., 0] < epsilon, np.where(legal, draws[..., 1:], -1.0).argmax(axis=-1)

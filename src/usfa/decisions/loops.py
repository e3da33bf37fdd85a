"""Break loops of an agent that acts by its observation alone.

Such an agent that returns to an observation in a deterministic environment does again what it did there, forever. The
value of that is known, whatever ψ says of it: with the rewards r_0 … r_{n-1} on the way,

    V = (Σ_k γ^k r_k) / (1 - γ^n).

An action that leads back is given up where another one promises more than V. Staying is not wrong in itself: it is the
optimal policy of some tasks, and then no other action promises more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Loops", "loop_value"]

RETURNS = 5
"""Times that an action has to lead back to an observation; chance does this rarely in a stochastic environment."""

_ROUNDING = 1e-4  # relative; values are in single precision


def loop_value(rewards: Sequence[float], gamma: float) -> float:
    """The return of going around a loop with these rewards forever; infinite without discount, unless they add to 0."""
    total = math.fsum(gamma**k * reward for k, reward in enumerate(rewards))
    if gamma < 1:
        return total / (1 - gamma ** len(rewards))
    return math.copysign(math.inf, total) if total else 0.0


@dataclass
class _State:
    """An observation of an episode."""

    visited: int  # step of the last visit
    q: NDArray[np.float32]  # [A]  values at the first visit
    returns: dict[int, list[float]] = field(default_factory=dict)  # values of the loops that each action led to


@dataclass
class _Episode:
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    states: dict[bytes, _State] = field(default_factory=dict)


class Loops:
    """The loops that an agent went through in the present episodes of B environments.

    Before every step call :meth:`legal`, after it :meth:`add`.

    Args:
        w: the tasks in units of the values of decisions, [B, D].
        gamma: γ of the agent.
    """

    def __init__(self, w: Tensor, gamma: float) -> None:
        self._w, self._gamma = w.double().numpy(), gamma
        self._episodes = [_Episode() for _ in self._w]
        self._keys: list[bytes] = []

    def legal(self, observation: NDArray[np.generic], legal: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Legal actions [B, A] without those that would continue a loop that is worth less than leaving it.

        Args:
            observation: the present one of each environment, [B, ...].
            legal: the legal actions, [B, A].
        """
        self._keys = [own.tobytes() for own in observation]
        better = legal
        for row, (episode, key) in enumerate(zip(self._episodes, self._keys, strict=True)):
            state = episode.states.get(key)
            if state is None:
                continue
            self._close_loop(episode, state)
            left = _abandoned(state, legal[row])
            if left:
                better = better.copy() if better is legal else better
                better[row, left] = False
        return better

    def _close_loop(self, episode: _Episode, state: _State) -> None:
        began, now = state.visited, len(episode.actions)
        if began < now:
            value = loop_value(episode.rewards[began:], self._gamma)
            state.returns.setdefault(episode.actions[began], []).append(value)
            state.visited = now

    def add(
        self,
        q: Tensor,
        action: NDArray[np.int64],
        phi: NDArray[np.floating],
        ended: NDArray[np.bool_],
    ) -> None:
        """Add a step.

        Args:
            q: values of the decision, [B, A].
            action: the actions taken, [B].
            phi: the features of the step, [B, D].
            ended: the episodes that it ended, [B].
        """
        rewards = np.einsum("bd,bd->b", phi, self._w)
        for row, (episode, key) in enumerate(zip(self._episodes, self._keys, strict=True)):
            if ended[row]:
                self._episodes[row] = _Episode()
                continue
            if key not in episode.states:
                episode.states[key] = _State(len(episode.actions), q[row].numpy().copy())
            episode.actions.append(int(action[row]))
            episode.rewards.append(float(rewards[row]))


def _abandoned(state: _State, legal: NDArray[np.bool_]) -> list[int]:
    """Actions that lead back, and that another legal action exceeds."""
    known = {a: sum(values) / len(values) for a, values in state.returns.items() if len(values) >= RETURNS and legal[a]}
    if not known:
        return []
    promised = np.where(legal, state.q, -np.inf)
    for action, value in known.items():
        promised[action] = min(promised[action], value)
    return [action for action, value in known.items() if _is_less(value, float(promised.max()))]


def _is_less(value: float, best: float) -> bool:
    """Whether a value is less than the best one, by more than rounding."""
    return value < best and not math.isclose(value, best, rel_tol=_ROUNDING)

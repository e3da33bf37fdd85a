"""Break loops of an agent.

In a deterministic environment, an agent that returns to an observation, with the same memory if it is recurrent,
repeats its actions forever. The value of this is known, even if ψ is wrong: with rewards r_0 … r_{n-1} on the way back,

    V = (Σ_k γ^k r_k) / (1 - γ^n).

An action that keeps leading back is avoided while another one promises clearly more than V. Staying can be the optimal
policy of a task; no other action promises more then.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from usfa.trajectory import Present

__all__ = ["Loops", "leaves_loops", "loop_value"]

RETURNS = 5
"""Times that an action has to lead back to an observation; chance does this rarely in a stochastic environment."""
RETURNS_WITH_MEMORY = 2
"""The same for recurrent agents, whose memory repeats only after several laps of a loop."""
MARGIN = 0.25
"""Least difference between the promise of another action and V, relative to the larger of them: a ψ that is somewhat
too optimistic promises more than the best loop is worth."""
_ROUNDING = 1e-6  # relative; rewards are in single precision
_GRAIN = 0.02  # to which entries of a memory are rounded before they are compared; those of an LSTM are about -1 to 1


def leaves_loops(rule: object) -> bool:
    """Whether loops are broken with a rule: not if it has a state, or only follows policies.

    Leaving a loop is an improvement on a policy.
    """
    return not getattr(rule, "remembers", False) and getattr(rule, "improves", True)


def loop_value(rewards: Sequence[float], gamma: float) -> float:
    """The return of repeating a loop with these rewards forever; infinite without discount, unless they add up to 0."""
    total = math.fsum(gamma**k * reward for k, reward in enumerate(rewards))
    if gamma < 1:
        return total / (1 - gamma ** len(rewards))
    size = math.fsum(map(abs, rewards))
    return math.copysign(math.inf, total) if abs(total) > _ROUNDING * size else 0.0


@dataclass
class _Returns:
    """The loops that began with one action in one state."""

    count: int = 0
    mean: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.mean = value if math.isinf(value) else self.mean + (value - self.mean) / self.count


@dataclass
class _State:
    """An observation of an episode, with the agent's memory."""

    visited: int  # step of the last visit
    q: NDArray[np.float32]  # [A]  values at the first visit
    returns: dict[int, _Returns] = field(default_factory=dict)  # by action


@dataclass
class _Episode:
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    states: dict[bytes, _State] = field(default_factory=dict)


class Loops:
    """The loops in the current episodes of B environments.

    Before every step call :meth:`avoid`, after it :meth:`add`.

    Args:
        w: the tasks in units of the values of decisions, [B, D].
        gamma: γ of the agent.
    """

    def __init__(self, w: Tensor, gamma: float) -> None:
        self._w, self._gamma = w.double().numpy(), gamma
        self._episodes = [_Episode() for _ in self._w]
        self._keys: list[bytes] = []

    def avoid(self, present: Present) -> NDArray[np.bool_]:
        """Record the current states; return the legal actions [B, A] without those that only continue a loop."""
        self._keys = _keys(present)
        enough = RETURNS_WITH_MEMORY if present.core_state else RETURNS
        legal = present.legal.numpy()
        useful = legal
        for row, (episode, key) in enumerate(zip(self._episodes, self._keys, strict=True)):
            state = episode.states.get(key)
            if state is None:
                continue
            self._close_loop(episode, state)
            avoided = _avoided(state, legal[row], enough)
            if avoided:
                useful = useful.copy() if useful is legal else useful
                useful[row, avoided] = False
        return useful

    def _close_loop(self, episode: _Episode, state: _State) -> None:
        began, now = state.visited, len(episode.actions)
        if began < now:
            value = loop_value(episode.rewards[began:], self._gamma)
            state.returns.setdefault(episode.actions[began], _Returns()).add(value)
            state.visited = now

    def add(self, q: Tensor, action: NDArray[np.int64], phi: NDArray[np.floating], ended: NDArray[np.bool_]) -> None:
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


def _keys(present: Present) -> list[bytes]:
    """A hash, for each environment, of everything that the actions of an agent depend on."""
    seen = [present.observation.numpy()]
    if present.core_state:
        first = present.first
        memory = [_rounded(x.masked_fill(first.view(-1, *[1] * (x.dim() - 1)), 0)) for x in present.core_state]
        seen += [first.numpy(), present.previous_action.masked_fill(first, 0).numpy(), *memory]
    return [_hash([array[row] for array in seen]) for row in range(len(present.first))]


def _rounded(state: Tensor) -> NDArray[np.generic]:
    """A core state as it is compared: whole numbers and truth values exactly."""
    if not state.is_floating_point():
        return state.numpy()
    return ((state.float() / _GRAIN).round() + 0.0).numpy()  # + 0: not -0


def _hash(arrays: Sequence[NDArray[np.generic]]) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for array in arrays:
        found.update(np.ascontiguousarray(array).data)
    return found.digest()


def _avoided(state: _State, legal: NDArray[np.bool_], enough: int) -> list[int]:
    """Legal actions that led back often enough, and that another one clearly exceeds."""
    known = {a: own.mean for a, own in state.returns.items() if own.count >= enough and legal[a]}
    if not known:
        return []
    promised = np.where(legal, state.q, -np.inf)
    for action, value in known.items():
        promised[action] = min(promised[action], value)
    best = float(promised.max())
    return [action for action, value in known.items() if _clearly_less(value, best)]


def _clearly_less(value: float, best: float) -> bool:
    return value < best and not math.isclose(value, best, rel_tol=MARGIN)

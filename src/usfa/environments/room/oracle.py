"""Policies that use the true state of a room: the oracle, a greedy and the random policy.

The oracle orders its next targets by the discounted value Σ w_i γ^{t_i} of collecting them at times t_i, and chooses
its action by simulating every action. Value iteration on a grid of 0.1 m gives the time to a single target from every
relative position, accurate to about one decision. Walks lead around walls and objects of negative value.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usfa.environments.room.planning import choose
from usfa.environments.room.routes import Paths, make_paths, times_to_collect
from usfa.environments.room.rules import ACTIONS, RoomRules
from usfa.environments.room.world import Plan, World, make_plan
from usfa.errors import InputError

__all__ = ["Greedy", "Oracle", "RandomPolicy", "StatePolicy", "random_policy"]

Array = NDArray[np.float64]
Actions = NDArray[np.int64]
_NAMES = [action.name for action in ACTIONS]
_FORWARD, _TURN_LEFT, _TURN_RIGHT = (_NAMES.index(name) for name in ("forward", "turn left", "turn right"))
_CURVE_LEFT, _CURVE_RIGHT = (_NAMES.index(name) for name in ("forward, turning left", "forward, turning right"))


class StatePolicy(Protocol):
    """A policy on the true state of B rooms, each with its own task."""

    def act(self, world: World, w: ArrayLike) -> Actions:
        """Choose an action for each room [B]; w is [D] or [B, D]."""
        ...


class Oracle:
    """Near-optimal collector for any task w; turns on the spot if no object has positive value.

    Args:
        rules: rules of the rooms.
        discount: γ per decision.
    """

    def __init__(self, rules: RoomRules, discount: float = 0.96) -> None:
        if not 0 < discount < 1:
            raise InputError(f"discount is {discount}; expected a number above 0 and below 1.")
        self.rules, self.discount = rules, discount
        self._plan: Plan = make_plan(rules)
        self._times = times_to_collect(rules)
        self._paths: Paths | None = None

    def act(self, world: World, w: ArrayLike) -> Actions:
        tasks = _tasks(world, w)
        shape = (world.objects.shape[1], world.collected.shape[1])
        if shape != (self.rules.objects, self.rules.types):  # compiled code does not check bounds
            raise InputError(
                f"The rooms have {shape[0]} objects of {shape[1]} types; the oracle's rules have "
                f"{self.rules.objects} of {self.rules.types}, expected the same."
            )
        if self._paths is None or len(self._paths.tasks) != len(tasks):
            self._paths = make_paths(self._plan, len(tasks), world.objects.shape[1])
        actions = np.full(len(tasks), _TURN_LEFT)
        choose(world, self._plan, tasks, self._times, self._paths, self.discount, actions)
        return actions


class Greedy:
    """Policy that walks straight to the nearest object of positive value, over any object in the way."""

    def __init__(self, rules: RoomRules) -> None:
        self._kinds = np.repeat(np.arange(rules.types), rules.objects_per_type)
        self._turn = rules.turn

    def act(self, world: World, w: ArrayLike) -> Actions:
        value = _tasks(world, w)[:, self._kinds]
        away = world.objects - world.pose[:, None, :2]
        distance = np.where((value > 0) & world.alive, np.hypot(away[..., 0], away[..., 1]), np.inf)
        nearest = distance.argmin(axis=1)[:, None]
        x, y = (np.take_along_axis(away[..., axis], nearest, axis=1)[:, 0] for axis in (0, 1))
        left = (np.arctan2(y, x) - world.pose[:, 2] + np.pi) % (2 * np.pi) - np.pi
        conditions = [~np.isfinite(distance.min(axis=1)), abs(left) < self._turn / 2, abs(left) > np.pi / 4]
        turn = np.where(left > 0, _TURN_LEFT, _TURN_RIGHT)
        curve = np.where(left > 0, _CURVE_LEFT, _CURVE_RIGHT)
        return np.select(conditions, [np.full_like(turn, _TURN_LEFT), np.full_like(turn, _FORWARD), turn], curve)


class RandomPolicy:
    """Policy that takes every action with the same probability."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def act(self, world: World, w: ArrayLike) -> Actions:
        return self._rng.integers(len(ACTIONS), size=len(world.steps))


def random_policy(seed: int) -> RandomPolicy:
    return RandomPolicy(np.random.default_rng(seed))


def _tasks(world: World, w: ArrayLike) -> Array:
    rooms, features = world.collected.shape
    tasks = np.asarray(w, np.float64)
    if tasks.shape not in ((features,), (rooms, features)) or not np.isfinite(tasks).all():
        raise InputError(f"The tasks have shape {tasks.shape}; expected [{features}] or [{rooms}, {features}], finite.")
    # A copy in rows: numba would compile everything again for read-only views, and for columns.
    return np.array(np.broadcast_to(tasks, (rooms, features)), order="C")

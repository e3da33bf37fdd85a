"""How many decisions it takes to collect a single object, from every relative place: value iteration on a grid."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from usfa.compiling import compiled
from usfa.environments.room.rules import ACTIONS, SUBSTEPS, RoomRules

__all__ = ["time_to", "times_to_collect"]

_TICK = 0.1  # metres between the entries of the table
_FARTHEST = 15.0  # metres that it covers; beyond it one walks straight


def times_to_collect(rules: RoomRules) -> NDArray[np.float64]:
    """T(p) = 1 + min_a T(p after a), and 0 within reach, for p = [ahead, aside]; the left is like the right."""
    moves = np.array([[a.forward * rules.speed, a.strafe * rules.speed, a.turn * rules.turn] for a in ACTIONS])
    half = math.ceil(min(rules.side * 1.45, _FARTHEST) / _TICK)
    times = np.zeros((2 * half + 1, half + 1))
    _iterate(times, moves / SUBSTEPS, rules.reach)
    return times


@compiled(inner=True)
def time_to(times: NDArray[np.float64], ahead: float, aside: float) -> float:
    """Decisions until an object `ahead` and `aside` (either side) of the agent is collected."""
    half = times.shape[1] - 1
    u, v = ahead / _TICK, abs(aside) / _TICK
    far = max(abs(u), v)
    if far >= half - 1:  # beyond the table: as at its edge, and the rest straight
        inside = (half - 1.001) / far
        return _time_inside(times, u * inside, v * inside) * (far / (half - 1.001))
    return _time_inside(times, u, v)


@compiled(inner=True)
def _time_inside(times: NDArray[np.float64], u: float, v: float) -> float:
    u += times.shape[1] - 1
    i, j = int(u), int(v)
    fu, fv = u - i, v - j
    near = times[i, j] * (1 - fv) + times[i, j + 1] * fv
    return near * (1 - fu) + (times[i + 1, j] * (1 - fv) + times[i + 1, j + 1] * fv) * fu


@compiled()
def _iterate(times: NDArray[np.float64], moves: NDArray[np.float64], reach: float) -> None:
    half = times.shape[1] - 1
    for _ in range(1000):
        change = 0.0
        for i in range(2 * half + 1):
            for j in range(half + 1):
                best = 1e9
                ahead0, aside0 = (i - half) * _TICK, j * _TICK
                if ahead0 * ahead0 + aside0 * aside0 <= reach * reach:
                    continue
                for action in range(moves.shape[0]):
                    ahead, aside, spent = ahead0, aside0, 0.0
                    cos, sin = math.cos(moves[action, 2]), math.sin(moves[action, 2])
                    for _frame in range(SUBSTEPS):  # `aside` is to the left; turning left moves the world to the right
                        ahead, aside = ahead * cos + aside * sin, aside * cos - ahead * sin
                        ahead -= moves[action, 0]
                        aside += moves[action, 1]
                        spent += 1.0 / SUBSTEPS
                        if ahead * ahead + aside * aside <= reach * reach:
                            break
                    else:
                        spent += time_to(times, ahead, aside)
                    best = min(best, spent)
                change = max(change, abs(best - times[i, j]))
                times[i, j] = best
        if change < 1e-3:
            return

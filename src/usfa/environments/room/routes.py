"""Times and distances for the oracle: decisions to collect one object, and walks around walls and obstacles."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usfa.compiling import compiled
from usfa.environments.room.rules import ACTIONS, SUBSTEPS, RoomRules, wall_distance
from usfa.environments.room.world import Plan

__all__ = ["NEVER", "Paths", "approach", "fill_field", "make_paths", "time_to", "times_to_collect", "way_clear"]

NEVER = 1e6  # metres or decisions to anything that cannot be reached
_TICK = 0.1  # metres between the entries of the table of times
_FARTHEST = 15.0  # metres that the table covers
_WINDOW = 6  # cells around the agent where a detour may begin


# --- decisions until an object is collected, without obstacles ---


def times_to_collect(rules: RoomRules) -> NDArray[np.float64]:
    """Value iteration for T(p) = 1 + min_a T(p after a), 0 within reach; p = [ahead, aside], sides are symmetric.

    Read-only, because oracles for the same room share the table.
    """
    half = math.ceil(min(rules.side * 1.45, _FARTHEST) / _TICK)
    return _times(half, rules.speed, rules.turn, rules.reach)


@lru_cache(maxsize=8)  # takes most of a second
def _times(half: int, speed: float, turn: float, reach: float) -> NDArray[np.float64]:
    moves = np.array([[a.forward * speed, a.strafe * speed, a.turn * turn] for a in ACTIONS])
    times = np.zeros((2 * half + 1, half + 1))
    _iterate(times, moves / SUBSTEPS, reach)
    times.flags.writeable = False
    return times


@compiled(inner=True)
def time_to(times: NDArray[np.float64], ahead: float, aside: float) -> float:
    """Decisions until an object at distances `ahead` and `aside` (either side) is collected."""
    half = times.shape[1] - 1
    u, v = ahead / _TICK, abs(aside) / _TICK
    far = max(abs(u), v)
    if far >= half - 1:  # beyond the table: its edge, scaled by the distance
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


# --- walking distances around obstacles ---


class Paths(NamedTuple):
    """Walking distances in each room, valid until an object moves."""

    open_cells: NDArray[np.bool_]  # [G, G]        clear of walls
    spacing: float  # metres between cells
    fields: NDArray[np.float32]  # [B, K, G, G]  to object k around obstacles, for objects worth collecting
    between: NDArray[np.float64]  # [B, K, K]     from object to object, where the straight way is not clear; else 0
    seen: NDArray[np.float64]  # [B, K, 2]     places of the objects that the distances hold for
    tasks: NDArray[np.float64]  # [B, D]        tasks that the distances hold for; NaN at first
    patience: NDArray[np.float64]  # [B]           decisions left until the target is given up
    given_up: NDArray[np.bool_]  # [B, K]        targets that took too long; cleared when an object moves


def make_paths(plan: Plan, rooms: int, objects: int) -> Paths:
    cells = int(np.clip(plan.side / 0.25, 16, 64))
    ticks = (np.arange(cells) + 0.5) * plan.side / cells
    lattice = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    return Paths(
        open_cells=(wall_distance(plan.walls, plan.side, lattice) >= plan.radius).reshape(cells, cells),
        spacing=plan.side / cells,
        fields=np.zeros((rooms, objects, cells, cells), np.float32),
        between=np.zeros((rooms, objects, objects)),
        seen=np.full((rooms, objects, 2), np.nan),
        tasks=np.full((rooms, int(plan.types.max()) + 1), np.nan),
        patience=np.zeros(rooms),
        given_up=np.zeros((rooms, objects), np.bool_),
    )


@compiled(inner=True)
def way_clear(obstacles: NDArray[np.float64], keep: float, x: float, y: float, to_x: float, to_y: float) -> bool:
    """Whether a straight walk keeps its distance from all obstacles ahead."""
    dx, dy = to_x - x, to_y - y
    length = max(dx * dx + dy * dy, 1e-12)
    for index in range(len(obstacles)):
        ox, oy = obstacles[index, 0] - x, obstacles[index, 1] - y
        along = (ox * dx + oy * dy) / length
        if along <= 0:
            continue
        along = min(along, 1.0)
        ex, ey = ox - along * dx, oy - along * dy
        # From within the distance, the agent may pass but not come closer.
        if ex * ex + ey * ey < min(keep * keep, 0.995 * (ox * ox + oy * oy)):
            return False
    return True


@compiled(inner=True)
def _walls_clear(open_cells: NDArray[np.bool_], spacing: float, x: float, y: float, to_x: float, to_y: float) -> bool:
    """Whether a straight walk stays in open cells; the first may be closed, as the agent may stand beside a wall."""
    away = math.hypot(to_x - x, to_y - y)
    steps = int(away / (0.5 * spacing)) + 1
    last = open_cells.shape[0] - 1
    for step in range(1, steps + 1):
        share = step / steps
        if share * away < 1.5 * spacing:
            continue
        column = min(max(int((x + share * (to_x - x)) / spacing), 0), last)
        row = min(max(int((y + share * (to_y - y)) / spacing), 0), last)
        if not open_cells[row, column]:
            return False
    return True


@compiled(inner=True)
def _spread(field: NDArray[np.float32], spacing: float) -> None:
    """Fill in shortest distances from the cells that are 0, by sweeps; cells below 0 are closed."""
    cells = field.shape[0]
    for sweep in range(60):
        changed = False
        for a in range(cells):
            row = a if sweep % 2 == 0 else cells - 1 - a
            for b in range(cells):
                column = b if (sweep // 2) % 2 == 0 else cells - 1 - b
                if field[row, column] < 0:
                    continue
                best = field[row, column]
                for down in range(max(row - 1, 0), min(row + 2, cells)):
                    for right in range(max(column - 1, 0), min(column + 2, cells)):
                        if field[down, right] >= 0:
                            diagonal = down != row and right != column
                            best = min(best, field[down, right] + np.float32(spacing * (1.41421 if diagonal else 1.0)))
                if best < field[row, column] - np.float32(1e-6):
                    field[row, column] = best
                    changed = True
        if not changed and sweep >= 3:
            return


@compiled(inner=True)
def fill_field(
    field: NDArray[np.float32],
    open_cells: NDArray[np.bool_],
    obstacles: NDArray[np.float64],
    keep: float,
    reach: float,
    spacing: float,
    x: float,
    y: float,
) -> None:
    """Distance from each cell to within reach of the object at (x, y); -1 in walls and near obstacles."""
    cells = field.shape[0]
    for row in range(cells):
        for column in range(cells):
            cx, cy = (column + 0.5) * spacing, (row + 0.5) * spacing
            blocked = not open_cells[row, column]
            for index in range(len(obstacles)):
                ox, oy = obstacles[index, 0] - cx, obstacles[index, 1] - cy
                blocked = blocked or ox * ox + oy * oy < keep * keep
            away = math.hypot(x - cx, y - cy)
            if blocked:
                field[row, column] = np.float32(-1)
            elif away <= reach:
                field[row, column] = np.float32(0)
            else:
                field[row, column] = np.float32(NEVER)
    _spread(field, spacing)


@compiled(inner=True)
def approach(
    field: NDArray[np.float32],
    open_cells: NDArray[np.bool_],
    obstacles: NDArray[np.float64],
    keep: float,
    reach: float,
    spacing: float,
    x: float,
    y: float,
    to_x: float,
    to_y: float,
) -> tuple[float, float, float]:
    """Length of the walk to an object's centre, and the direction in which it begins."""
    away = max(math.hypot(to_x - x, to_y - y), 1e-9)
    ux, uy = (to_x - x) / away, (to_y - y) / away
    stop = max(away - reach, 0.0)
    end_x, end_y = x + stop * ux, y + stop * uy
    if way_clear(obstacles, keep, x, y, end_x, end_y) and _walls_clear(open_cells, spacing, x, y, end_x, end_y):
        return away, ux, uy
    # Choose the cell where the detour begins; near ones only as a fallback, as their directions are coarse.
    best = NEVER
    for least in (2.5 * spacing, 1e-6):
        for row in range(max(int(y / spacing) - _WINDOW, 0), min(int(y / spacing) + _WINDOW + 1, field.shape[0])):
            for column in range(
                max(int(x / spacing) - _WINDOW, 0), min(int(x / spacing) + _WINDOW + 1, field.shape[1])
            ):
                if field[row, column] < 0 or field[row, column] >= NEVER:
                    continue
                cx, cy = (column + 0.5) * spacing, (row + 0.5) * spacing
                leg = math.hypot(cx - x, cy - y)
                if leg < least or leg + field[row, column] + reach >= best:
                    continue
                if way_clear(obstacles, keep, x, y, cx, cy) and _walls_clear(open_cells, spacing, x, y, cx, cy):
                    best, ux, uy = leg + field[row, column] + reach, (cx - x) / leg, (cy - y) / leg
        if best < NEVER:
            break
    return best, ux, uy

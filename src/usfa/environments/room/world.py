"""State of B rooms as arrays, and their dynamics: the same code for one room and for thousands.

The floor spans [0, side]², x to the east and y to the north; a heading of 0 looks east and grows counter-clockwise.
Every room has its own random numbers (SplitMix64), so it does not depend on the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usfa.compiling import compiled
from usfa.environments.room.rules import ACTIONS, SUBSTEPS, RoomRules, free_places, wall_cells

__all__ = [
    "Outcome",
    "Plan",
    "World",
    "advance",
    "make_outcome",
    "make_plan",
    "make_world",
    "start",
    "walk",
]

_TRIES = 64  # random places tried before the farthest is taken
_TOUCH = 1e-9  # metres of overlap that count as rounding


class Plan(NamedTuple):
    """Constants of a room: the rules as numbers and arrays."""

    walls: NDArray[np.bool_]  # [n, n]  [y, x] from the south-west
    places: NDArray[np.float64]  # [P, 2]  some places where objects may lie
    moves: NDArray[np.float64]  # [A, 3]  metres forward, metres to the right, radians to the left, per frame
    types: NDArray[np.int64]  # [K]     the type of each object
    side: float
    cell: float
    radius: float
    reach: float
    clearance: float
    wall_distance: float
    decisions: int
    respawn: bool


class World(NamedTuple):
    """State of B rooms: everything that the next frame depends on."""

    pose: NDArray[np.float64]  # [B, 3]     x, y, heading
    objects: NDArray[np.float64]  # [B, K, 2]
    alive: NDArray[np.bool_]  # [B, K]     False once collected, in a room where objects do not come back
    steps: NDArray[np.int64]  # [B]        decisions since the episode began
    random: NDArray[np.uint64]  # [B]
    collected: NDArray[np.float64]  # [B, D]     Σφ of the episode
    truncated: NDArray[np.bool_]  # [B]        the last observation is shown; the next step only resets


class Outcome(NamedTuple):
    """Result of a step, written in place."""

    phi: NDArray[np.float32]  # [B, D]
    first: NDArray[np.bool_]  # [B]
    real: NDArray[np.bool_]  # [B]
    ended: NDArray[np.bool_]  # [B]
    episode_phi: NDArray[np.float64]  # [B, D]  NaN where no episode ended


def make_plan(rules: RoomRules) -> Plan:
    walls = wall_cells(rules)
    moves = [[a.forward * rules.speed, a.strafe * rules.speed, a.turn * rules.turn] for a in ACTIONS]
    return Plan(
        walls=walls,
        places=free_places(rules, walls),
        moves=np.array(moves) / SUBSTEPS,
        types=np.repeat(np.arange(rules.types), rules.objects_per_type),
        side=float(rules.side),
        cell=rules.side / len(walls),
        radius=float(rules.agent_radius),
        reach=float(rules.reach),
        clearance=float(rules.clearance),
        wall_distance=float(rules.wall_distance),
        decisions=int(rules.decisions),
        respawn=bool(rules.respawn),
    )


def make_world(rules: RoomRules, size: int) -> World:
    return World(
        pose=np.zeros((size, 3)),
        objects=np.zeros((size, rules.objects, 2)),
        alive=np.ones((size, rules.objects), np.bool_),
        steps=np.zeros(size, np.int64),
        random=np.zeros(size, np.uint64),
        collected=np.zeros((size, rules.types)),
        truncated=np.zeros(size, np.bool_),
    )


def make_outcome(size: int, features: int) -> Outcome:
    return Outcome(
        phi=np.zeros((size, features), np.float32),
        first=np.ones(size, np.bool_),
        real=np.ones(size, np.bool_),
        ended=np.zeros(size, np.bool_),
        episode_phi=np.full((size, features), np.nan),
    )


def start(world: World, plan: Plan, seeds: Sequence[int]) -> None:
    """Begin an episode in every room; a room depends on its own seed only."""
    world.random[:] = [int(seed) % 2**64 for seed in seeds]
    world.truncated[:] = True
    rooms, features = world.collected.shape
    advance(world, plan, np.zeros(rooms, np.int64), make_outcome(rooms, features))


# --- random numbers ---


@compiled(inner=True)
def uniform(random: NDArray[np.uint64], room: int) -> float:
    """A number in [0, 1) by SplitMix64 (Steele et al. 2014)."""
    random[room] += np.uint64(0x9E3779B97F4A7C15)
    z = random[room]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(np.int64(z >> np.uint64(11))) * (1.0 / 9007199254740992.0)


# --- walls ---
# Functions that run often take single arrays instead of records, because counting references to all arrays of a record
# at every call costs more than the work.


@compiled(inner=True)
def _clear_of_walls(walls: NDArray[np.bool_], cell: float, x: float, y: float, distance: float) -> bool:
    n = walls.shape[0]
    if x < distance or y < distance or x > n * cell - distance or y > n * cell - distance:
        return False
    if n == 1:
        return True
    for row in range(max(0, int((y - distance) / cell)), min(n - 1, int((y + distance) / cell)) + 1):
        for column in range(max(0, int((x - distance) / cell)), min(n - 1, int((x + distance) / cell)) + 1):
            if walls[row, column]:
                dx = x - min(max(x, column * cell), (column + 1) * cell)
                dy = y - min(max(y, row * cell), (row + 1) * cell)
                if dx * dx + dy * dy < distance * distance:
                    return False
    return True


@compiled(inner=True)
def _pushed_out(walls: NDArray[np.bool_], cell: float, x: float, y: float, radius: float) -> tuple[float, float]:
    """Move the agent's disc once out of each wall that it overlaps."""
    n = walls.shape[0]
    for row in range(max(0, int((y - radius) / cell)), min(n - 1, int((y + radius) / cell)) + 1):
        for column in range(max(0, int((x - radius) / cell)), min(n - 1, int((x + radius) / cell)) + 1):
            if walls[row, column]:
                dx = x - min(max(x, column * cell), (column + 1) * cell)
                dy = y - min(max(y, row * cell), (row + 1) * cell)
                distance = math.sqrt(dx * dx + dy * dy)
                if 0 < distance < radius:
                    x += dx * (radius / distance - 1)
                    y += dy * (radius / distance - 1)
    far = n * cell - radius
    return min(max(x, radius), far), min(max(y, radius), far)


@compiled(inner=True)
def walk(
    walls: NDArray[np.bool_], cell: float, radius: float, x: float, y: float, dx: float, dy: float
) -> tuple[float, float]:
    """Take a small step, sliding along walls; stay if nothing fits."""
    new_x, new_y = x + dx, y + dy
    if not _clear_of_walls(walls, cell, new_x, new_y, radius):
        for _ in range(3):
            new_x, new_y = _pushed_out(walls, cell, new_x, new_y, radius)
        if not _clear_of_walls(walls, cell, new_x, new_y, radius - _TOUCH):
            return x, y
    return new_x, new_y


# --- objects ---


@compiled(inner=True)
def _free_place(world: World, plan: Plan, room: int, clearance: float) -> tuple[float, float]:
    """Draw a free place at least `clearance` from the agent, or the farthest of those tried."""
    low, span = plan.wall_distance, plan.side - 2 * plan.wall_distance
    farthest, best_x, best_y = -1.0, 0.0, 0.0
    for _ in range(_TRIES):
        x = low + span * uniform(world.random, room)
        y = low + span * uniform(world.random, room)
        if _clear_of_walls(plan.walls, plan.cell, x, y, plan.wall_distance):
            away = math.hypot(x - world.pose[room, 0], y - world.pose[room, 1])
            if away > farthest:
                farthest, best_x, best_y = away, x, y
            if away >= clearance:
                return x, y
    for _ in range(_TRIES):  # if few places are free, draw from the list
        chosen = int(uniform(world.random, room) * len(plan.places))
        x, y = plan.places[chosen, 0], plan.places[chosen, 1]
        away = math.hypot(x - world.pose[room, 0], y - world.pose[room, 1])
        if away > farthest:
            farthest, best_x, best_y = away, x, y
        if away >= clearance:
            break
    return best_x, best_y


@compiled(inner=True)
def _take(world: World, plan: Plan, room: int, index: int) -> None:
    """Move a collected object elsewhere, or remove it."""
    if plan.respawn:
        x, y = _free_place(world, plan, room, plan.clearance)
        world.objects[room, index, 0], world.objects[room, index, 1] = x, y
    else:
        world.alive[room, index] = False


# --- episodes ---


@compiled(inner=True)
def _start_one(world: World, plan: Plan, room: int) -> None:
    x, y = _free_place(world, plan, room, 0.0)
    world.pose[room, 0], world.pose[room, 1] = x, y
    world.pose[room, 2] = 2 * math.pi * uniform(world.random, room)
    for index in range(world.objects.shape[1]):
        world.alive[room, index] = True
        x, y = _free_place(world, plan, room, plan.clearance)
        world.objects[room, index, 0], world.objects[room, index, 1] = x, y
    world.steps[room] = 0


@compiled(inner=True)
def _decide(world: World, plan: Plan, room: int, action: int, phi: NDArray[np.float32]) -> None:
    """Turn, walk and collect for the frames of one decision."""
    pose, objects, alive = world.pose, world.objects, world.alive
    forward, right, turn = plan.moves[action, 0], plan.moves[action, 1], plan.moves[action, 2]
    walls, cell, radius, reach = plan.walls, plan.cell, plan.radius, plan.reach
    x, y, cos, sin = pose[room, 0], pose[room, 1], math.cos(pose[room, 2]), math.sin(pose[room, 2])
    for _ in range(SUBSTEPS):
        if turn != 0:
            pose[room, 2] = (pose[room, 2] + turn) % (2 * math.pi)
            cos, sin = math.cos(pose[room, 2]), math.sin(pose[room, 2])
        if forward == 0 and right == 0:
            continue
        x, y = walk(walls, cell, radius, x, y, forward * cos + right * sin, forward * sin - right * cos)
        pose[room, 0], pose[room, 1] = x, y
        for index in range(objects.shape[1]):
            dx, dy = objects[room, index, 0] - x, objects[room, index, 1] - y
            if dx * dx + dy * dy <= reach * reach and alive[room, index]:
                phi[room, plan.types[index]] += np.float32(1)
                _take(world, plan, room, index)


@compiled()
def advance(world: World, plan: Plan, action: NDArray[np.int64], outcome: Outcome) -> bool:
    """Take one decision in every room, or begin a new episode where the last was truncated.

    Returns False without any effect if an action does not exist.
    """
    for room in range(outcome.phi.shape[0]):
        if action[room] < 0 or action[room] >= plan.moves.shape[0]:
            return False
    # Loops over features, because assigning to slices would triple the time to compile.
    features = outcome.phi.shape[1]
    for room in range(outcome.phi.shape[0]):
        fresh = world.truncated[room]
        outcome.real[room] = not fresh
        outcome.first[room] = fresh
        for feature in range(features):
            outcome.phi[room, feature] = 0.0
        if fresh:
            _start_one(world, plan, room)
        else:
            _decide(world, plan, room, action[room], outcome.phi)
            world.steps[room] += 1
        ended = world.steps[room] >= plan.decisions
        world.truncated[room] = ended
        outcome.ended[room] = ended
        for feature in range(features):
            before = 0.0 if fresh else world.collected[room, feature]
            world.collected[room, feature] = before + outcome.phi[room, feature]
            outcome.episode_phi[room, feature] = world.collected[room, feature] if ended else np.nan
    return True

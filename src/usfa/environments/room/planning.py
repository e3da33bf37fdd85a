"""How the oracle decides: which targets in which order, and which action leads there."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from usfa.environments.room.compiling import compiled
from usfa.environments.room.paths import NEVER, Paths, approach, fill_field
from usfa.environments.room.rules import SUBSTEPS
from usfa.environments.room.times import time_to
from usfa.environments.room.world import Plan, World, walk

__all__ = ["choose"]

_MARGIN = 0.04  # metres that are kept between the agent's reach and an obstacle
_CANDIDATES = 8  # targets that are ordered
_NEARBY = 1.5  # metres
_GRACE = 12  # decisions beyond twice the expected time before a target is given up
_HOLD = 3  # an action is tried for one decision and for this many

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@compiled(inner=True)
def _leg(
    times: Floats, between: Floats, objects: Floats, source: int, target: int, ux: float, uy: float, reach: float
) -> tuple[float, float, float]:
    """How long from one collected object, met in direction (ux, uy), to another, and the direction there."""
    dx = objects[target, 0] - objects[source, 0] + reach * ux
    dy = objects[target, 1] - objects[source, 1] + reach * uy
    away = max(math.hypot(dx, dy), 1e-9)
    dx, dy = dx / away, dy / away
    length = max(away, between[source, target])
    return time_to(times, length * (dx * ux + dy * uy), length * (dy * ux - dx * uy)), dx, dy


@compiled(inner=True)
def _continue(
    times: Floats,
    between: Floats,
    objects: Floats,
    values: Floats,
    candidates: Integers,
    directions: Floats,
    taken: NDArray[np.bool_],
    reach: float,
    discount: float,
    after: Floats,
) -> None:
    """after[a]: the best that the next two targets add once a is collected, max over b, c of w_b γ^t + w_c γ^t'."""
    for a in range(len(candidates)):
        after[a] = 0.0
        for b in range(len(candidates)):
            if a == b or taken[candidates[b]] or taken[candidates[a]]:
                continue
            time, ux, uy = _leg(
                times, between, objects, candidates[a], candidates[b], directions[a, 0], directions[a, 1], reach
            )
            then = 0.0
            for c in range(len(candidates)):
                if c != a and c != b and not taken[candidates[c]]:
                    more, _, _ = _leg(times, between, objects, candidates[b], candidates[c], ux, uy, reach)
                    then = max(then, values[candidates[c]] * discount**more)
            after[a] = max(after[a], discount**time * (values[candidates[b]] + then))


@compiled(inner=True)
def _refresh(world: World, plan: Plan, paths: Paths, room: int, values: Floats, obstacles: Floats) -> None:
    """Distances around the obstacles, found again after an object has moved."""
    field, objects, between = paths.fields[room], world.objects[room], paths.between[room]
    keep = plan.reach + _MARGIN
    for target in range(len(values)):
        if values[target] <= 0 or not world.alive[room, target]:
            continue
        x, y = objects[target, 0], objects[target, 1]
        fill_field(field[target], paths.open_cells, obstacles, keep, plan.reach, paths.spacing, x, y)
        for source in range(len(values)):
            between[source, target] = 0.0
            if values[source] > 0 and source != target:
                from_x, from_y = objects[source, 0], objects[source, 1]
                length, _, _ = approach(
                    field[target], paths.open_cells, obstacles, keep, plan.reach, paths.spacing, from_x, from_y, x, y
                )
                between[source, target] = length


@compiled(inner=True)
def _try(
    world: World,
    plan: Plan,
    room: int,
    action: int,
    hold: int,
    values: Floats,
    discount: float,
    pose: Floats,
    taken: NDArray[np.bool_],
) -> tuple[float, bool]:
    """What an action brings when it is held, by the room's own rules; pose and taken are changed."""
    forward, right, turn = plan.moves[action, 0], plan.moves[action, 1], plan.moves[action, 2]
    objects, alive, reach = world.objects, world.alive, plan.reach
    gain, took = 0.0, False
    for frame in range(hold * SUBSTEPS):
        pose[2] += turn
        if forward == 0 and right == 0:
            continue
        cos, sin = math.cos(pose[2]), math.sin(pose[2])
        dx, dy = forward * cos + right * sin, forward * sin - right * cos
        x, y = walk(plan.walls, plan.cell, plan.radius, pose[0], pose[1], dx, dy)
        pose[0], pose[1] = x, y
        for index in range(len(values)):
            if values[index] == 0 or taken[index] or not alive[room, index]:
                continue
            ox, oy = objects[room, index, 0] - x, objects[room, index, 1] - y
            if ox * ox + oy * oy <= reach * reach:
                gain += values[index] * discount ** ((frame + 1) / SUBSTEPS)
                taken[index] = True
                took = True
    return gain, took


@compiled(inner=True)
def _changed(world: World, paths: Paths, room: int, task: Floats) -> bool:
    """Whether the paths of a room were found for another task or for other places; what is now is kept."""
    changed = False
    for feature in range(len(task)):
        changed = changed or paths.tasks[room, feature] != task[feature]
        paths.tasks[room, feature] = task[feature]
    for index in range(world.objects.shape[1]):
        for axis in range(2):
            place = world.objects[room, index, axis] if world.alive[room, index] else -1.0
            changed = changed or paths.seen[room, index, axis] != place
            paths.seen[room, index, axis] = place
    return changed


@compiled(inner=True)
def _arrivals(
    world: World,
    plan: Plan,
    paths: Paths,
    times: Floats,
    room: int,
    pose: Floats,
    obstacles: Floats,
    hindered: bool,
    chosen: Integers,
    arrival: Floats,
) -> None:
    """arrival[a] = when the target chosen[a] is collected at the soonest, and the direction in which one sets out."""
    cos, sin = math.cos(pose[2]), math.sin(pose[2])
    for a in range(len(chosen)):
        to_x, to_y = world.objects[room, chosen[a], 0], world.objects[room, chosen[a], 1]
        length, ux, uy = math.hypot(to_x - pose[0], to_y - pose[1]), 0.0, 0.0
        if hindered:
            length, ux, uy = approach(
                paths.fields[room, chosen[a]],
                paths.open_cells,
                obstacles,
                plan.reach + _MARGIN,
                plan.reach,
                paths.spacing,
                pose[0],
                pose[1],
                to_x,
                to_y,
            )
        elif length > 0:
            ux, uy = (to_x - pose[0]) / length, (to_y - pose[1]) / length
        arrival[a, 0] = NEVER
        if length < NEVER:
            arrival[a, 0] = time_to(times, length * (ux * cos + uy * sin), length * (uy * cos - ux * sin))
        arrival[a, 1], arrival[a, 2] = ux, uy


@compiled(inner=True)
def _rank(chosen: Integers, arrival: Floats, values: Floats, discount: float, few: int) -> None:
    """The most promising targets come first."""
    for place in range(few):
        best = place
        for rival in range(place + 1, len(chosen)):
            mine = values[chosen[best]] * discount ** arrival[best, 0]
            if values[chosen[rival]] * discount ** arrival[rival, 0] > mine:
                best = rival
        chosen[place], chosen[best] = chosen[best], chosen[place]
        for field in range(3):
            arrival[place, field], arrival[best, field] = arrival[best, field], arrival[place, field]


@compiled(inner=True)
def _crowded(pose: Floats, obstacles: Floats, objects: Floats, chosen: Integers) -> bool:
    """Whether an obstacle and a target are both so near that single actions do not show the way."""
    for index in range(len(obstacles)):
        if math.hypot(obstacles[index, 0] - pose[0], obstacles[index, 1] - pose[1]) < _NEARBY:
            for a in range(len(chosen)):
                if math.hypot(objects[chosen[a], 0] - pose[0], objects[chosen[a], 1] - pose[1]) < _NEARBY:
                    return True
    return False


@compiled()
def choose(
    world: World, plan: Plan, tasks: Floats, times: Floats, paths: Paths, discount: float, actions: Integers
) -> None:
    """The oracle's action in every room where something is to be gained; elsewhere `actions` stays as it is."""
    count, moves = world.objects.shape[1], plan.moves.shape[0]
    values, pose, start, taken = np.zeros(count), np.zeros(3), np.zeros(3), np.zeros(count, np.bool_)
    everything, arrivals = np.zeros(count, np.int64), np.zeros((count, 3))
    arrival, after, other = np.zeros((_CANDIDATES, 3)), np.zeros(_CANDIDATES), np.zeros(_CANDIDATES)
    harmful = np.zeros((count, 2))
    for room in range(len(actions)):
        if _changed(world, paths, room, tasks[room]):
            fresh = True
            paths.given_up[room] = False
        else:
            fresh = False
        targets, dangers = 0, 0
        for index in range(count):
            values[index] = tasks[room, plan.types[index]] if world.alive[room, index] else 0.0
            if values[index] > 0 and not paths.given_up[room, index]:
                everything[targets] = index
                targets += 1
            elif values[index] < 0:
                harmful[dangers, 0], harmful[dangers, 1] = world.objects[room, index, 0], world.objects[room, index, 1]
                dangers += 1
        if targets == 0:
            paths.given_up[room] = False
            continue
        obstacles, hindered = harmful[:dangers], dangers > 0 or plan.walls.shape[0] > 1
        if fresh:
            paths.between[room] = 0.0
            if hindered:
                _refresh(world, plan, paths, room, values, obstacles)
        start[0], start[1], start[2] = world.pose[room, 0], world.pose[room, 1], world.pose[room, 2]
        _arrivals(world, plan, paths, times, room, start, obstacles, hindered, everything[:targets], arrivals)
        few = min(targets, _CANDIDATES)
        _rank(everything[:targets], arrivals[:targets], values, discount, few)
        paths.patience[room] -= 1
        if fresh:
            paths.patience[room] = 2 * arrivals[0, 0] + _GRACE
        elif paths.patience[room] < 0:
            paths.given_up[room, everything[0]] = True
            paths.patience[room] = _GRACE + 2 * (arrivals[1, 0] if targets > 1 else 0.0)
        chosen, between, objects = everything[:few], paths.between[room], world.objects[room]
        taken[:] = False
        _continue(times, between, objects, values, chosen, arrivals[:few, 1:], taken, plan.reach, discount, after)
        highest = -1e9
        hard = _crowded(start, obstacles, objects, chosen) or (hindered and paths.patience[room] < _GRACE)
        plans = moves * 2 * (1 + (moves * 2 if hard else 0))
        for number in range(plans):
            # A plan is an action held once or longer, and, where it is hard, a second one.
            first, second = number % (2 * moves), number // (2 * moves) - 1
            hold = 1 if first < moves else _HOLD
            pose[0], pose[1], pose[2] = start[0], start[1], start[2]
            taken[:] = False
            gain, took = _try(world, plan, room, first % moves, hold, values, discount, pose, taken)
            if second >= 0:
                longer = 1 if second < moves else _HOLD
                more, again = _try(world, plan, room, second % moves, longer, values, discount, pose, taken)
                gain, took, hold = gain + discount**hold * more, took or again, hold + longer
            _arrivals(world, plan, paths, times, room, pose, obstacles, hindered, chosen, arrival)
            then = after
            if took:
                _continue(
                    times, between, objects, values, chosen, arrival[:few, 1:], taken, plan.reach, discount, other
                )
                then = other
            future = 0.0
            for a in range(few):
                if not taken[chosen[a]]:
                    future = max(future, discount ** arrival[a, 0] * (values[chosen[a]] + then[a]))
            total = gain + discount**hold * future
            if total > highest + 1e-12:
                highest, actions[room] = total, first % moves

"""The oracle's decision: the order of its targets, and the action towards the first."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usfa.compiling import compiled
from usfa.environments.room.routes import NEVER, Paths, approach, fill_field, time_to
from usfa.environments.room.rules import SUBSTEPS
from usfa.environments.room.world import Plan, World, walk

__all__ = ["choose"]

_MARGIN = 0.04  # metres between the agent's reach and an obstacle
_CANDIDATES = 8  # targets that are ordered
_NEARBY = 1.5  # metres
_GRACE = 12  # decisions beyond twice the expected time before a target is given up
_HOLD = 3  # decisions of a longer trial of an action; the shorter one has 1

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class _Knowledge(NamedTuple):
    """Data that is shared by all rooms."""

    world: World
    plan: Plan
    paths: Paths
    times: Floats
    discount: float


class _Scene(NamedTuple):
    """One room at the moment of a decision."""

    room: int
    values: Floats  # [K]     of each object for the task
    start: Floats  # [3]     x, y, heading
    obstacles: Floats  # [O, 2]  places of objects of negative value
    hindered: bool  # whether there are obstacles or inner walls


class _Future(NamedTuple):
    """Result of simulating a plan: a pose, the objects collected on the way, and the values from there."""

    pose: Floats  # [3]
    taken: Flags  # [K]
    arrival: Floats  # [C, 3]  see :func:`_arrivals`
    after: Floats  # [C]     see :func:`_continue`


@compiled(inner=True)
def _leg(
    times: Floats, between: Floats, objects: Floats, source: int, target: int, ux: float, uy: float, reach: float
) -> tuple[float, float, float]:
    """Time from one collected object, met in direction (ux, uy), to another, and the direction there."""
    dx = objects[target, 0] - objects[source, 0] + reach * ux
    dy = objects[target, 1] - objects[source, 1] + reach * uy
    away = max(math.hypot(dx, dy), 1e-9)
    dx, dy = dx / away, dy / away
    length = max(away, between[source, target])
    return time_to(times, length * (dx * ux + dy * uy), length * (dy * ux - dx * uy)), dx, dy


@compiled(inner=True)
def _continue(
    known: _Knowledge, scene: _Scene, chosen: Integers, directions: Floats, taken: Flags, after: Floats
) -> None:
    """Fill in after[a], the best value of two targets after a: max over b, c of w_b γ^t + w_c γ^t'."""
    times, discount, reach, values = known.times, known.discount, known.plan.reach, scene.values
    between, objects = known.paths.between[scene.room], known.world.objects[scene.room]
    for a in range(len(chosen)):
        after[a] = 0.0
        for b in range(len(chosen)):
            if a == b or taken[chosen[b]] or taken[chosen[a]]:
                continue
            time, ux, uy = _leg(
                times, between, objects, chosen[a], chosen[b], directions[a, 0], directions[a, 1], reach
            )
            then = 0.0
            for c in range(len(chosen)):
                if c != a and c != b and not taken[chosen[c]]:
                    more, _, _ = _leg(times, between, objects, chosen[b], chosen[c], ux, uy, reach)
                    then = max(then, values[chosen[c]] * discount**more)
            after[a] = max(after[a], discount**time * (values[chosen[b]] + then))


@compiled(inner=True)
def _refresh(known: _Knowledge, scene: _Scene) -> None:
    """Recompute distances around the obstacles after an object has moved."""
    paths, values, obstacles, reach = known.paths, scene.values, scene.obstacles, known.plan.reach
    field, between, objects = paths.fields[scene.room], paths.between[scene.room], known.world.objects[scene.room]
    keep = reach + _MARGIN
    for target in range(len(values)):
        if values[target] <= 0 or not known.world.alive[scene.room, target]:
            continue
        x, y = objects[target, 0], objects[target, 1]
        fill_field(field[target], paths.open_cells, obstacles, keep, reach, paths.spacing, x, y)
        for source in range(len(values)):
            between[source, target] = 0.0
            if values[source] > 0 and source != target:
                from_x, from_y = objects[source, 0], objects[source, 1]
                length, _, _ = approach(
                    field[target], paths.open_cells, obstacles, keep, reach, paths.spacing, from_x, from_y, x, y
                )
                between[source, target] = length


@compiled(inner=True)
def _try(known: _Knowledge, scene: _Scene, action: int, hold: int, pose: Floats, taken: Flags) -> tuple[float, bool]:
    """Simulate holding an action: return the gain and whether anything was collected; change pose and taken."""
    plan, values, reach = known.plan, scene.values, known.plan.reach
    objects, alive = known.world.objects[scene.room], known.world.alive[scene.room]
    forward, right, turn = plan.moves[action, 0], plan.moves[action, 1], plan.moves[action, 2]
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
            if values[index] == 0 or taken[index] or not alive[index]:
                continue
            ox, oy = objects[index, 0] - x, objects[index, 1] - y
            if ox * ox + oy * oy <= reach * reach:
                gain += values[index] * known.discount ** ((frame + 1) / SUBSTEPS)
                taken[index] = True
                took = True
    return gain, took


@compiled(inner=True)
def _changed(world: World, paths: Paths, room: int, task: Floats) -> bool:
    """Whether the task or the places of a room differ from those of its paths, which are then updated."""
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
def _sort(
    known: _Knowledge, room: int, task: Floats, values: Floats, wanted: Integers, harmful: Floats
) -> tuple[int, int]:
    """Fill in values, indices of targets and places of harmful objects; return the numbers of both."""
    targets, dangers = 0, 0
    for index in range(len(values)):
        values[index] = task[known.plan.types[index]] if known.world.alive[room, index] else 0.0
        if values[index] > 0 and not known.paths.given_up[room, index]:
            wanted[targets] = index
            targets += 1
        elif values[index] < 0:
            harmful[dangers] = known.world.objects[room, index]
            dangers += 1
    return targets, dangers


@compiled(inner=True)
def _arrivals(known: _Knowledge, scene: _Scene, pose: Floats, chosen: Integers, arrival: Floats) -> None:
    """Fill in arrival[a], the earliest time to collect the target chosen[a] and the first direction towards it."""
    paths, reach, cos, sin = known.paths, known.plan.reach, math.cos(pose[2]), math.sin(pose[2])
    field, objects = paths.fields[scene.room], known.world.objects[scene.room]
    x, y = pose[0], pose[1]
    for a in range(len(chosen)):
        to_x, to_y = objects[chosen[a], 0], objects[chosen[a], 1]
        length, ux, uy = math.hypot(to_x - x, to_y - y), 0.0, 0.0
        if scene.hindered:
            around, keep = field[chosen[a]], reach + _MARGIN
            length, ux, uy = approach(
                around, paths.open_cells, scene.obstacles, keep, reach, paths.spacing, x, y, to_x, to_y
            )
        elif length > 0:
            ux, uy = (to_x - x) / length, (to_y - y) / length
        arrival[a, 0] = NEVER
        if length < NEVER:
            arrival[a, 0] = time_to(known.times, length * (ux * cos + uy * sin), length * (uy * cos - ux * sin))
        arrival[a, 1], arrival[a, 2] = ux, uy


@compiled(inner=True)
def _rank(chosen: Integers, arrival: Floats, values: Floats, discount: float, few: int) -> None:
    """Move the `few` most valuable targets to the front."""
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
def _grow_impatient(paths: Paths, room: int, fresh: bool, wanted: Integers, arrivals: Floats) -> None:
    """Give up a target that takes too long."""
    paths.patience[room] -= 1
    if fresh:
        paths.patience[room] = 2 * arrivals[0, 0] + _GRACE
    elif paths.patience[room] < 0:
        paths.given_up[room, wanted[0]] = True
        paths.patience[room] = _GRACE + 2 * (arrivals[1, 0] if len(wanted) > 1 else 0.0)


@compiled(inner=True)
def _is_crowded(known: _Knowledge, scene: _Scene, chosen: Integers) -> bool:
    """Whether an obstacle and a target are both so near that plans need a second action."""
    start, obstacles, objects = scene.start, scene.obstacles, known.world.objects[scene.room]
    for index in range(len(obstacles)):
        if math.hypot(obstacles[index, 0] - start[0], obstacles[index, 1] - start[1]) < _NEARBY:
            for a in range(len(chosen)):
                if math.hypot(objects[chosen[a], 0] - start[0], objects[chosen[a], 1] - start[1]) < _NEARBY:
                    return True
    return False


@compiled(inner=True)
def _worth(
    known: _Knowledge, scene: _Scene, chosen: Integers, after: Floats, first: int, second: int, future: _Future
) -> float:
    """Value of a plan: an action held once or longer, perhaps a second one, and then the best targets.

    Args:
        known: data of all rooms.
        scene: the room.
        chosen: targets.
        after: value after each target if nothing is collected before it.
        first: index of the first action; the number of actions is added if it is held longer.
        second: the same for the second action, or -1 for none.
        future: buffer.
    """
    moves, discount = known.plan.moves.shape[0], known.discount
    hold = 1 if first < moves else _HOLD
    future.pose[:] = scene.start
    future.taken[:] = False
    gain, took = _try(known, scene, first % moves, hold, future.pose, future.taken)
    if second >= 0:
        longer = 1 if second < moves else _HOLD
        more, again = _try(known, scene, second % moves, longer, future.pose, future.taken)
        gain, took, hold = gain + discount**hold * more, took or again, hold + longer
    _arrivals(known, scene, future.pose, chosen, future.arrival)
    then = after
    if took:
        _continue(known, scene, chosen, future.arrival[: len(chosen), 1:], future.taken, future.after)
        then = future.after
    best = 0.0
    for a in range(len(chosen)):
        if not future.taken[chosen[a]]:
            best = max(best, discount ** future.arrival[a, 0] * (scene.values[chosen[a]] + then[a]))
    return gain + discount**hold * best


@compiled(inner=True)
def _best_action(known: _Knowledge, scene: _Scene, chosen: Integers, after: Floats, future: _Future) -> int:
    """First action of the best plan; plans have a second action in crowded places and when time runs out."""
    held = 2 * known.plan.moves.shape[0]  # every action once or longer
    hard = scene.hindered and known.paths.patience[scene.room] < _GRACE
    seconds = held if hard or _is_crowded(known, scene, chosen) else 0
    action, highest = 0, -1e9
    for number in range(held * (1 + seconds)):
        first, second = number % held, number // held - 1
        total = _worth(known, scene, chosen, after, first, second, future)
        if total > highest + 1e-12:
            action, highest = first % known.plan.moves.shape[0], total
    return action


@compiled()
def choose(
    world: World, plan: Plan, tasks: Floats, times: Floats, paths: Paths, discount: float, actions: Integers
) -> None:
    """Set the oracle's action in every room that has a target; `actions` keeps its value in the others."""
    known, count = _Knowledge(world, plan, paths, times, discount), world.objects.shape[1]
    values, start, harmful, nothing = np.zeros(count), np.zeros(3), np.zeros((count, 2)), np.zeros(count, np.bool_)
    wanted, arrivals, after = np.zeros(count, np.int64), np.zeros((count, 3)), np.zeros(_CANDIDATES)
    future = _Future(np.zeros(3), np.zeros(count, np.bool_), np.zeros((_CANDIDATES, 3)), np.zeros(_CANDIDATES))
    for room in range(len(actions)):
        fresh = _changed(world, paths, room, tasks[room])
        if fresh:
            paths.given_up[room] = False
        targets, dangers = _sort(known, room, tasks[room], values, wanted, harmful)
        if targets == 0:
            paths.given_up[room] = False
            continue
        start[:] = world.pose[room]
        scene = _Scene(room, values, start, harmful[:dangers], dangers > 0 or plan.walls.shape[0] > 1)
        if fresh:
            paths.between[room] = 0.0
            if scene.hindered:
                _refresh(known, scene)
        few = min(targets, _CANDIDATES)
        _arrivals(known, scene, start, wanted[:targets], arrivals)
        _rank(wanted[:targets], arrivals[:targets], values, discount, few)
        _grow_impatient(paths, room, fresh, wanted[:targets], arrivals)
        _continue(known, scene, wanted[:few], arrivals[:few, 1:], nothing, after)
        actions[room] = _best_action(known, scene, wanted[:few], after, future)

"""The floor of a room: where walls stand, and where objects may lie. Every engine reads the map here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from usfa.environments.room.rules import RoomRules
from usfa.errors import InputError

__all__ = ["free_places", "wall_cells", "wall_distance"]

_SPACING = 0.25  # metres between the places that are tried


def wall_cells(rules: RoomRules) -> NDArray[np.bool_]:
    """[n, n]: True where a cell of the map is wall; [y, x] counted from the south-west, so y grows with north.

    The first line of the text is the north. A room without a map has one free cell.
    """
    if rules.layout is None:
        return np.zeros((1, 1), np.bool_)
    lines = rules.layout.split()
    walls = np.array([[character == "#" for character in line] for line in lines], np.bool_)[::-1].copy()
    cell = rules.side / len(lines)
    if cell < 2 * rules.agent_radius:
        raise InputError(
            f"The layout has {len(lines)} cells over {rules.side} metres; a cell must be at least "
            f"{2 * rules.agent_radius} metres wide, the width of the agent."
        )
    if not _connected(~walls):
        raise InputError("The floor of the layout falls into parts; expected every '.' to be reached from every other.")
    return walls


def _connected(floor: NDArray[np.bool_]) -> bool:
    reached = np.zeros_like(floor)
    reached.flat[np.flatnonzero(floor)[0]] = True
    while True:
        grown = reached.copy()
        grown[1:] |= reached[:-1]
        grown[:-1] |= reached[1:]
        grown[:, 1:] |= reached[:, :-1]
        grown[:, :-1] |= reached[:, 1:]
        grown &= floor
        if (grown == reached).all():
            return bool((reached == floor).all())
        reached = grown


def wall_distance(walls: NDArray[np.bool_], side: float, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far points [P, 2] are from the nearest wall [P]; the four outer walls count."""
    cell = side / len(walls)
    distance = np.minimum(points, side - points).min(axis=1)
    for row, column in np.argwhere(walls):
        low = np.array([column, row]) * cell
        away = np.maximum(np.maximum(low - points, points - low - cell), 0.0)
        distance = np.minimum(distance, np.hypot(away[:, 0], away[:, 1]))
    return distance


def free_places(rules: RoomRules, walls: NDArray[np.bool_]) -> NDArray[np.float64]:
    """[P, 2]: a lattice of the places where an object may lie; InputError if they are too few for the objects."""
    ticks = (np.arange(int(np.ceil(rules.side / _SPACING))) + 0.5) * _SPACING
    lattice = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    places = lattice[wall_distance(walls, rules.side, lattice) >= rules.wall_distance]
    room_for = int(len(places) * _SPACING**2 / rules.reach**2)
    if room_for < rules.objects:
        raise InputError(
            f"{rules.objects} objects do not fit: the room has space for {room_for}, each {rules.reach} metres wide "
            f"and {rules.wall_distance} metres from walls."
        )
    return places

"""Rules and map of the room, shared by the embedded engine and ViZDoom."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usfa.environments.room.objects import OBJECTS
from usfa.errors import InputError
from usfa.records import from_json

__all__ = [
    "ACTIONS",
    "CAMERA_ARGUMENTS",
    "CEILING",
    "EYE",
    "FIELD_OF_VIEW",
    "SUBSTEPS",
    "Action",
    "RoomRules",
    "check_field_of_view",
    "free_places",
    "given_rules",
    "split_arguments",
    "wall_cells",
    "wall_distance",
]

SUBSTEPS = 4  # frames of 1/60 s per decision
EYE = 0.9  # metres from the floor to the camera
CEILING = 2.4  # metres from the floor to the ceiling
FIELD_OF_VIEW = 80.0  # default horizontal field of view, in degrees
CAMERA_ARGUMENTS = {"image_size": int, "frame_stack": int, "field_of_view": float}
"""Arguments that change only the observation, with their types."""
_SPACING = 0.25  # metres between the points of the lattice in `free_places`


@dataclass(frozen=True)
class Action:
    """Motion of one decision: shares of full speed, held for a fifteenth of a second."""

    name: str
    forward: int = 0  # 1 forward, -1 backward
    strafe: int = 0  # 1 right, -1 left
    turn: int = 0  # 1 left (counter-clockwise, seen from above), -1 right


ACTIONS: tuple[Action, ...] = (
    Action("forward", forward=1),
    Action("backward", forward=-1),
    Action("strafe left", strafe=-1),
    Action("strafe right", strafe=1),
    Action("turn left", turn=1),
    Action("turn right", turn=-1),
    Action("forward, turning left", forward=1, turn=1),
    Action("forward, turning right", forward=1, turn=-1),
)


@dataclass(frozen=True)
class RoomRules:
    """Size, objects and motion of a room, in metres; the floor is a square or the free cells of a map."""

    types: int = 4
    """D, the number of types of objects, 2 to 8."""
    objects_per_type: int = 5
    """Number of objects of each type."""
    side: float = 10.0
    """Length of a side of the room."""
    layout: str | None = None
    """Interior walls: a square map as text, a line per row, '#' for wall and '.' for floor, stretched over the room."""
    respawn: bool = True
    """Whether a collected object reappears elsewhere."""
    decisions: int = 900
    """Steps of an episode, 15 per second."""
    speed: float = 0.25
    """Metres per decision when moving."""
    turn: float = math.radians(12)
    """Radians per decision when turning."""
    agent_radius: float = 0.25
    """Radius of the agent's body, a disc that does not overlap walls."""
    reach: float = 0.5
    """An object is collected when the agent's centre comes this close to its own."""
    clearance: float = 2.0
    """Least distance from the agent at which objects appear."""
    wall_distance: float = 0.5
    """Least distance of objects from walls."""

    def __post_init__(self) -> None:
        for name in ("types", "objects_per_type", "decisions"):
            if not isinstance(getattr(self, name), int):
                raise InputError(f"{name} is {getattr(self, name)}; expected a whole number.")
        if not 2 <= self.types <= len(OBJECTS):
            raise InputError(f"types is {self.types}; expected 2 to {len(OBJECTS)}.")
        for name in ("objects_per_type", "decisions"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least 1.")
        if not 4 <= self.side <= 100:
            raise InputError(f"side is {self.side}; expected 4 to 100 metres.")
        for name in ("speed", "turn", "agent_radius", "reach"):
            if not 0 < getattr(self, name) <= 2:
                raise InputError(f"{name} is {getattr(self, name)}; expected a number above 0, at most 2.")
        if self.speed / SUBSTEPS > min(self.agent_radius, self.reach):
            raise InputError(
                f"speed is {self.speed}; expected at most {SUBSTEPS} times agent_radius and reach, or the agent "
                "would pass through walls and objects between two frames."
            )
        if not 0 <= self.clearance <= self.side:
            raise InputError(f"clearance is {self.clearance}; expected 0 to {self.side} metres, the side of the room.")
        if not self.agent_radius <= self.wall_distance <= self.side / 4:
            raise InputError(
                f"wall_distance is {self.wall_distance}; expected {self.agent_radius} metres, the agent's radius, "
                f"to {self.side / 4}, a quarter of the room."
            )
        if self.layout is not None:
            _check_layout(self.layout)

    @property
    def objects(self) -> int:
        """Number of objects in the room."""
        return self.types * self.objects_per_type

    @property
    def most_per_step(self) -> int:
        """Largest φ_i of a transition; an object that reappears within reach can be collected in every frame."""
        again = 1 if self.clearance > self.reach + self.speed else SUBSTEPS
        return again * self.objects_per_type


def _check_layout(layout: object) -> None:
    if not isinstance(layout, str):
        raise InputError(f"The layout is {layout!r}; expected a text with a line per row.")
    lines = layout.split()
    for number, line in enumerate(lines, 1):
        if len(line) != len(lines):
            raise InputError(
                f"Line {number} of the layout has {len(line)} cells; expected {len(lines)}, as many as there are lines."
            )
        if set(line) - {"#", "."}:
            raise InputError(f"Line {number} of the layout is {line!r}; expected only '#' for wall and '.' for floor.")
    if "." not in layout:
        raise InputError("The layout has no floor; expected at least one '.'.")


def given_rules(rules: RoomRules | None, fields: Mapping[str, Any]) -> RoomRules:
    """Return the rules given as a whole or by field; InputError if both are given."""
    if rules is not None and fields:
        raise InputError(f"rules is given together with {', '.join(fields)}; expected one or the other.")
    return rules or RoomRules(**fields)


def check_field_of_view(degrees: float) -> None:
    """Raise InputError unless `degrees` is a number from 20 to 150."""
    if not isinstance(degrees, int | float) or not 20 <= degrees <= 150:
        raise InputError(f"field_of_view is {degrees!r}; expected 20 to 150 degrees.")


def split_arguments(arguments: Mapping[str, Any], where: str) -> tuple[RoomRules, dict[str, Any]]:
    """Split an environment's arguments into rules and the camera arguments of :class:`RoomBatch`.

    Args:
        arguments: as in a file or on the command line.
        where: their name in error messages.
    """
    camera = {
        name: _number(arguments[name], kind, name, where)
        for name, kind in CAMERA_ARGUMENTS.items()
        if name in arguments
    }
    fields = {name: value for name, value in arguments.items() if name not in camera}
    return from_json(RoomRules, fields, where), camera


def _number(value: Any, kind: type[int] | type[float], name: str, where: str) -> int | float:
    """Convert an argument, which may be text; raise InputError if it is not such a number."""
    try:
        if kind is float or not isinstance(value, float) or value.is_integer():
            return kind(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"In {where}, {name} is {value!r}; expected {'a number' if kind is float else 'a whole number'}.")


# --- the map ---


def wall_cells(rules: RoomRules) -> NDArray[np.bool_]:
    """Return the map as [n, n], True for wall, indexed [y, x] from the south-west.

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
    """Distance of points [P, 2] from the nearest wall [P], including the four outer walls."""
    cell = side / len(walls)
    distance = np.minimum(points, side - points).min(axis=1)
    for row, column in np.argwhere(walls):
        low = np.array([column, row]) * cell
        away = np.maximum(np.maximum(low - points, points - low - cell), 0.0)
        distance = np.minimum(distance, np.hypot(away[:, 0], away[:, 1]))
    return distance


def free_places(rules: RoomRules, walls: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Lattice of the places where an object may lie, [P, 2]; InputError if they are too few for the objects."""
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

"""The rules of the room, in one place: what every engine that shows it has to agree on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from usfa.errors import InputError
from usfa.records import from_json

__all__ = [
    "ACTIONS",
    "CAMERA_ARGUMENTS",
    "EYE",
    "FIELD_OF_VIEW",
    "OBJECTS",
    "SUBSTEPS",
    "Action",
    "ObjectType",
    "RoomRules",
    "split_arguments",
]


SUBSTEPS = 4  # frames of 1/60 s that a decision is held for
EYE = 0.9  # metres from the floor to the camera
FIELD_OF_VIEW = math.radians(80)  # of the image's width
CAMERA_ARGUMENTS = ("image_size", "frame_stack")  # of an environment: what it shows, and not what happens in it


@dataclass(frozen=True)
class Action:
    """What one decision does: shares of full speed, held for a fifteenth of a second."""

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
class ObjectType:
    """How a type of object is called and coloured; the paper's four come first."""

    name: str
    colour: tuple[int, int, int]


OBJECTS: tuple[ObjectType, ...] = (
    ObjectType("tv", (40, 70, 230)),
    ObjectType("ball", (225, 40, 40)),
    ObjectType("hat", (30, 170, 60)),
    ObjectType("balloon", (250, 200, 30)),
    ObjectType("cone", (245, 120, 20)),
    ObjectType("crate", (140, 90, 45)),
    ObjectType("star", (200, 60, 200)),
    ObjectType("bottle", (40, 190, 200)),
)


@dataclass(frozen=True)
class RoomRules:
    """A room and what happens in it. Lengths are in metres, the floor is a square or the free cells of a map."""

    types: int = 4
    """D: how many types of objects, 2 to 8."""
    objects_per_type: int = 5
    """How many of each lie in the room."""
    side: float = 10.0
    """From wall to wall."""
    layout: str | None = None
    """Interior walls: a square map as text, a line per row, '#' for wall and '.' for floor, stretched over the room."""
    respawn: bool = True
    """Whether a collected object appears again elsewhere."""
    decisions: int = 900
    """Steps of an episode, 15 per second."""
    speed: float = 0.25
    """Metres per decision when moving."""
    turn: float = math.radians(12)
    """Radians per decision when turning."""
    agent_radius: float = 0.25
    """How close the agent comes to a wall."""
    reach: float = 0.5
    """An object is collected when the agent's centre comes this close to its own."""
    clearance: float = 2.0
    """How far from the agent objects appear."""
    wall_distance: float = 0.5
    """How far from walls objects lie."""

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
        """How many objects lie in the room."""
        return self.types * self.objects_per_type

    @property
    def most_per_step(self) -> int:
        """The largest φ_i of a transition: an object that appears within reach can be collected in every frame."""
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


def split_arguments(arguments: Mapping[str, Any], where: str) -> tuple[RoomRules, dict[str, Any]]:
    """The arguments of an environment as rules, and those of its camera, for :class:`RoomBatch`.

    Args:
        arguments: as in a file or on the command line.
        where: what an error calls them.
    """
    camera = {name: int(arguments[name]) for name in CAMERA_ARGUMENTS if name in arguments}
    fields = {name: value for name, value in arguments.items() if name not in camera}
    return from_json(RoomRules, fields, where), camera

"""Types of objects in the room; textures.py paints them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OBJECTS", "ObjectType"]


@dataclass(frozen=True)
class ObjectType:
    """Name and colour of a type of object; the paper's four come first."""

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

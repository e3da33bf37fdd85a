"""Pictures of walls, floor, ceiling and objects, painted with numpy, as mipmap pyramids.

A pyramid holds the picture at 1/1, 1/2, 1/4, ... of its size, one after another in a flat array, so that distant
surfaces are drawn from texels of about the size of a pixel and do not flicker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usfa.environments.room.objects import OBJECTS

__all__ = [
    "BOXES",
    "FLOOR_COLOUR",
    "SPRITE_LEVELS",
    "SURFACES",
    "SURFACE_LEVELS",
    "WALL_COLOURS",
    "Textures",
    "offset_of",
    "sprite",
    "surface",
    "textures",
]

Array = NDArray[np.floating]

SURFACES = ("east", "north", "west", "south", "floor", "ceiling")  # the first four are walls
SURFACE_LEVELS = 7  # 64 texels down to 1
SPRITE_LEVELS = 7  # 128 texels down to 2
WALL_COLOURS = ((172, 160, 150), (150, 160, 170), (158, 168, 152), (168, 154, 168))
FLOOR_COLOUR = (128, 124, 116)
_OUTLINE = 0.035  # of a sprite's width
_PLAIN_BELOW = 16  # texels; smaller pictures have no outline, so that distant objects keep their colour

BOXES: NDArray[np.float64] = np.array(
    [
        [1.00, 0.00, 1.00],  # tv
        [0.80, 0.00, 0.80],  # ball
        [1.10, 0.00, 0.80],  # hat
        [0.80, 0.25, 1.85],  # balloon
        [0.85, 0.00, 1.10],  # cone
        [0.85, 0.00, 0.85],  # crate
        [1.00, 0.35, 1.35],  # star
        [0.50, 0.00, 1.25],  # bottle
    ]
)
"""Width, lower and upper edge of each type of object in metres, [8, 3]."""


class Textures(NamedTuple):
    """Pyramids with packed channels, red in the lowest bits, then green, blue and, for sprites, opacity."""

    surfaces: NDArray[np.uint32]  # [6 · texels]     in the order of SURFACES
    sprites: NDArray[np.int64]  # [types, texels]  colour times opacity, 16 bits to a channel


def offset_of(size: int, level: int) -> int:
    """Index at which a level begins in the pyramid of a square picture."""
    return sum((size >> below) ** 2 for below in range(level))


@cache
def textures() -> Textures:
    """Paint all pictures, once per process."""
    walls = [_pyramid(_wall(np.array(colour))) for colour in WALL_COLOURS]
    surfaces = np.concatenate([*walls, _pyramid(_floor()), _pyramid(_ceiling())])
    sprites = np.stack(
        [_sprite_pyramid(paint, np.array(kind.colour)) for paint, kind in zip(_PAINTERS, OBJECTS, strict=True)]
    )
    return Textures(surfaces, sprites)


def surface(name: str) -> NDArray[np.uint8]:
    """Unpack the largest picture of one of SURFACES, [64, 64, 3]: red, green, blue."""
    size = 1 << (SURFACE_LEVELS - 1)
    texels = np.split(textures().surfaces, len(SURFACES))[SURFACES.index(name)][: size * size].reshape(size, size)
    return np.stack([(texels >> shift) & 255 for shift in (0, 8, 16)], axis=-1).astype(np.uint8)


def sprite(kind: int) -> NDArray[np.uint8]:
    """Unpack the largest picture of a type of object, [128, 128, 4]: red, green, blue, opacity."""
    size = 1 << SPRITE_LEVELS
    texels = textures().sprites[kind, : size * size].reshape(size, size)
    channels = np.stack([(texels >> shift) & 255 for shift in (0, 16, 32, 48)], axis=-1)
    opacity = np.maximum(channels[..., 3:], 1)
    channels[..., :3] = np.minimum(channels[..., :3] * 255 // opacity, 255)
    return channels.astype(np.uint8)


# --- pyramids ---


def _pyramid(picture: Array) -> NDArray[np.uint32]:
    levels = []
    while True:
        levels.append(_packed(picture, bits=8))
        if len(picture) == 1:
            return np.concatenate(levels).astype(np.uint32)
        picture = _halved(picture)


def _halved(picture: Array) -> Array:
    return (picture[::2, ::2] + picture[1::2, ::2] + picture[::2, 1::2] + picture[1::2, 1::2]) / 4


def _packed(picture: Array, bits: int) -> NDArray[np.int64]:
    """Pack [n, n, channels] with values up to 255 into [n · n], `bits` to a channel."""
    values = np.clip(picture + 0.5, 0, 255).astype(np.int64).reshape(-1, picture.shape[-1])
    packed: NDArray[np.int64] = np.bitwise_or.reduce(values << np.arange(0, bits * values.shape[1], bits), axis=1)
    return packed


# --- surfaces, 64 texels ---


def _wall(colour: Array) -> Array:
    """Four courses of large bricks, each brick in its own shade, with light joints."""
    y, x = np.mgrid[0:64, 0:64]
    course = y // 16
    along = (x + 16 * (course % 2)) % 64
    shade = np.array([[1.0, 0.72], [0.78, 1.06], [0.92, 0.68], [0.74, 0.98]])[course, along // 32]
    joint = (y % 16 < 2) | (along % 32 < 2)
    return np.where(joint, 0.45, shade)[..., None] * colour


def _floor() -> Array:
    """A chessboard of two by two tiles with dark joints."""
    y, x = np.mgrid[0:64, 0:64]
    light = (x // 32 + y // 32) % 2
    colour = np.where(light[..., None] == 1, np.array(FLOOR_COLOUR), np.array([84, 82, 80]))
    joint = (x % 32 < 1) | (y % 32 < 1)
    return np.where(joint[..., None], 52.0, colour)


def _ceiling() -> Array:
    """Panels with a lamp in the middle."""
    y, x = np.mgrid[0:64, 0:64]
    lamp = (abs(x - 31.5) < 9) & (abs(y - 31.5) < 9)
    joint = (x % 32 < 2) | (y % 32 < 2)
    grey = np.where(lamp, 250, np.where(joint, 176, 206))
    return grey[..., None] * np.array([0.97, 0.99, 1.0])


# --- objects, painted on a square from (-1, -1) at the lower left to (1, 1) ---


class _Canvas:
    """Shapes painted over each other; painted pixels are solid."""

    def __init__(self, size: int) -> None:
        ticks = (np.arange(size) + 0.5) * 2 / size - 1
        self.x, self.y = np.meshgrid(ticks, -ticks)
        self.colour = np.zeros((size, size, 3), np.float32)
        self.solid = np.zeros((size, size), np.bool_)

    def fill(self, where: NDArray[np.bool_], colour: Array) -> None:
        self.colour[where] = np.clip(colour, 0, 255)
        self.solid |= where

    def box(self, left: float, low: float, right: float, high: float) -> NDArray[np.bool_]:
        inside: NDArray[np.bool_] = (self.x >= left) & (self.x <= right) & (self.y >= low) & (self.y <= high)
        return inside

    def disc(self, x: float, y: float, width: float, height: float) -> NDArray[np.bool_]:
        inside: NDArray[np.bool_] = ((self.x - x) / width) ** 2 + ((self.y - y) / height) ** 2 <= 1
        return inside


_BLACK, _WHITE = np.zeros(3), np.full(3, 255.0)


def _tv(c: _Canvas, colour: Array) -> None:
    antenna = (abs(abs(c.x) * 0.9 - (c.y - 0.45)) < 0.07) & (c.y > 0.45) & (c.y < 0.95)
    c.fill(antenna, colour * 0.6)
    c.fill(c.box(-0.7, -0.95, -0.45, -0.7) | c.box(0.45, -0.95, 0.7, -0.7), colour * 0.5)
    c.fill(c.box(-0.95, -0.75, 0.95, 0.5), colour)
    c.fill(c.box(-0.78, -0.58, 0.5, 0.34), _BLACK)
    c.fill(c.box(-0.72, -0.52, 0.44, 0.28), np.array([150, 200, 255]))
    c.fill((abs(c.x - c.y * 0.6 + 0.2) < 0.09) & c.box(-0.72, -0.52, 0.44, 0.28), _WHITE)
    c.fill(c.disc(0.72, 0.2, 0.1, 0.1) | c.disc(0.72, -0.1, 0.1, 0.1), _WHITE)


def _ball(c: _Canvas, colour: Array) -> None:
    ball = c.disc(0, 0, 0.94, 0.94)
    c.fill(ball, colour)
    c.fill(ball & (abs(c.y + 0.25 * (1 - c.x**2)) < 0.17), _WHITE)
    c.fill(c.disc(-0.35, 0.5, 0.22, 0.16), np.array([255, 190, 190]))


def _hat(c: _Canvas, colour: Array) -> None:
    c.fill(c.disc(0, -0.62, 0.96, 0.3), colour * 0.85)
    crown = (abs(c.x) < 0.5 + 0.08 * c.y) & (c.y > -0.6) & (c.y < 0.85)
    c.fill(crown, colour)
    c.fill(crown & (c.y < -0.22), np.array([235, 240, 225]))
    c.fill(c.disc(0, 0.82, 0.565, 0.12), colour * 1.35)


def _balloon(c: _Canvas, colour: Array) -> None:
    c.fill((abs(c.x - 0.12 * np.sin(6 * c.y)) < 0.06) & (c.y < -0.05) & (c.y > -0.96), _WHITE * 0.9)
    c.fill((abs(c.x) < (0.08 - c.y) * 0.9) & (c.y < 0.02) & (c.y > -0.1), colour * 0.75)
    c.fill(c.disc(0, 0.48, 0.9, 0.47), colour)
    c.fill(c.disc(-0.35, 0.65, 0.2, 0.12), _WHITE)


def _cone(c: _Canvas, colour: Array) -> None:
    c.fill(c.box(-0.94, -0.94, 0.94, -0.72), colour * 0.8)
    cone = (abs(c.x) < 0.12 + (0.9 - c.y) * 0.33) & (c.y > -0.75) & (c.y < 0.93)
    c.fill(cone, colour)
    c.fill(cone & (((c.y > -0.4) & (c.y < -0.1)) | ((c.y > 0.25) & (c.y < 0.5))), _WHITE)


def _crate(c: _Canvas, colour: Array) -> None:
    c.fill(c.box(-0.94, -0.94, 0.94, 0.94), colour * 1.25)
    c.fill(c.box(-0.66, -0.66, 0.66, 0.66), colour * 0.62)
    c.fill((abs(c.x - c.y) < 0.22) & c.box(-0.7, -0.7, 0.7, 0.7), colour * 1.25)
    c.fill(
        (abs(abs(c.x) - 0.66) < 0.03) & (abs(c.y) < 0.66) | (abs(abs(c.y) - 0.66) < 0.03) & (abs(c.x) < 0.66), _BLACK
    )


def _star(c: _Canvas, colour: Array) -> None:
    fifth, tip, notch = np.pi / 5, 0.97, 0.45
    from_tip = fifth - abs((np.arctan2(c.x, c.y) % (2 * fifth)) - fifth)
    # The straight side from the tip, at angle 0, to the notch, at angle π/5.
    edge = tip * notch * np.sin(fifth) / (tip * np.sin(from_tip) + notch * np.sin(fifth - from_tip))
    radius = np.hypot(c.x, c.y)
    c.fill(radius < edge, colour)
    c.fill(radius < edge * 0.5, np.minimum(colour * 1.5, 255))


def _bottle(c: _Canvas, colour: Array) -> None:
    c.fill(c.box(-0.85, -0.96, 0.85, 0.1), colour)
    c.fill((abs(c.x) < 0.3 + (0.42 - c.y) * 1.75) & (c.y >= 0.1) & (c.y < 0.42), colour)
    c.fill(c.box(-0.3, 0.4, 0.3, 0.82), colour * 0.85)
    c.fill(c.box(-0.42, 0.78, 0.42, 0.96), np.array([235, 235, 235]))
    c.fill(c.box(-0.85, -0.65, 0.85, -0.2), _WHITE)


_PAINTERS = (_tv, _ball, _hat, _balloon, _cone, _crate, _star, _bottle)


def _sprite_pyramid(paint: Callable[[_Canvas, Array], None], colour: Array) -> NDArray[np.int64]:
    canvas = _Canvas(256)
    paint(canvas, colour.astype(np.float64))
    plain = _premultiplied(0.35 * canvas.colour + 0.65 * colour, canvas.solid)
    outline = _grown(canvas.solid, round(_OUTLINE * 256)) & ~_shrunk(canvas.solid, 3)
    outlined = _premultiplied(np.where(outline[..., None], 12.0, canvas.colour), canvas.solid | outline)
    levels = []
    for _ in range(SPRITE_LEVELS):
        plain, outlined = _halved(plain), _halved(outlined)
        picture = outlined if len(plain) >= _PLAIN_BELOW else _solidified(plain)
        levels.append(_packed(picture, bits=16))
    return np.concatenate(levels)


def _premultiplied(colour: Array, solid: NDArray[np.bool_]) -> Array:
    picture = np.zeros((*solid.shape, 4), np.float32)
    picture[solid, :3], picture[solid, 3] = colour[solid], 255
    return picture


def _solidified(picture: Array) -> Array:
    """Make distant objects a little more opaque than their share of the pixel, so that they stay visible."""
    opacity = picture[..., 3:] / 255
    return picture * np.minimum(1.4, 1 / np.maximum(opacity, 1e-9))


def _grown(solid: NDArray[np.bool_], steps: int) -> NDArray[np.bool_]:
    grown = solid.copy()
    for step in range(steps):
        wider = grown.copy()
        wider[1:] |= grown[:-1]
        wider[:-1] |= grown[1:]
        if step % 2 == 0:  # diagonals every other time, which is closer to a disc than to a diamond
            wider[:, 1:] |= wider[:, :-1].copy()
            wider[:, :-1] |= wider[:, 1:].copy()
        else:
            wider[:, 1:] |= grown[:, :-1]
            wider[:, :-1] |= grown[:, 1:]
        grown = wider
    return grown


def _shrunk(solid: NDArray[np.bool_], steps: int) -> NDArray[np.bool_]:
    return ~_grown(~solid, steps)

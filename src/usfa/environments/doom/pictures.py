"""What the Doom room looks like: palette, walls, floor, and a sprite for each type of object, all computed.

ViZDoom's software renderer shows 256 colours. The palette below has a ramp of shades for every colour the room is made
of, so that objects keep the colours of the rules, near and far.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from usfa.environments.room.rules import OBJECTS

__all__ = ["PIXELS_PER_METRE", "WALL_HEIGHT", "ceiling", "colormap", "floor", "palette", "png", "sprite", "wall"]

PIXELS_PER_METRE = 64
WALL_HEIGHT = 2.4
"""Metres."""

Picture = NDArray[np.uint8]  # [height, width, 3], or 4 with alpha
Mask = NDArray[np.bool_]  # [height, width]
Grid = NDArray[np.float64]  # [height, width]

_WALLS = {"north": (168, 160, 150), "east": (140, 150, 165), "south": (176, 150, 140), "west": (140, 158, 140)}
_FLOOR = (120, 105, 92)
_CEILING = (205, 208, 212)
_SHADES = 16  # of every colour, from black to its own, then four towards white


# --- the palette ---


def palette() -> Picture:
    """[256, 3]: shades of the colours of walls, floor and objects; greys fill the rest."""
    colours = [*(kind.colour for kind in OBJECTS), *_WALLS.values(), _FLOOR]
    ramps = np.concatenate([_ramp(colour) for colour in colours])
    greys = np.linspace(0, 255, 256 - len(ramps))[:, None].repeat(3, axis=1)
    return np.concatenate([greys, ramps]).round().astype(np.uint8)


def _ramp(colour: tuple[int, int, int]) -> Grid:
    own = np.array(colour, np.float64)
    dark = np.linspace(0.25, 1.0, _SHADES - 4)[:, None] * own
    light = own + np.linspace(0.2, 0.8, 4)[:, None] * (255 - own)
    return np.concatenate([dark, light])


def colormap() -> NDArray[np.uint8]:
    """[34, 256]: which colour stands for which at each of Doom's 32 light levels, down to half the light."""
    colours = palette().astype(np.float64)
    light = [*np.linspace(1.0, 0.5, 32), 1.0, 0.0]  # the last two are Doom's invulnerability and black
    return np.stack([_nearest(colours * share, colours) for share in light])


def _nearest(wanted: Grid, colours: Grid) -> NDArray[np.uint8]:
    distance = ((wanted[:, None] - colours[None]) ** 2).sum(axis=-1)
    return distance.argmin(axis=1).astype(np.uint8)


# --- walls, floor and ceiling ---


def wall(side: str, height: int) -> Picture:
    """Bricks, two metres of them, in the tint of the wall's direction; `height` pixels high."""
    y, x = np.mgrid[0:height, 0 : 2 * PIXELS_PER_METRE]
    rows = height // 5  # five courses
    course, in_course = y // rows, y % rows
    shifted = x + (course % 2) * 16
    brick, in_brick = shifted // 32, shifted % 32
    shade = 0.85 + 0.15 * _hash(course, brick % 4)
    shade[(in_course < 3) | (in_brick < 3)] = 0.55
    shade[y > height - 9] = 0.4  # a skirting board, where wall and floor meet
    return _shaded(_WALLS[side], shade)


def floor() -> Picture:
    """Tiles of half a metre, four by four of them, light and dark."""
    size = 2 * PIXELS_PER_METRE
    y, x = np.mgrid[0:size, 0:size]
    tile_y, tile_x = y // 32, x // 32
    shade = np.where((tile_y + tile_x) % 2 == 0, 0.62, 0.86) + 0.1 * _hash(tile_y, tile_x)
    return _shaded(_FLOOR, shade)


def ceiling() -> Picture:
    """Panels of one metre."""
    y, x = np.mgrid[0:PIXELS_PER_METRE, 0:PIXELS_PER_METRE]
    return _shaded(_CEILING, np.where((y < 4) | (x < 4), 0.85, 1.0))


def _hash(row: NDArray[np.int64], column: NDArray[np.int64]) -> Grid:
    """A number in [0, 1) for every pair, always the same."""
    return np.modf(np.abs(np.sin(row * 12.9898 + column * 78.233)) * 43758.5453)[0]


def _shaded(colour: tuple[int, int, int], shade: Grid) -> Picture:
    return (np.array(colour) * shade[..., None]).clip(0, 255).astype(np.uint8)


# --- sprites ---


class _Canvas:
    """A metre wide, `height` metres high; x runs from -0.5 to 0.5, y upwards from the floor at 0."""

    def __init__(self, height: float) -> None:
        rows, columns = round(height * PIXELS_PER_METRE), PIXELS_PER_METRE
        self.x = ((np.arange(columns) + 0.5) / columns - 0.5)[None].repeat(rows, axis=0)
        self.y = ((np.arange(rows)[::-1] + 0.5) / PIXELS_PER_METRE)[:, None].repeat(columns, axis=1)
        self.picture = np.zeros((rows, columns, 4), np.uint8)

    def paint(self, where: Mask, colour: tuple[int, int, int], shade: float | Grid = 1.0) -> None:
        light = np.broadcast_to(np.asarray(shade, np.float64), where.shape)[where][:, None]
        self.picture[where, :3] = (light * np.array(colour)).clip(0, 255)
        self.picture[where, 3] = 255

    def box(self, left: float, right: float, bottom: float, top: float) -> Mask:
        return (self.x > left) & (self.x < right) & (self.y > bottom) & (self.y < top)

    def ellipse(self, x: float, y: float, half_width: float, half_height: float) -> Mask:
        return ((self.x - x) / half_width) ** 2 + ((self.y - y) / half_height) ** 2 < 1

    def bar(self, start: tuple[float, float], end: tuple[float, float], thickness: float) -> Mask:
        (x0, y0), (x1, y1) = start, end
        length = (x1 - x0) ** 2 + (y1 - y0) ** 2
        along = (((self.x - x0) * (x1 - x0) + (self.y - y0) * (y1 - y0)) / length).clip(0, 1)
        return np.hypot(self.x - x0 - along * (x1 - x0), self.y - y0 - along * (y1 - y0)) < thickness / 2

    def round_light(self, x: float, y: float, radius: float) -> Grid:
        """Brightest up on the left, as on a ball."""
        return 1.15 - 0.55 * np.hypot(self.x - x + radius / 3, self.y - y - radius / 3) / radius


_WHITE, _BLACK = (255, 255, 255), (20, 20, 20)
Colour = tuple[int, int, int]


def _tv(colour: Colour) -> _Canvas:
    canvas = _Canvas(1.1)
    for x in (-0.3, 0.3):
        canvas.paint(canvas.bar((0.0, 0.75), (x, 1.07), 0.05), _BLACK)
        canvas.paint(canvas.bar((x * 0.9, 0.0), (x * 0.8, 0.15), 0.07), _BLACK)
    canvas.paint(canvas.box(-0.49, 0.49, 0.1, 0.8), colour)
    canvas.paint(canvas.box(-0.4, 0.22, 0.2, 0.7), (225, 235, 255))
    canvas.paint(canvas.bar((-0.3, 0.35), (-0.05, 0.62), 0.08), _WHITE)
    for y in (0.6, 0.42):
        canvas.paint(canvas.ellipse(0.36, y, 0.06, 0.06), _WHITE)
    return canvas


def _ball(colour: Colour) -> _Canvas:
    canvas = _Canvas(0.8)
    canvas.paint(canvas.ellipse(0, 0.4, 0.4, 0.4), colour, canvas.round_light(0, 0.4, 0.4))
    canvas.paint(canvas.ellipse(-0.14, 0.56, 0.09, 0.07), (255, 225, 225))
    return canvas


def _hat(colour: Colour) -> _Canvas:
    canvas = _Canvas(0.75)
    canvas.paint(canvas.ellipse(0, 0.12, 0.5, 0.12), colour, 0.7)
    crown = canvas.box(-0.27, 0.27, 0.12, 0.68) | canvas.ellipse(0, 0.68, 0.27, 0.06)
    canvas.paint(crown, colour, 1.05 - 0.9 * np.abs(canvas.x + 0.08))
    canvas.paint(canvas.ellipse(0, 0.68, 0.27, 0.06), colour, 1.3)
    canvas.paint(canvas.box(-0.27, 0.27, 0.2, 0.32), _BLACK)
    return canvas


def _balloon(colour: Colour) -> _Canvas:
    canvas = _Canvas(1.7)
    canvas.paint(canvas.bar((0.0, 0.0), (0.06, 0.4), 0.04) | canvas.bar((0.06, 0.4), (0.0, 0.85), 0.04), _WHITE)
    body = canvas.ellipse(0, 1.3, 0.34, 0.4) | canvas.bar((0.0, 0.86), (0.0, 0.95), 0.12)
    canvas.paint(body, colour, canvas.round_light(0, 1.3, 0.45) + 0.05)
    canvas.paint(canvas.ellipse(-0.13, 1.45, 0.06, 0.1), (255, 250, 220))
    return canvas


def _cone(colour: Colour) -> _Canvas:
    canvas = _Canvas(0.95)
    canvas.paint(canvas.box(-0.45, 0.45, 0.0, 0.1), colour, 0.8)
    slope = (np.abs(canvas.x) < 0.05 + 0.33 * (0.95 - canvas.y) / 0.85) & (canvas.y > 0.1)
    canvas.paint(slope, colour)
    for low, high in ((0.28, 0.43), (0.6, 0.72)):
        canvas.paint(slope & (canvas.y > low) & (canvas.y < high), _WHITE)
    return canvas


def _crate(colour: Colour) -> _Canvas:
    canvas = _Canvas(0.9)
    canvas.paint(canvas.box(-0.45, 0.45, 0.0, 0.9), colour, 0.55)
    cross = canvas.bar((-0.4, 0.05), (0.4, 0.85), 0.14) | canvas.bar((-0.4, 0.85), (0.4, 0.05), 0.14)
    canvas.paint(cross & canvas.box(-0.45, 0.45, 0.0, 0.9), colour)
    canvas.paint(canvas.box(-0.45, 0.45, 0.0, 0.9) & ~canvas.box(-0.35, 0.35, 0.1, 0.8), colour)
    return canvas


def _star(colour: Colour) -> _Canvas:
    canvas = _Canvas(0.95)
    angle = np.arctan2(canvas.x, canvas.y - 0.41)
    radius = np.hypot(canvas.x, canvas.y - 0.41)
    # Inside of a star with five points: the distance to its edge in the direction of the angle.
    folded = np.abs((angle + np.pi / 5) % (2 * np.pi / 5) - np.pi / 5)
    inner, outer = 0.21, 0.5
    edge = inner * outer * np.sin(np.pi / 5) / (inner * np.sin(np.pi / 5 - folded) + outer * np.sin(folded))
    canvas.paint(radius < edge, colour)
    canvas.paint(radius < 0.55 * edge, colour, 1.3)
    return canvas


def _bottle(colour: Colour) -> _Canvas:
    canvas = _Canvas(1.15)
    body = canvas.box(-0.22, 0.22, 0.0, 0.6) | canvas.ellipse(0, 0.6, 0.22, 0.2) | canvas.box(-0.09, 0.09, 0.6, 1.0)
    canvas.paint(body, colour, 1.15 - 1.6 * np.abs(canvas.x + 0.06))
    canvas.paint(canvas.box(-0.22, 0.22, 0.18, 0.48), _WHITE)
    canvas.paint(canvas.box(-0.11, 0.11, 1.0, 1.12), _BLACK)
    return canvas


_SPRITES: dict[str, Callable[[Colour], _Canvas]] = {
    "tv": _tv,
    "ball": _ball,
    "hat": _hat,
    "balloon": _balloon,
    "cone": _cone,
    "crate": _crate,
    "star": _star,
    "bottle": _bottle,
}


def sprite(index: int) -> Picture:
    """[height, width, 4]: an object type by its number, transparent around it; the lowest row stands on the floor."""
    kind = OBJECTS[index]
    return _SPRITES[kind.name](kind.colour).picture


# --- files ---


def png(picture: Picture, *, standing: bool = False) -> bytes:
    """A PNG file. `standing` adds the chunk in which Doom looks for a sprite's origin: in the middle, at the bottom."""
    height, width, channels = picture.shape
    header = struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)
    origin = _chunk(b"grAb", struct.pack(">ii", width // 2, height)) if standing else b""
    rows = np.concatenate([np.zeros((height, 1), np.uint8), picture.reshape(height, -1)], axis=1)  # 0: no filter
    body = _chunk(b"IDAT", zlib.compress(rows.tobytes()))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + origin + body + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

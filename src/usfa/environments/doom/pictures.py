"""Pictures of the Doom room: the room's own textures and sprites at Doom's scale, a palette for them, PNG files.

ViZDoom's software renderer shows 256 colours. The palette has a ramp of shades for every colour of the room, so
that objects keep the colours of the rules, near and far.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from usfa.environments.room import textures
from usfa.environments.room.objects import OBJECTS

__all__ = ["TILE", "colormap", "palette", "png", "sprite", "surface"]

TILE = 128
"""Pixels that a texture spans, one per Doom unit; a metre is 64 units."""
_SHADES = 16  # of every colour

Picture = NDArray[np.uint8]  # [height, width, 3], or 4 with alpha


def surface(name: str) -> Picture:
    """Texture of a wall by its side ("north", ...), of the "floor" or of the "ceiling", [TILE, TILE, 3]."""
    picture = textures.surface(name)
    scale = TILE // len(picture)
    return picture.repeat(scale, axis=0).repeat(scale, axis=1)


def sprite(kind: int) -> Picture:
    """Picture of a type of object at 64 pixels per metre, [height, width, 4]; the last row is on the floor."""
    picture = textures.sprite(kind)
    width, low, high = (round(metres * 64) for metres in textures.BOXES[kind].tolist())
    rows, columns = (((np.arange(n) + 0.5) * len(picture) / n).astype(np.int64) for n in (high - low, width))
    scaled = picture[rows][:, columns]
    scaled[..., 3] = np.where(scaled[..., 3] < 128, 0, 255)  # Doom's software renderer has no partial opacity
    scaled[scaled[..., 3] == 0] = 0
    return np.pad(scaled, ((0, low), (0, 0), (0, 0)))


def palette() -> Picture:
    """Shades of the colours of objects, walls and floor, [256, 3]; greys fill the rest."""
    colours = [*(kind.colour for kind in OBJECTS), *textures.WALL_COLOURS, textures.FLOOR_COLOUR]
    ramps = np.concatenate([np.linspace(0.25, 1.5, _SHADES)[:, None] * np.array(colour) for colour in colours])
    greys = np.linspace(0, 255, 256 - len(ramps))[:, None].repeat(3, axis=1)
    return np.concatenate([greys, ramps]).clip(0, 255).round().astype(np.uint8)


def colormap() -> Picture:
    """Index of the colour shown for each colour at each of Doom's 32 light levels, down to half the light, [34, 256].

    The last two rows are for Doom's invulnerability and for black.
    """
    colours = palette().astype(np.float64)
    return np.stack([_nearest(colours * light, colours) for light in (*np.linspace(1.0, 0.5, 32), 1.0, 0.0)])


def _nearest(wanted: NDArray[np.float64], colours: NDArray[np.float64]) -> NDArray[np.uint8]:
    distance = ((wanted[:, None] - colours[None]) ** 2).sum(axis=-1)
    return distance.argmin(axis=1).astype(np.uint8)


def png(picture: Picture, *, standing: bool = False) -> bytes:
    """Encode a PNG file; `standing` adds the chunk with a sprite's origin for Doom, the middle of its lower edge."""
    height, width, channels = picture.shape
    header = struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)
    origin = _chunk(b"grAb", struct.pack(">ii", width // 2, height)) if standing else b""
    rows = np.concatenate([np.zeros((height, 1), np.uint8), picture.reshape(height, -1)], axis=1)  # 0: no filter
    body = _chunk(b"IDAT", zlib.compress(rows.tobytes()))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + origin + body + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

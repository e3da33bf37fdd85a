"""Renderer of the room: one ray per column, in float32, on one core.

The camera is EYE metres above the floor and looks level. A ray is forward + slope · right, so that its parameter is
the depth of the wall it hits. Walls are columns of a texture, floor and ceiling are rows of one depth each, objects are
upright pictures that face the camera, the nearest drawn last.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usfa.compiling import compiled
from usfa.environments.room.rules import CEILING, EYE, FIELD_OF_VIEW
from usfa.environments.room.textures import (
    BOXES,
    SPRITE_LEVELS,
    SURFACE_LEVELS,
    Textures,
    offset_of,
)
from usfa.environments.room.world import Plan, World

__all__ = ["Camera", "draw", "make_camera", "surface_level"]

WALL_TILE, FLOOR_TILE = 2.4, 2.0  # metres that a texture spans
NEAR = np.float32(0.2)  # objects closer than this are not drawn
_SIZE, _SPRITE = 64, 128
_FAR = 1e4
_CLOSEST = np.float32(1e-3)
_NEVER = np.float32(1e30)
_HALF = np.float32(0.5)
_BELOW_EYE, _ABOVE_EYE = np.float32(EYE), np.float32(CEILING - EYE)
_FLOOR, _CEILING = 4, 5
_SURFACE_TEXELS = offset_of(_SIZE, SURFACE_LEVELS)


# Rows of `Camera.wall`, per column of the image: first row of the wall, first row below it; upper end of its column of
# the texture, size of the texture's level; position of the first row in the texture, and the step to the next row.
_TOP, _BOTTOM, _TEXEL, _LEVEL_SIZE, _FROM, _DOWN = range(6)
_View = tuple[np.float32, np.float32, np.float32, np.float32]  # x, y, cosine and sine of the heading


class Camera(NamedTuple):
    """Constants for a size of image, and buffers for the room being drawn."""

    focal: float  # pixels per metre at a depth of one metre
    slope: NDArray[np.float32]  # [W]  metres to the right per metre of depth
    depth: NDArray[np.float32]  # [H]  of the floor or the ceiling in this row
    level: NDArray[np.int64]  # [H]  of their textures' pyramids
    offset: NDArray[np.int64]  # [levels]  where each begins
    sprite_offset: NDArray[np.int64]  # [levels]
    boxes: NDArray[np.float32]  # [types, 3]
    # Buffers:
    wall_depth: NDArray[np.float32]  # [W]
    wall: NDArray[np.int64]  # [6, W]  rows _TOP to _DOWN
    texels: NDArray[np.int32]  # [W]
    order: NDArray[np.int64]  # [K]  objects in view, farthest first
    away: NDArray[np.float32]  # [K]  their depths


def make_camera(height: int, width: int, objects: int, field_of_view: float = FIELD_OF_VIEW) -> Camera:
    """A camera for images [height, width] that span `field_of_view` degrees from left to right."""
    focal = width / 2 / math.tan(math.radians(field_of_view) / 2)
    below = np.arange(height) + 0.5 - height / 2  # pixels below the horizon
    elevation = np.where(below > 0, EYE, CEILING - EYE)
    depth = np.minimum(elevation * focal / np.maximum(abs(below), 1e-9), _FAR)
    # A pixel spans depth / focal metres sideways and depth² / (elevation · focal) forward: their geometric mean.
    footprint = depth**1.5 / (focal * np.sqrt(elevation)) * _SIZE / FLOOR_TILE
    return Camera(
        focal=float(focal),
        slope=((np.arange(width) + 0.5 - width / 2) / focal).astype(np.float32),
        depth=depth.astype(np.float32),
        level=np.array([surface_level(texels) for texels in footprint]),
        offset=np.array([offset_of(_SIZE, level) for level in range(SURFACE_LEVELS)]),
        sprite_offset=np.array([offset_of(_SPRITE, level) for level in range(SPRITE_LEVELS)]),
        boxes=BOXES.astype(np.float32),
        wall_depth=np.zeros(width, np.float32),
        wall=np.zeros((6, width), np.int64),
        texels=np.zeros(width, np.int32),
        order=np.zeros(objects, np.int64),
        away=np.zeros(objects, np.float32),
    )


def surface_level(texels: float) -> int:
    """Level of a pyramid whose texels are about as large as a pixel that spans `texels` of level 0."""
    return int(np.clip(np.floor(np.log2(max(texels, 1e-9)) + 0.5), 0, SURFACE_LEVELS - 1))


@compiled(fastmath=True, inner=True)
def _level(texels: np.float32) -> int:
    """Compute :func:`surface_level` without a logarithm; surfaces and sprites have the same number of levels."""
    return (
        int(texels > np.float32(1.4142135))
        + int(texels > np.float32(2.828427))
        + int(texels > np.float32(5.656854))
        + int(texels > np.float32(11.313708))
        + int(texels > np.float32(22.627417))
        + int(texels > np.float32(45.254833))
    )


@compiled(fastmath=True, inner=True)
def _cast(
    walls: NDArray[np.bool_], cell: np.float32, x: np.float32, y: np.float32, dx: np.float32, dy: np.float32
) -> tuple[np.float32, int]:
    """Depth at which a ray meets a wall, and the side of that wall: 0 east, 1 north, 2 west, 3 south."""
    n = walls.shape[0]
    column, row = int(x / cell), int(y / cell)
    step_x, step_y = (1 if dx > 0 else -1), (1 if dy > 0 else -1)
    per_x = np.float32(1) / dx if dx != 0 else _NEVER  # depth for a metre to the east
    per_y = np.float32(1) / dy if dy != 0 else _NEVER
    next_x = (np.float32(column + (dx > 0)) * cell - x) * per_x if dx != 0 else _NEVER
    next_y = (np.float32(row + (dy > 0)) * cell - y) * per_y if dy != 0 else _NEVER
    while True:
        if next_x < next_y:
            depth, side = next_x, 1 - step_x
            column += step_x
            next_x += cell * abs(per_x)
        else:
            depth, side = next_y, 2 - step_y
            row += step_y
            next_y += cell * abs(per_y)
        if column < 0 or row < 0 or column >= n or row >= n or walls[row, column]:
            return max(depth, _CLOSEST), side


@compiled(fastmath=True, inner=True)
def _measure_walls(height: int, camera: Camera, walls: NDArray[np.bool_], cell: np.float32, view: _View) -> None:
    """Find the wall and its texture in each column; all columns first, so that the processor overlaps them."""
    x, y, cos, sin = view
    wall, wall_depth = camera.wall, camera.wall_depth
    horizon, focal = np.float32(0.5 * height), np.float32(camera.focal)
    for column in range(len(camera.slope)):
        slope = camera.slope[column]
        dx, dy = cos + slope * sin, sin - slope * cos
        depth, side = _cast(walls, cell, x, y, dx, dy)
        along = (y + depth * dy) if side % 2 == 0 else (x + depth * dx)
        scale = focal / depth
        top, bottom = horizon - _ABOVE_EYE * scale, horizon + _BELOW_EYE * scale
        first, last = max(0, math.ceil(top - _HALF)), min(height, math.ceil(bottom - _HALF))
        texels = depth * np.float32(_SIZE / WALL_TILE) / focal  # in a pixel
        level = _level(texels)
        size = _SIZE >> level
        # Positions in the texture are whole numbers of 2^-16 rows, rounded down, so that they never pass the end.
        down = int(texels * np.float32(65536 >> level))
        wall_depth[column] = depth
        wall[_TOP, column], wall[_BOTTOM, column] = first, last
        wall[_LEVEL_SIZE, column] = size
        wall[_TEXEL, column] = (
            side * _SURFACE_TEXELS + camera.offset[level] + (int(along * np.float32(size / WALL_TILE)) & (size - 1))
        )
        wall[_FROM, column] = int((np.float32(first) + _HALF - top) * np.float32(down))
        wall[_DOWN, column] = down


@compiled(fastmath=True, inner=True)
def _draw_walls(image: NDArray[np.uint8], wall: NDArray[np.int64], surfaces: NDArray[np.uint32]) -> None:
    for column in range(image.shape[1]):
        texel, size = wall[_TEXEL, column], wall[_LEVEL_SIZE, column]
        v, down = wall[_FROM, column], wall[_DOWN, column]
        for line in range(wall[_TOP, column], wall[_BOTTOM, column]):
            colour = surfaces[texel + (v >> 16) * size]
            image[line, column, 0] = colour & 255
            image[line, column, 1] = (colour >> 8) & 255
            image[line, column, 2] = (colour >> 16) & 255
            v += down


@compiled(fastmath=True, inner=True)
def _draw_planes(image: NDArray[np.uint8], camera: Camera, surfaces: NDArray[np.uint32], view: _View) -> None:
    """Draw floor and ceiling row by row; the visible place moves evenly along a row."""
    height, width = image.shape[0], image.shape[1]
    x, y, cos, sin = view
    tops, bottoms, texels = camera.wall[_TOP], camera.wall[_BOTTOM], camera.texels
    lowest_top, highest_bottom = 0, height
    for column in range(width):
        lowest_top, highest_bottom = max(lowest_top, tops[column]), min(highest_bottom, bottoms[column])
    for line in range(height):
        if lowest_top <= line < highest_bottom:
            continue
        floor = 2 * line >= height
        level = camera.level[line]
        size = _SIZE >> level
        mask, bits = np.int32(size - 1), np.int32(6 - level)
        offset = np.int32((_FLOOR if floor else _CEILING) * _SURFACE_TEXELS + camera.offset[level])
        scale = np.float32(size) * np.float32(1 / FLOOR_TILE)
        depth = camera.depth[line]
        x0, x1 = (x + depth * cos) * scale, depth * sin * scale
        y0, y1 = (y + depth * sin) * scale, -depth * cos * scale
        for column in range(width):
            slope = camera.slope[column]
            u = np.int32(x0 + slope * x1) & mask
            v = np.int32(y0 + slope * y1) & mask
            texels[column] = offset + (v << bits) + u
        for column in range(width):
            if (floor and line >= bottoms[column]) or (not floor and line < tops[column]):
                colour = surfaces[texels[column]]
                image[line, column, 0] = colour & 255
                image[line, column, 1] = (colour >> 8) & 255
                image[line, column, 2] = (colour >> 16) & 255


@compiled(inner=True)
def _between(a: int, b: int, share: int) -> int:
    """Interpolate four channels at once: (1 - share) · a + share · b, share in 128ths, 16 bits to a channel."""
    return ((a * (128 - share) + b * share) >> 7) & 0x00FF00FF00FF00FF


@compiled(fastmath=True, inner=True)
def _draw_sprite(
    image: NDArray[np.uint8],
    wall_depth: NDArray[np.float32],
    picture: NDArray[np.int64],
    offsets: NDArray[np.int64],
    edges: tuple[np.float32, np.float32, np.float32, np.float32],
    depth: np.float32,
) -> None:
    """Blend an upright picture over the image, interpolated between its four nearest texels."""
    height, width = image.shape[0], image.shape[1]
    left, top, wide, high = edges
    first_column, last_column = max(0, math.ceil(left - _HALF)), min(width, math.ceil(left + wide - _HALF))
    first_line, last_line = max(0, math.ceil(top - _HALF)), min(height, math.ceil(top + high - _HALF))
    if first_column >= last_column or first_line >= last_line:
        return
    level = _level(np.float32(_SPRITE) / wide)
    size = _SPRITE >> level
    offset, most = offsets[level], (size - 1) << 16
    # Places in the picture in whole numbers of 2^-16 texels.
    across, down = np.float32(size << 16) / wide, np.float32(size << 16) / high
    u = int((np.float32(first_column) + _HALF - left) * across) - 32768
    v_first = int((np.float32(first_line) + _HALF - top) * down) - 32768
    step_u, step_v = int(across), int(down)
    for column in range(first_column, last_column):
        u_inside = min(max(u, 0), most)
        u += step_u
        if depth >= wall_depth[column]:
            continue
        u0, share_u = u_inside >> 16, (u_inside >> 9) & 127
        u1 = min(u0 + 1, size - 1)
        v = v_first
        for line in range(first_line, last_line):
            v_inside = min(max(v, 0), most)
            v += step_v
            v0, share_v = v_inside >> 16, (v_inside >> 9) & 127
            upper = offset + v0 * size
            lower = offset + min(v0 + 1, size - 1) * size
            a, b = picture[upper + u0], picture[upper + u1]
            c, d = picture[lower + u0], picture[lower + u1]
            if (a | b | c | d) == 0:
                continue
            colour = _between(_between(a, b, share_u), _between(c, d, share_u), share_v)
            behind = 255 - (colour >> 48)
            for channel in range(3):
                under = (image[line, column, channel] * behind * 257 + 32896) >> 16  # a 255th, rounded
                image[line, column, channel] = min(((colour >> (16 * channel)) & 255) + under, 255)


@compiled(fastmath=True, inner=True)
def _draw_objects(
    image: NDArray[np.uint8],
    camera: Camera,
    types: NDArray[np.int64],
    sprites: NDArray[np.int64],
    view: _View,
    objects: NDArray[np.float64],
    alive: NDArray[np.bool_],
) -> None:
    x, y, cos, sin = view
    order, away, reach = camera.order, camera.away, abs(camera.slope[0])
    count = 0
    for index in range(objects.shape[0]):
        dx, dy = np.float32(objects[index, 0]) - x, np.float32(objects[index, 1]) - y
        depth = dx * cos + dy * sin
        if not alive[index] or depth < NEAR or abs(dx * sin - dy * cos) > depth * reach + np.float32(1):
            continue
        place = count
        while place > 0 and away[place - 1] < depth:  # farthest first
            away[place], order[place] = away[place - 1], order[place - 1]
            place -= 1
        away[place], order[place] = depth, index
        count += 1
    horizon, middle = np.float32(0.5 * image.shape[0]), np.float32(0.5 * image.shape[1])
    for place in range(count):
        index, depth = order[place], away[place]
        kind = types[index]
        wide, low, high = camera.boxes[kind, 0], camera.boxes[kind, 1], camera.boxes[kind, 2]
        aside = (np.float32(objects[index, 0]) - x) * sin - (np.float32(objects[index, 1]) - y) * cos
        scale = np.float32(camera.focal) / depth
        left, top = middle + (aside - _HALF * wide) * scale, horizon - (high - _BELOW_EYE) * scale
        edges = (left, top, wide * scale, (high - low) * scale)
        _draw_sprite(image, camera.wall_depth, sprites[kind], camera.sprite_offset, edges, depth)


@compiled(fastmath=True)
def draw(world: World, plan: Plan, camera: Camera, textures: Textures, images: NDArray[np.uint8]) -> None:
    """Draw the view of each room into images [B, H, W, 3]."""
    for room in range(images.shape[0]):
        image, heading = images[room], world.pose[room, 2]
        x, y = np.float32(world.pose[room, 0]), np.float32(world.pose[room, 1])
        view = (x, y, np.float32(math.cos(heading)), np.float32(math.sin(heading)))
        _measure_walls(images.shape[1], camera, plan.walls, np.float32(plan.cell), view)
        _draw_walls(image, camera.wall, textures.surfaces)
        _draw_planes(image, camera, textures.surfaces, view)
        _draw_objects(image, camera, plan.types, textures.sprites, view, world.objects[room], world.alive[room])

"""The view of every room, drawn by casting a ray per column; float32, one core, no copies.

A camera stands EYE metres above the floor and looks level. A ray is forward + slope · right, so that its parameter is
the depth of the wall it hits. Walls are columns of a texture, floor and ceiling are rows of one depth each, objects are
upright pictures that face the camera, the nearest drawn last.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from usfa.environments.room.compiling import compiled
from usfa.environments.room.textures import (
    BOXES,
    SPRITE_LEVELS,
    SURFACE_LEVELS,
    Textures,
    offset_of,
)
from usfa.environments.room.world import Plan, World

__all__ = ["CEILING", "EYE", "FIELD_OF_VIEW", "Camera", "draw", "make_camera", "surface_level"]

EYE = 0.9  # metres above the floor
CEILING = 2.4
FIELD_OF_VIEW = math.radians(80)
WALL_TILE, FLOOR_TILE = 2.4, 2.0  # metres that a texture spans
NEAR = 0.2  # objects closer than this are not drawn
_SIZE, _SPRITE = 64, 128
_FAR = 1e4
_FLOOR, _CEILING = 4, 5


class Camera(NamedTuple):
    """What depends on the size of the image only."""

    focal: float  # pixels
    slope: NDArray[np.float32]  # [W]  metres to the right per metre of depth
    depth: NDArray[np.float32]  # [H]  of the floor or the ceiling in this row
    level: NDArray[np.int64]  # [H]  of their textures' pyramids
    offset: NDArray[np.int64]  # [levels]  where each begins
    sprite_offset: NDArray[np.int64]  # [levels]
    boxes: NDArray[np.float32]  # [types, 3]


def make_camera(height: int, width: int) -> Camera:
    focal = width / 2 / math.tan(FIELD_OF_VIEW / 2)
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
    )


def surface_level(texels: float) -> int:
    """The level of a pyramid whose texels are about as large as a pixel that spans so many of level 0."""
    return int(np.clip(np.floor(np.log2(max(texels, 1e-9)) + 0.5), 0, SURFACE_LEVELS - 1))


@compiled(fastmath=True, inline=True)
def _level(texels: np.float32, levels: int) -> int:
    level = 0
    while texels > np.float32(1.4142135) and level < levels - 1:
        texels *= np.float32(0.5)
        level += 1
    return level


@compiled(fastmath=True, inline=True)
def _cast(plan: Plan, x: float, y: float, dx: float, dy: float) -> tuple[float, int]:
    """Depth at which a ray meets a wall, and which way that wall looks from inside: 0 east, 1 north, 2 west, 3 south."""
    n, cell = plan.walls.shape[0], plan.cell
    column, row = int(x / cell), int(y / cell)
    next_x = 1e30 if dx == 0 else ((column + (dx > 0)) * cell - x) / dx
    next_y = 1e30 if dy == 0 else ((row + (dy > 0)) * cell - y) / dy
    step_x, step_y = (1 if dx > 0 else -1), (1 if dy > 0 else -1)
    delta_x = 1e30 if dx == 0 else cell / abs(dx)
    delta_y = 1e30 if dy == 0 else cell / abs(dy)
    while True:
        if next_x < next_y:
            depth, side = next_x, (0 if dx > 0 else 2)
            column += step_x
            next_x += delta_x
        else:
            depth, side = next_y, (1 if dy > 0 else 3)
            row += step_y
            next_y += delta_y
        if column < 0 or row < 0 or column >= n or row >= n or plan.walls[row, column]:
            return depth, side


@compiled(fastmath=True, inline=True)
def _draw_walls(
    image: NDArray[np.uint8],
    camera: Camera,
    plan: Plan,
    surfaces: NDArray[np.uint32],
    pose: NDArray[np.float64],
    depths: NDArray[np.float32],
    tops: NDArray[np.int32],
    bottoms: NDArray[np.int32],
) -> None:
    height, width = image.shape[0], image.shape[1]
    x, y = pose[0], pose[1]
    cos, sin = math.cos(pose[2]), math.sin(pose[2])
    for column in range(width):
        slope = camera.slope[column]
        dx, dy = cos + slope * sin, sin - slope * cos
        depth, side = _cast(plan, x, y, dx, dy)
        depths[column] = depth
        along = (y + depth * dy) if side % 2 == 0 else (x + depth * dx)
        scale = camera.focal / depth
        top = 0.5 * height - (CEILING - EYE) * scale
        bottom = 0.5 * height + EYE * scale
        first, last = max(0, math.ceil(top - 0.5)), min(height, math.ceil(bottom - 0.5))
        tops[column], bottoms[column] = first, last
        level = _level(np.float32(_SIZE / WALL_TILE / scale), SURFACE_LEVELS)
        size = _SIZE >> level
        texel = camera.offset[level] + (int(along * (size / WALL_TILE)) & (size - 1))
        texture = surfaces[side]
        down = np.float32(size / (bottom - top))
        v = np.float32((first + 0.5 - top) * down)
        for line in range(first, last):
            colour = texture[texel + min(int(v), size - 1) * size]
            image[line, column, 0] = colour & 255
            image[line, column, 1] = (colour >> 8) & 255
            image[line, column, 2] = (colour >> 16) & 255
            v += down


@compiled(fastmath=True, inline=True)
def _draw_planes(
    image: NDArray[np.uint8],
    camera: Camera,
    surfaces: NDArray[np.uint32],
    pose: NDArray[np.float64],
    texels: NDArray[np.int32],
    tops: NDArray[np.int32],
    bottoms: NDArray[np.int32],
) -> None:
    """Floor and ceiling, row by row: the place seen moves evenly along a row."""
    height, width = image.shape[0], image.shape[1]
    cos, sin = math.cos(pose[2]), math.sin(pose[2])
    highest, lowest = height, 0
    for column in range(width):
        highest, lowest = min(highest, tops[column]), max(lowest, bottoms[column])
    nearest, farthest = 0, height
    for column in range(width):
        nearest, farthest = max(nearest, tops[column]), min(farthest, bottoms[column])
    for line in range(height):
        if nearest <= line < farthest:
            continue
        floor = 2 * line >= height
        texture = surfaces[_FLOOR] if floor else surfaces[_CEILING]
        level = camera.level[line]
        size = _SIZE >> level
        mask, bits, offset = np.int32(size - 1), np.int32(6 - level), np.int32(camera.offset[level])
        scale = size / FLOOR_TILE
        depth = camera.depth[line]
        x0, x1 = np.float32((pose[0] + depth * cos) * scale), np.float32(depth * sin * scale)
        y0, y1 = np.float32((pose[1] + depth * sin) * scale), np.float32(-depth * cos * scale)
        for column in range(width):
            slope = camera.slope[column]
            u = np.int32(x0 + slope * x1) & mask
            v = np.int32(y0 + slope * y1) & mask
            texels[column] = offset + (v << bits) + u
        for column in range(width):
            if (floor and line >= bottoms[column]) or (not floor and line < tops[column]):
                colour = texture[texels[column]]
                image[line, column, 0] = colour & 255
                image[line, column, 1] = (colour >> 8) & 255
                image[line, column, 2] = (colour >> 16) & 255


@compiled(fastmath=True, inline=True)
def _draw_sprite(
    image: NDArray[np.uint8],
    camera: Camera,
    sprite: NDArray[np.uint32],
    box: NDArray[np.float32],
    aside: float,
    depth: float,
    depths: NDArray[np.float32],
) -> None:
    """An upright picture, sampled between its four nearest texels and laid over what is there."""
    height, width = image.shape[0], image.shape[1]
    scale = camera.focal / depth
    left = 0.5 * width + (aside - 0.5 * box[0]) * scale
    right = left + box[0] * scale
    top = 0.5 * height - (box[2] - EYE) * scale
    bottom = top + (box[2] - box[1]) * scale
    first_column, last_column = max(0, math.ceil(left - 0.5)), min(width, math.ceil(right - 0.5))
    first_line, last_line = max(0, math.ceil(top - 0.5)), min(height, math.ceil(bottom - 0.5))
    level = _level(np.float32(_SPRITE / (right - left)), SPRITE_LEVELS)
    size = _SPRITE >> level
    offset = camera.sprite_offset[level]
    across, down = np.float32(size / (right - left)), np.float32(size / (bottom - top))
    for column in range(first_column, last_column):
        if depth >= depths[column]:
            continue
        u = np.float32((column + 0.5 - left) * across - 0.5)
        u = min(max(u, np.float32(0)), np.float32(size - 1))
        u0 = int(u)
        u1 = min(u0 + 1, size - 1)
        fu = np.float32(u - u0)
        v = np.float32((first_line + 0.5 - top) * down - 0.5)
        for line in range(first_line, last_line):
            clipped = min(max(v, np.float32(0)), np.float32(size - 1))
            v += down
            v0 = int(clipped)
            fv = np.float32(clipped - v0)
            upper, lower = offset + v0 * size, offset + min(v0 + 1, size - 1) * size
            a, b, c, d = sprite[upper + u0], sprite[upper + u1], sprite[lower + u0], sprite[lower + u1]
            if (a | b | c | d) == 0:
                continue
            wa, wb = (1 - fu) * (1 - fv), fu * (1 - fv)
            wc, wd = (1 - fu) * fv, fu * fv
            opacity = wa * (a >> 24) + wb * (b >> 24) + wc * (c >> 24) + wd * (d >> 24)
            behind = np.float32(1) - opacity * np.float32(1 / 255)
            for channel in range(3):
                shift = 8 * channel
                colour = (
                    wa * ((a >> shift) & 255)
                    + wb * ((b >> shift) & 255)
                    + wc * ((c >> shift) & 255)
                    + wd * ((d >> shift) & 255)
                )
                mixed = colour + behind * image[line, column, channel] + np.float32(0.5)
                image[line, column, channel] = np.uint8(min(mixed, np.float32(255)))


@compiled(fastmath=True, inline=True)
def _draw_objects(
    image: NDArray[np.uint8],
    camera: Camera,
    plan: Plan,
    sprites: NDArray[np.uint32],
    pose: NDArray[np.float64],
    objects: NDArray[np.float64],
    alive: NDArray[np.bool_],
    depths: NDArray[np.float32],
    order: NDArray[np.int64],
    away: NDArray[np.float64],
) -> None:
    cos, sin = math.cos(pose[2]), math.sin(pose[2])
    reach = abs(camera.slope[0])
    count = 0
    for index in range(objects.shape[0]):
        dx, dy = objects[index, 0] - pose[0], objects[index, 1] - pose[1]
        depth = dx * cos + dy * sin
        if not alive[index] or depth < NEAR or abs(dx * sin - dy * cos) > depth * reach + 1.0:
            continue
        place = count
        while place > 0 and away[place - 1] < depth:  # farthest first
            away[place], order[place] = away[place - 1], order[place - 1]
            place -= 1
        away[place], order[place] = depth, index
        count += 1
    for place in range(count):
        index = order[place]
        aside = (objects[index, 0] - pose[0]) * sin - (objects[index, 1] - pose[1]) * cos
        kind = plan.types[index]
        _draw_sprite(image, camera, sprites[kind], camera.boxes[kind], aside, away[place], depths)


@compiled(fastmath=True)
def draw(world: World, plan: Plan, camera: Camera, textures: Textures, images: NDArray[np.uint8]) -> None:
    """The view of each room into images [B, H, W, 3]."""
    width, objects = images.shape[2], world.objects.shape[1]
    depths = np.empty(width, np.float32)
    tops, bottoms, texels = np.empty(width, np.int32), np.empty(width, np.int32), np.empty(width, np.int32)
    order, away = np.empty(objects, np.int64), np.empty(objects, np.float64)
    for room in range(images.shape[0]):
        image, pose = images[room], world.pose[room]
        _draw_walls(image, camera, plan, textures.surfaces, pose, depths, tops, bottoms)
        _draw_planes(image, camera, textures.surfaces, pose, texels, tops, bottoms)
        _draw_objects(
            image, camera, plan, textures.sprites, pose, world.objects[room], world.alive[room], depths, order, away
        )

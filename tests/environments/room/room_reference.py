"""The view of a room pixel by pixel, straight from geometry: slow, and shares only the paint with the fast one."""

import math

import numpy as np

from usfa.environments.room.drawing import FLOOR_TILE, WALL_TILE, surface_level
from usfa.environments.room.rules import CEILING, EYE, FIELD_OF_VIEW, wall_cells
from usfa.environments.room.textures import BOXES, offset_of, textures

NEAR = 0.2
SURFACE, SPRITE, LEVELS = 64, 128, 7


def reference_image(rules, pose, objects, alive, size, field_of_view=FIELD_OF_VIEW):
    focal = size / 2 / math.tan(math.radians(field_of_view) / 2)
    blocks = list(wall_blocks(rules))
    image = np.zeros((size, size, 3))
    for row in range(size):
        for column in range(size):
            right = (column + 0.5 - size / 2) / focal
            up = (size / 2 - row - 0.5) / focal
            image[row, column] = colour_of_ray(rules, pose, objects, alive, right, up, focal, blocks)
    return image


def wall_blocks(rules):
    """(low, high) corners of every solid rectangle: the map's cells, and four slabs around the room."""
    walls, side = wall_cells(rules), rules.side
    cell = side / len(walls)
    for row, column in np.argwhere(walls):
        yield (column * cell, row * cell), ((column + 1) * cell, (row + 1) * cell)
    yield (-1, -1), (0, side + 1)
    yield (side, -1), (side + 1, side + 1)
    yield (-1, -1), (side + 1, 0)
    yield (-1, side), (side + 1, side + 1)


def colour_of_ray(rules, pose, objects, alive, right, up, focal, blocks):
    x, y, heading = pose
    forward = np.array([math.cos(heading), math.sin(heading)])
    sideways = np.array([math.sin(heading), -math.cos(heading)])
    ray = forward + right * sideways
    depth, face = nearest_wall(x, y, ray, blocks)
    height = EYE + depth * up
    if 0 <= height <= CEILING:
        colour = wall_colour(np.array([x, y]) + depth * ray, height, depth, face, focal)
    else:
        plane = CEILING if up > 0 else 0.0
        reached = (plane - EYE) / up
        colour = plane_colour(np.array([x, y]) + reached * ray, reached, up > 0, focal)
    return with_objects(rules, pose, objects, alive, right, up, focal, depth, colour)


def nearest_wall(x, y, ray, blocks):
    """Where the ray enters the first block, and whether it then moves east, north, west or south."""
    nearest, face = math.inf, 0
    for low, high in blocks:
        enters, leaves, side = -math.inf, math.inf, 0
        for axis, position in enumerate((x, y)):
            if ray[axis] == 0:
                if not low[axis] < position < high[axis]:
                    enters = math.inf
                continue
            a, b = sorted(((low[axis] - position) / ray[axis], (high[axis] - position) / ray[axis]))
            if a > enters:
                enters, side = a, axis + (0 if ray[axis] > 0 else 2)
            leaves = min(leaves, b)
        if 1e-9 < enters < leaves and enters < nearest:
            nearest, face = enters, side
    return nearest, face


def surface_texel(surface, level, row, column):
    size = SURFACE >> level
    texel = textures().surfaces[surface * offset_of(SURFACE, LEVELS) + offset_of(SURFACE, level) + row * size + column]
    return np.array([texel & 255, texel >> 8 & 255, texel >> 16 & 255], np.float64)


def wall_colour(place, height, depth, face, focal):
    level = surface_level(SURFACE / WALL_TILE * depth / focal)
    size = SURFACE >> level
    along = place[1] if face % 2 == 0 else place[0]
    row = min(int((CEILING - height) / CEILING * size), size - 1)
    return surface_texel(face, level, row, math.floor(along * size / WALL_TILE) % size)


def plane_colour(place, depth, ceiling, focal):
    height = CEILING - EYE if ceiling else EYE
    footprint = math.sqrt(depth / focal * depth**2 / (height * focal))
    level = surface_level(footprint * SURFACE / FLOOR_TILE)
    size = SURFACE >> level
    column, row = (math.floor(coordinate * size / FLOOR_TILE) % size for coordinate in place)
    return surface_texel(5 if ceiling else 4, level, row, column)


def with_objects(rules, pose, objects, alive, right, up, focal, wall, colour):
    """Every object whose upright picture the ray meets before the wall, the farthest first."""
    x, y, heading = pose
    away = objects - np.array([x, y])
    depths = away @ np.array([math.cos(heading), math.sin(heading)])
    asides = away @ np.array([math.sin(heading), -math.cos(heading)])
    for index in np.argsort(-depths):
        width, low, high = BOXES[index // rules.objects_per_type]
        depth = depths[index]
        u = (right * depth - asides[index]) / width + 0.5
        v = (high - EYE - up * depth) / (high - low)
        if alive[index] and NEAR <= depth < wall and 0 <= u < 1 and 0 <= v < 1:
            level = surface_level(SPRITE * depth / (width * focal))
            sample = between_texels(index // rules.objects_per_type, level, u, v)
            colour = np.minimum(sample[:3] + (1 - sample[3] / 255) * colour, 255)
    return colour


def between_texels(kind, level, u, v):
    size = SPRITE >> level
    across, down = (np.clip(share * size - 0.5, 0, size - 1) for share in (u, v))
    total = np.zeros(4)
    for row in range(int(down), min(int(down) + 2, size)):
        for column in range(int(across), min(int(across) + 2, size)):
            weight = max(0, 1 - abs(column - across)) * max(0, 1 - abs(row - down))
            if weight:
                texel = int(textures().sprites[kind, offset_of(SPRITE, level) + row * size + column])
                total += weight * np.array([texel >> shift & 255 for shift in (0, 16, 32, 48)])
    return total

"""Frames of a film: the view, a map of the room, and lines of text."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.font_manager import findfont
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

__all__ = ["MapOfRoom", "compose", "contact_sheet"]

Pixels = NDArray[np.uint8]
_INK, _PAPER, _WALL, _PATH = (30, 30, 30), (250, 250, 247), (120, 120, 125), (150, 150, 160)


@dataclass(frozen=True)
class MapOfRoom:
    """The content of the map. Positions are in metres, x to the right and y up."""

    side: float
    walls: NDArray[np.bool_]  # [cells, cells]  rows from the bottom up
    objects: NDArray[np.float64]  # [K, 2]
    colours: list[tuple[int, int, int]]  # of each object
    path: NDArray[np.float64]  # [T, 2]
    pose: tuple[float, float, float]  # x, y, heading in radians, counter-clockwise from x

    def draw(self, size: int) -> Image.Image:
        image = Image.new("RGB", (size, size), _PAPER)
        pen = ImageDraw.Draw(image)
        scale = size / self.side
        cell = size / len(self.walls)
        for row, column in np.argwhere(self.walls):
            top = size - (row + 1) * cell
            pen.rectangle((column * cell, top, (column + 1) * cell, top + cell), fill=_WALL)
        if len(self.path) > 1:
            pen.line([(x * scale, size - y * scale) for x, y in self.path], fill=_PATH, width=2)
        radius = 0.3 * scale
        for (x, y), colour in zip(self.objects, self.colours, strict=True):
            centre = (x * scale, size - y * scale)
            pen.ellipse(_around(centre, radius), fill=colour, outline=_INK)
        self._agent(pen, scale, size)
        pen.rectangle((0, 0, size - 1, size - 1), outline=_INK, width=3)
        return image

    def _agent(self, pen: ImageDraw.ImageDraw, scale: float, size: int) -> None:
        x, y, heading = self.pose
        corners = [(0.45, 0.0), (0.3, 2.5), (0.3, -2.5)]
        points = [
            ((x + far * math.cos(heading + turn)) * scale, size - (y + far * math.sin(heading + turn)) * scale)
            for far, turn in corners
        ]
        pen.polygon(points, fill=(255, 255, 255), outline=_INK)


def _around(centre: tuple[float, float], radius: float) -> tuple[float, float, float, float]:
    return centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius


def compose(view: Pixels, plan: MapOfRoom | None, lines: list[str], size: int) -> Pixels:
    """Compose a frame: lines of text on top, the view below them, and the map, if there is one, beside the view."""
    header = 8 + 18 * len(lines)
    frame = Image.new("RGB", (size * (1 if plan is None else 2), header + size), _PAPER)
    pen = ImageDraw.Draw(frame)
    font = ImageFont.truetype(findfont("DejaVu Sans"), 12)  # ships with matplotlib, and has φ
    for number, line in enumerate(lines):
        pen.text((8, 4 + 18 * number), line, fill=_INK, font=font)
    frame.paste(Image.fromarray(view).resize((size, size), Image.Resampling.NEAREST), (0, header))
    if plan is not None:
        frame.paste(plan.draw(size), (size, header))
    return np.asarray(frame)


def contact_sheet(frames: list[Pixels], columns: int = 4) -> Pixels:
    """Arrange frames in rows."""
    height, width = frames[0].shape[:2]
    rows = math.ceil(len(frames) / columns)
    sheet = np.full((rows * height, columns * width, 3), 255, np.uint8)
    for number, frame in enumerate(frames):
        row, column = divmod(number, columns)
        sheet[row * height : (row + 1) * height, column * width : (column + 1) * width] = frame
    return sheet

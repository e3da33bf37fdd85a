"""Contact sheets of the room, to look at: random views, and every type of object from near to far.

python docs/room_sheet.py [--out docs/results/room]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from usfa.environments.room.env import RoomBatch
from usfa.environments.room.objects import OBJECTS
from usfa.environments.room.rules import RoomRules

__all__ = ["DISTANCES", "contact_sheet", "line_up", "main", "random_views"]

Images = NDArray[np.uint8]
DISTANCES = (0.8, 1.6, 3.0, 6.0, 11.0)  # metres


def contact_sheet(images: Images, columns: int, scale: int) -> Images:
    """[N, H, W, 3] -> one image with white lines between them, every pixel drawn `scale` times as large."""
    framed = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=255)
    rows = [np.concatenate(list(framed[first : first + columns]), axis=1) for first in range(0, len(images), columns)]
    sheet: Images = np.concatenate(rows).repeat(scale, axis=0).repeat(scale, axis=1)
    return sheet


def random_views(image_size: int, count: int, rules: RoomRules | None = None) -> Images:
    """What one sees at the start of the rooms with the seeds 0, 1, ..."""
    return RoomBatch(count, rules, image_size=image_size).observation


def line_up(image_size: int) -> Images:
    """Every type, straight ahead, by distance: [distances · types, H, W, 3]."""
    kinds = len(OBJECTS)
    batch = RoomBatch(kinds * len(DISTANCES), RoomRules(types=kinds, objects_per_type=1, side=14.0), image_size=8)
    batch.world.pose[:] = (1.0, 7.0, 0.0)
    batch.world.alive[:] = np.tile(np.eye(kinds, dtype=np.bool_), (len(DISTANCES), 1))
    batch.world.objects[..., 0] = 1.0 + np.repeat(DISTANCES, kinds)[:, None]
    batch.world.objects[..., 1] = 7.0
    return batch.render(image_size)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results/room"))
    out: Path = parser.parse_args(arguments).out
    out.mkdir(parents=True, exist_ok=True)
    for image_size, scale in ((84, 2), (42, 4)):
        sheets = {
            "views": contact_sheet(random_views(image_size, 18), 6, scale),
            "types": contact_sheet(line_up(image_size), len(OBJECTS), scale),
        }
        for name, sheet in sheets.items():
            Image.fromarray(sheet).save(out / f"{name}-{image_size}.png", optimize=True)


if __name__ == "__main__":
    main()

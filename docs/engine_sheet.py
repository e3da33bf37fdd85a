"""A sheet with both engines of the room at 84×84: each type of object near and far, and eight views at random.

python docs/engine_sheet.py [--out docs/results/room/engines.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from room_sheet import DISTANCES as OUR_DISTANCES
from room_sheet import line_up, random_views

from usfa.environments.doom import DoomRoom
from usfa.environments.room.objects import OBJECTS

Image = NDArray[np.uint8]

DISTANCES = {"near": (2.0, 3.0), "far": (6.0, 8.0)}  # metres
SEEDS = 3000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results/room/engines.png"))
    out: Path = parser.parse_args().out
    env = DoomRoom(image_size=84, types=len(OBJECTS), objects_per_type=1, positions=True)
    views = _views_of_types(env)
    env.close()
    env = DoomRoom(image_size=84)
    doom_views = [env.reset(seed=seed)[0] for seed in range(len(OBJECTS))]
    env.close()
    ours = line_up(84).reshape(len(OUR_DISTANCES), len(OBJECTS), 84, 84, 3)
    kinds = range(len(OBJECTS))
    rows = {
        "embedded, 3 m": list(ours[OUR_DISTANCES.index(3.0)]),
        "Doom, 2–3 m": [views[kind, "near"] for kind in kinds],
        "embedded, 6 m": list(ours[OUR_DISTANCES.index(6.0)]),
        "Doom, 6–8 m": [views[kind, "far"] for kind in kinds],
        "embedded, any": list(random_views(84, len(OBJECTS))),
        "Doom, any": doom_views,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    _draw(rows, out)
    print(f"Wrote {out}.")


def _views_of_types(env: DoomRoom) -> dict[tuple[int, str], Image]:
    """First views of episodes in which one object stands ahead, alone."""
    views: dict[tuple[int, str], Image] = {}
    for seed in range(SEEDS):
        image, info = env.reset(seed=seed)
        kind, distance = _ahead(info["agent"], info["objects"])
        for name, (least, most) in DISTANCES.items():
            if kind is not None and least < distance < most:
                views.setdefault((kind, name), image)
        if len(views) == len(OBJECTS) * len(DISTANCES):
            return views
    raise SystemExit(f"Not every type stood alone in front of the camera in {SEEDS} episodes.")


def _ahead(agent: NDArray[np.float64], objects: NDArray[np.float64]) -> tuple[int | None, float]:
    """Type and distance of the object within 10 degrees, if it is the only one within 20."""
    away = objects[:, 1:] - agent[:2]
    bearing = np.angle(np.exp(1j * (np.arctan2(away[:, 1], away[:, 0]) - agent[2])))
    seen = np.flatnonzero(np.abs(bearing) < np.radians(20))
    if len(seen) != 1 or abs(bearing[seen[0]]) > np.radians(10):
        return None, 0.0
    return int(objects[seen[0], 0]), float(np.hypot(*away[seen[0]]))


def _draw(rows: dict[str, list[Image]], out: Path) -> None:
    figure, axes = plt.subplots(len(rows), len(OBJECTS), figsize=(1.5 * len(OBJECTS), 9.6), layout="constrained")
    for row, (label, images) in enumerate(rows.items()):
        for ax, image in zip(axes[row], images, strict=True):
            ax.imshow(image, interpolation="nearest")
            ax.set(xticks=[], yticks=[])
        axes[row, 0].set_ylabel(label)
    for ax, kind in zip(axes[0], OBJECTS, strict=True):
        ax.set_title(kind.name)
    figure.savefig(out, dpi=110, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    main()

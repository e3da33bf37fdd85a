"""Draw the ways of an agent on minecart, one preference per panel: python docs/minecart_ways.py runs/minecart

The agent, for example: usfa train minecart-v0 --frames 100000 --learner.gamma 0.98 --out runs/minecart
"""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from mo_gymnasium.envs.minecart.minecart import BASE_RADIUS, MINE_RADIUS
from numpy.typing import NDArray

import usfa
from usfa.environments import make
from usfa.figures.style import INK, PAGE, save, styled

OUT = Path(__file__).parent / "results" / "mo" / "minecart-ways.png"
PREFERENCES = {
    "first ore": (1.0, 0.0, 0.0),
    "second ore": (0.0, 1.0, 0.0),
    "both, fuel is cheap": (0.45, 0.45, 0.1),
    "both, fuel counts": (0.25, 0.25, 0.5),
}
FIRST, SECOND, WAY = "#D55E00", "#0072B2", "#222222"
EPISODES, STEPS = 5, 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    words = parser.parse_args()
    agent = usfa.load(words.run, words.seed)
    env: Any = make("minecart-v0")
    with closing(env), styled():
        figure = Figure(figsize=(PAGE, 3.9), layout="constrained")
        for row, leaves in zip(figure.subplots(2, len(PREFERENCES)), (False, True), strict=True):
            row[0].set_ylabel("loops left" if leaves else "as the rule decides", fontsize=8)
            for axes, (title, w) in zip(row, PREFERENCES.items(), strict=True):
                draw_map(axes, env.unwrapped.mines)
                ways = [way(env, agent.policy(np.array(w)), seed, leaves) for seed in range(EPISODES)]
                draw_ways(axes, ways, "" if leaves else title)
        save(figure, words.out)


def draw_ways(axes: Axes, ways: list[tuple[NDArray[np.float64], NDArray[np.float64]]], title: str) -> None:
    """The places of each episode; a cross where the cart has not come home."""
    for places, _ in ways:
        axes.plot(*places.T, color=WAY, linewidth=0.9, alpha=0.6)
        if len(places) > STEPS:
            axes.plot(*places[-1], "x", color=WAY, markersize=6)
    first, second, fuel = np.mean([phi for _, phi in ways], axis=0)
    numbers = f"{first:.2f}, {second:.2f}, fuel {fuel:.1f}".replace("-", "−")
    axes.set_title(f"{title}\n{numbers}" if title else numbers, fontsize=7.5)


def draw_map(axes: Axes, mines: list[Any]) -> None:
    """The base in the corner and the mines, with the mean ores of a scoop."""
    axes.add_patch(Circle((0, 0), BASE_RADIUS, color="#dddddd"))
    axes.text(0.02, 0.03, "base", fontsize=6.5, color=INK)
    for mine in mines:
        first, second = (distribution.mean() for distribution in mine.distributions)
        axes.add_patch(Circle(mine.pos, MINE_RADIUS, color="#f1f1f1"))
        for offset, amount, colour in ((-0.045, first, FIRST), (0.045, second, SECOND)):
            axes.add_patch(Circle(mine.pos + np.array([offset, 0]), 0.2 * amount, color=colour))
    axes.set(xlim=(-0.02, 1.02), ylim=(1.02, -0.02), aspect="equal", xticks=[], yticks=[])


def way(env: Any, policy: Any, seed: int, leaves: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Places of the cart in one episode, [T, 2], and what it delivered and burned; `leaves`: it leaves loops."""
    seen, _ = env.reset(seed=seed)
    policy.reset()
    places, total, phi = [seen[:2]], np.zeros(3), None
    for _ in range(STEPS):
        seen, phi, terminated, truncated, _ = env.step(policy(seen, phi=phi if leaves else None))
        places.append(seen[:2])
        total += phi
        if terminated or truncated:
            break
    return np.array(places, np.float64), total


if __name__ == "__main__":
    main()

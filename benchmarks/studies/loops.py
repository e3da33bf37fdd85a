"""Agents after few steps with their loops and without: expected utility over 100 preferences, and undiscounted.

    python benchmarks/studies/loops.py [--environments minecart-v0] [--seeds 0 1 2] [--out runs/loops]

Every agent is trained by `usfa train` for the steps of the race by steps, and scored three times: as its rule decides,
with random actions, the simplest way out of a loop, and leaving loops (docs/decision-rules.md). Trained agents are not
trained again.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

import usfa
from usfa.evaluation import front_of, write_table
from usfa.paper.report import markdown_table

STEPS = {"deep-sea-treasure-v0": 5_400, "four-room-v0": 10_000, "fruit-tree-v0": 5_400, "minecart-v0": 100_000}
GAMMA = {"deep-sea-treasure-v0": 0.99, "four-room-v0": 0.95, "fruit-tree-v0": 0.99, "minecart-v0": 0.98}
ARGUMENTS = {"fruit-tree-v0": {"depth": 5}}
LOOPS = {"kept": (False, 0.0), "kept, ε = 0.05": (False, 0.05), "left": (True, 0.0)}
"""Whether loops are broken, and ε."""
ACTING = {"C = {w}, gpi": ("task", "gpi"), "default": (None, None)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/loops"))
    chosen = parser.parse_args()
    console, tables = Console(stderr=True), []
    for environment in chosen.environments:
        for seed in chosen.seeds:
            tables.append(scores(environment, seed, chosen.out / f"{environment}-{seed}", console))
            write_table(chosen.out / "loops.csv", pd.concat(tables, ignore_index=True))
    key = ["environment", "steps", "acting", "loops"]
    means = pd.concat(tables).groupby(key, sort=False)[["utility", "undiscounted"]].mean().reset_index()
    print(markdown_table(means))


def scores(environment: str, seed: int, path: Path, console: Console) -> pd.DataFrame:
    """A row for each way of acting, with its loops and without."""
    steps = STEPS[environment]
    if not (path / "agent").exists():
        arguments = ARGUMENTS.get(environment, {})
        config = usfa.settings_for(environment, arguments, frames=steps, gamma=GAMMA[environment])
        usfa.train(replace(config, seeds=(seed,)), path, existing="overwrite", console=console)
    agent, rows = usfa.load(path), []
    for name, (candidates, rule) in ACTING.items():
        for loops, (broken, epsilon) in LOOPS.items():
            front = front_of(
                agent,
                candidates=candidates,
                rule=rule,
                episodes=2,
                epsilon=epsilon,
                seed=1,
                break_loops=broken,
                console=console,
            )
            w, returns = (front.filter(regex=rf"^{column}\d+$").to_numpy() for column in ("w", "return"))
            undiscounted = np.einsum("kd,kd->k", w, returns).mean()
            rows.append((environment, steps, seed, name, loops, front.utility.mean(), undiscounted))
    columns = ["environment", "steps", "seed", "acting", "loops", "utility", "undiscounted"]
    return pd.DataFrame(rows, columns=columns)


if __name__ == "__main__":
    main()

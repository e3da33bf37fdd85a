"""Draw the figures of docs/learned-features.md: python docs/phi_pictures.py"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import usfa
from usfa.decisions import candidate_set
from usfa.environments.tabular import trip_mdp
from usfa.evaluation import bound_table
from usfa.figures import save
from usfa.figures.features import quality_figure
from usfa.figures.trip import bound_maps
from usfa.runs.features import quality_table

OUT = Path(__file__).parent / "results" / "phi"
KNOWN, TRUE = 0.05, 0.15  # cost of exploring in φ, and in the reward
CANDIDATES = ("train", "task", "train+task")


def bounds() -> pd.DataFrame:
    """The terms of the bound for the shipped Trip agent, in a Trip where exploring costs more than φ knows."""
    agent, mdp = usfa.load("trip"), trip_mdp(exploration_cost=KNOWN)
    grid = np.linspace(0, 1, 21)
    w = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    reward = np.einsum("satd,kd->ksat", trip_mdp(exploration_cost=TRUE).phi.numpy(), w)
    tables = []
    for name in CANDIDATES:
        z = candidate_set(name, w, agent.training_tasks, agent.sampler, np.random.default_rng(0))
        place = pd.DataFrame({"candidates": name, "w1": w[:, 0], "w2": w[:, 1]})
        tables.append(pd.concat([place, bound_table(agent, mdp, w, z, reward)], axis=1))
    return pd.concat(tables, ignore_index=True)


def main() -> None:
    save(bound_maps(bounds(), CANDIDATES), OUT / "bound_maps.png")
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import phi_acrobot

    rewards = [phi_acrobot.height, phi_acrobot.effort, phi_acrobot.speed]
    phi = usfa.learn_features("Acrobot-v1", rewards, steps=20_000)
    save(quality_figure(quality_table(phi)), OUT / "acrobot-quality.png")


if __name__ == "__main__":
    main()

"""Exploration in an environment that ε-greedy actions cannot solve: a ladder, with and without repeated actions.

    python benchmarks/studies/ladder.py [--rungs 45] [--seeds 0 1 2] [--frames 100000] [--out docs/results/mo/ladder]

Climbing a rung takes a step; the other action lets go, which ends the episode with a coin. The treasure is on top.
Random actions reach it with a probability of 2^-rungs per episode, and those of an ε-greedy agent that has learned of
the coin with (ε/2)^rungs. A random action that is repeated for n steps with a probability ∝ n^-2, as the default
settings do in a quarter of the environments, climbs 45 rungs about once in 150 times.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import torch
from mo_settings import curve, preferences

from usfa.environments import register
from usfa.evaluation import write_table
from usfa.runs import settings_for

COIN, TREASURE, STEP = 1.0, 10.0, -0.1


class Ladder(gym.Env[Any, Any]):
    """φ = (value found, cost of a step). Up to a weight of 0.6 on the cost of steps, the best policy climbs."""

    def __init__(self, rungs: int = 45) -> None:
        self.rungs = rungs
        self.observation_space = gym.spaces.Discrete(rungs + 1)
        self.action_space = gym.spaces.Discrete(2)
        self.reward_space = gym.spaces.Box(-TREASURE, TREASURE, (2,), np.float32)
        self.rung = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.rung = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, Any, bool, bool, dict[str, Any]]:
        climbs = bool(action)
        self.rung += climbs
        top = self.rung == self.rungs
        found = 0.0 if climbs and not top else TREASURE if climbs else COIN
        return self.rung, np.array([found, STEP], np.float32), top or not climbs, False, {}

    def pareto_front(self, gamma: float) -> list[Any]:
        """The coin at once, or the treasure on top."""
        powers = gamma ** np.arange(self.rungs)
        return [np.array([COIN, STEP]), np.array([TREASURE * powers[-1], STEP * powers.sum()])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rungs", type=int, default=45)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    torch.set_num_threads(1)
    register("ladder", Ladder)
    config = settings_for("ladder", {"rungs": words.rungs}, frames=words.frames)
    config = replace(config, seeds=tuple(words.seeds))
    tables = []
    for exponent in (None, config.learner.repeat_exponent):
        print(f"repeat_exponent {exponent}")
        learner = replace(config.learner, repeat_exponent=exponent)
        table = curve(replace(config, learner=learner), preferences(2, tuning=False), points=4, episodes=1)
        tables.append(table.assign(repeat_exponent="none" if exponent is None else exponent))
    table = pd.concat(tables, ignore_index=True)
    last = table[table.frames >= words.frames]
    for exponent, runs in last.groupby("repeat_exponent"):
        shares = ", ".join(f"{share:.1%}" for share in runs.utility / runs.ceiling)
        print(f"repeat_exponent {exponent}: {shares} of the optimum")
    if words.out is not None:
        words.out.mkdir(parents=True, exist_ok=True)
        write_table(words.out / "ladder.csv", table)


if __name__ == "__main__":
    main()

"""Learning curves for rewards of very different sizes, which should agree after division by the size.

Trains with `usfa train`'s settings in one environment whose reward is multiplied by each factor, and prints the mean
utility over the simplex at every snapshot, divided by the factor. Differences should be within the noise of seeds.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd

from usfa.environments import Environment, make, register
from usfa.evaluation import read_scores
from usfa.runs import settings_for, train


class Multiplied(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose vector reward is multiplied by a factor."""

    def __init__(self, env: Environment, factor: float) -> None:
        super().__init__(env)
        space = env.get_wrapper_attr("reward_space")
        self.reward_space = gym.spaces.Box(-np.inf, np.inf, space.shape, np.float32)
        self._factor = factor

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, phi, terminated, truncated, info = self.env.step(action)
        return observation, np.asarray(phi, np.float64) * self._factor, terminated, truncated, info


def curves(environment: str, factor: float, frames: int, seeds: int, snapshots: int) -> pd.DataFrame:
    """Mean score over tasks at every snapshot (rows) and seed (columns), divided by the factor."""
    register("multiplied", lambda factor: Multiplied(make(environment), factor))
    config = settings_for("multiplied", {"factor": factor})
    config = replace(
        config,
        learner=replace(config.learner, budget=frames),
        evaluation=replace(config.evaluation, snapshots=snapshots, episodes=1, final_rules=()),
        seeds=tuple(range(seeds)),
    )
    with tempfile.TemporaryDirectory() as folder:
        scores = read_scores(train(config, Path(folder) / "run").scores)
    return scores.pivot_table(index="snapshot", columns="seed", values="score") / factor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", default="deep-sea-treasure-v0")
    parser.add_argument("--factors", type=float, nargs="+", default=[1.0, 1e-6, 1e6, 1e12])
    parser.add_argument("--frames", type=int, default=40_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--snapshots", type=int, default=8)
    given = parser.parse_args()
    rows = {
        factor: curves(given.environment, factor, given.frames, given.seeds, given.snapshots)
        for factor in given.factors
    }
    means = pd.DataFrame({f"{factor:g}": of_seeds.mean(axis=1) for factor, of_seeds in rows.items()})
    noise = rows[given.factors[0]].std(axis=1)
    error = noise * np.sqrt(2 / given.seeds)  # of the difference of two means
    print(means.assign(std=noise).round(3).to_string())
    for factor in given.factors[1:]:
        apart = (means[f"{factor:g}"] - means[f"{given.factors[0]:g}"]).abs()[1:] / error[1:]
        print(f"{factor:g}: {apart.mean():.2f} standard errors from {given.factors[0]:g}, at most {apart.max():.2f}")


if __name__ == "__main__":
    main()

"""Expected utility of usfa's settings for an environment, with several seeds at once, and the effect of each setting.

    python benchmarks/studies/mo_settings.py deep-sea-treasure-v0 --seeds 0 1 2 3 4 --out runs/deep-sea
    python benchmarks/studies/mo_settings.py deep-sea-treasure-v0 --tuning --set along_z=0 --set ema=None
    python benchmarks/studies/mo_settings.py minecart-v0 --tuning --set gamma=0.98 --set network.head=(256,)
    python benchmarks/studies/mo_settings.py minecart-v0 --tuning --set gamma=0.98 --frames 100000

`--frames` starts from the settings that `usfa train --frames` chooses; without it, from those for many steps. `--set`
changes settings of the learner, or of the network. `--tuning` scores on 64 random preferences instead of `simplex:100`,
which is for reported numbers. Values are discounted; C = {w}, and loops are kept.
"""

from __future__ import annotations

import argparse
import ast
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from changing import changed
from numpy.typing import NDArray

from usfa import functional
from usfa.decisions import CandidateSet, Gpi
from usfa.evaluation import bootstrap_interval, environment_front, write_table
from usfa.evaluation.episodes import episode_batch, vector_returns
from usfa.learning import Learner
from usfa.runs import TrainConfig, build_agent, settings_for
from usfa.tasks import spread_over_simplex


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment")
    parser.add_argument(
        "--arguments", type=ast.literal_eval, default={}, help="of the environment, such as {'depth': 5}"
    )
    parser.add_argument("--frames", type=int, help="a budget of steps")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--points", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=1)
    parser.add_argument("--tuning", action="store_true")
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    torch.set_num_threads(1)
    changes = dict(_setting(text) for text in words.set)
    config = settings_for(words.environment, words.arguments, gamma=changes.get("gamma"), frames=words.frames)
    config = replace(changed(config, changes), seeds=tuple(words.seeds))
    w = preferences(config.tasks.shape[1], words.tuning)
    table = curve(config, w, words.points, words.episodes)
    frames = [] if words.frames is None else [f"frames={words.frames}"]
    table.insert(0, "changes", " ".join([*frames, *words.set]))
    if words.out is not None:
        words.out.mkdir(parents=True, exist_ok=True)
        write_table(words.out / "utility.csv", table)
    conclude(table)


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SystemExit(f"--set is {text!r}; expected NAME=VALUE.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def preferences(features: int, tuning: bool) -> NDArray[np.float64]:
    if tuning:
        return np.random.default_rng(777).dirichlet(np.ones(features), 64)
    return spread_over_simplex(100, features)


def curve(config: TrainConfig, w: NDArray[np.float64], points: int, episodes: int) -> pd.DataFrame:
    """A row for each seed and point of training: frames, seconds of one core, expected utility, and the ceiling."""
    with closing(config.environments.one()) as env:
        known = environment_front(env, config.learner.gamma, w)
    ceiling = float("nan") if known is None else functional.expected_utility(known, w)
    learner = Learner(build_agent(config), config.learner, config.environments, config.tasks, config.seeds)
    rows: list[tuple[int, int, float, float, float]] = []
    seconds, start = 0.0, time.process_time()
    with closing(learner):
        for point in range(1, points + 1):
            while learner.progress.min() < config.learner.budget * point / points:
                learner.step()
            seconds += time.process_time() - start
            for run, seed in enumerate(config.seeds):
                utility = expected_utility(learner, config, run, w, episodes)
                rows.append((seed, int(learner.frames[run]), seconds, utility, ceiling))
            utilities = [row[3] for row in rows[-len(config.seeds) :]]
            print(f"{rows[-1][1]} frames, {seconds:.0f} s: {_of(float(np.mean(utilities)), ceiling)}", flush=True)
            start = time.process_time()
    return pd.DataFrame(rows, columns=["seed", "frames", "seconds", "utility", "ceiling"])


def expected_utility(learner: Learner, config: TrainConfig, run: int, w: NDArray[np.float64], episodes: int) -> float:
    rng = np.random.default_rng([config.seeds[run], 1])
    batch = episode_batch(config.environments, w, CandidateSet.believed(w[:, None]), episodes, rng)
    collected = vector_returns(learner.agent, learner.best.network(run), batch, Gpi(), 0.0, rng, config.learner.gamma)
    return float(np.einsum("bd,bd->b", collected.discounted, batch.w).mean())


def conclude(table: pd.DataFrame) -> None:
    last = table.loc[table.groupby("seed").frames.idxmax()]
    print(f"expected utility {_of(last.utility.mean(), last.ceiling.iloc[0])}")
    if len(last) > 1:
        low, high = bootstrap_interval(last.utility.to_numpy()[:, None], np.random.default_rng(0))
        print(f"95 % interval {low:.4f} to {high:.4f}, {len(last)} seeds: {last.utility.round(4).tolist()}")


def _of(utility: float, ceiling: float) -> str:
    known = f", {utility / ceiling:.1%} of the ceiling {ceiling:.4f}" if np.isfinite(ceiling) else ""
    return f"{utility:.4f}{known}"


if __name__ == "__main__":
    main()

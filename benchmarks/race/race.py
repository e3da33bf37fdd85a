"""usfa against GPI-LS and Envelope of morl-baselines: expected utility over wall time and over environment steps.

    python benchmarks/race/race.py [--environments minecart-v0] [--algorithms usfa gpi-ls] [--seeds 0 1 2] [--scale 1]

Every racer is a process of its own with one thread. Each writes its table when it is done, and what is there is not
raced again: after an interruption the same command goes on. Scoring, the same code for all, does not count as time.
morl-baselines gets a virtual environment of its own, .venv-morl: it brings much that usfa does not want.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from racing import Contest

from usfa import functional
from usfa.environments import make
from usfa.evaluation import bootstrap_interval, environment_front
from usfa.figures.style import save, styled
from usfa.paper.report import markdown_table
from usfa.tasks import spread_over_simplex

HERE = Path(__file__).parent
MORL = "morl-baselines==1.3.0"
ALGORITHMS = {"usfa": "#0072B2", "gpi-ls": "#D55E00", "envelope": "#009E73"}
MINUTE = 60.0
PUBLISHED, TRIALS = Path("docs/results/race"), Path("runs/race-trial")


def contest(
    environment: str,
    features: int,
    gamma: float,
    minutes: float,
    episodes: int = 1,
    step_limit: int = 1000,
    **arguments: Any,
) -> Contest:
    return Contest(
        environment=environment,
        arguments=arguments,
        gamma=gamma,
        preferences=spread_over_simplex(100, features).tolist(),
        seconds=minutes * MINUTE,
        points=10,
        episodes=episodes,
        step_limit=step_limit,
    )


CONTESTS = {
    given.environment: given
    for given in (
        contest("deep-sea-treasure-v0", features=2, gamma=0.99, minutes=3, step_limit=100),
        contest("four-room-v0", features=3, gamma=0.95, minutes=3, step_limit=200),
        contest("fruit-tree-v0", features=6, gamma=0.99, minutes=3, depth=5),
        contest("minecart-v0", features=3, gamma=0.98, minutes=10, episodes=2),
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", nargs="+", choices=CONTESTS, default=list(CONTESTS))
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--scale", type=float, default=1.0, help="of all times, for trials")
    parser.add_argument("--cores", type=int, default=1, help="racers at a time, one core each")
    parser.add_argument("--out", type=Path, help=f"default {PUBLISHED}; of trials {TRIALS}")
    words = parser.parse_args()
    out = words.out or (PUBLISHED if words.scale == 1 else TRIALS)
    (out / "tables").mkdir(parents=True, exist_ok=True)
    python = {"usfa": Path(sys.executable)}
    if set(words.algorithms) - {"usfa"}:
        python |= dict.fromkeys(set(ALGORITHMS) - {"usfa"}, morl_environment())
    each = itertools.product(words.environments, words.algorithms, words.seeds)
    racers = [Racer(*one, out, words.scale) for one in each]
    with ThreadPoolExecutor(words.cores) as pool:
        list(pool.map(lambda racer: racer.run(python[racer.algorithm]), racers))
    report(out)


def morl_environment() -> Path:
    """The Python of morl-baselines' own virtual environment, made if it is not there."""
    place = Path(".venv-morl")
    python, installed = place / "bin" / "python", place / ".installed"
    if not installed.exists() or installed.read_text() != MORL:
        venv.create(place, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt"]
        for package in ("torch", MORL):  # torch first, and alone: together pip may look for long
            subprocess.run([*install, package], check=True)
        installed.write_text(MORL)
    return python


@dataclass(frozen=True)
class Racer:
    """One racer with one seed."""

    environment: str
    algorithm: str
    seed: int
    out: Path
    scale: float

    def run(self, python: Path) -> None:
        table = self.out / "tables" / f"{self.environment}-{self.algorithm}-{self.seed}.csv"
        if table.exists():
            return
        given = CONTESTS[self.environment]
        seconds = given.seconds * self.scale
        description = table.with_suffix(".json")
        description.write_text(json.dumps(asdict(given) | {"seconds": seconds}))
        script = HERE / ("run_usfa.py" if self.algorithm == "usfa" else "run_morl.py")
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        print(f"{self.environment}, {self.algorithm}, seed {self.seed}: {seconds:.0f} s of training", flush=True)
        command = [str(x) for x in (python, "-W", "ignore", script, description, self.algorithm, self.seed, table)]
        subprocess.run(command, check=True, env=os.environ | one_thread, stdout=subprocess.DEVNULL)
        description.unlink()


# --- from tables to a table and a figure ---


def report(out: Path) -> None:
    curves = pd.concat([pd.read_csv(path) for path in sorted((out / "tables").glob("*.csv"))], ignore_index=True)
    ceilings = {name: ceiling(name) for name in curves.environment.unique()}
    summary = final_table(curves, ceilings)
    summary.to_csv(out / "summary.csv", index=False)
    (out / "summary.md").write_text(f"# The race: usfa, GPI-LS and Envelope\n\n{markdown_table(summary)}\n")
    save(figure_of(curves, ceilings), out / "curves.png")
    print(markdown_table(summary))


def ceiling(environment: str) -> float:
    """The expected utility of the known front, NaN where it is not known."""
    given = CONTESTS[environment]
    w = np.array(given.preferences)
    env = make(environment, **given.arguments)
    known = environment_front(env, given.gamma, w)
    env.close()
    return float("nan") if known is None else functional.expected_utility(known, w)


def final_table(curves: pd.DataFrame, ceilings: Mapping[str, float]) -> pd.DataFrame:
    """A row for each algorithm: the utility at the end with its interval, and its speed."""
    last = curves.loc[curves.groupby(["environment", "algorithm", "seed"]).seconds.idxmax()]
    rows = []
    for (environment, algorithm), runs in last.groupby(["environment", "algorithm"], sort=False):
        utility = runs.utility.to_numpy()
        low, high = (np.nan, np.nan)  # one run says nothing about the next
        if len(utility) > 1:
            low, high = bootstrap_interval(utility[:, None], np.random.default_rng(0))
        rows.append(
            {
                "environment": environment,
                "algorithm": algorithm,
                "expected utility": utility.mean(),
                "low": low,
                "high": high,
                "ceiling": ceilings[str(environment)],
                "steps/s": round(float((runs.steps / runs.seconds).mean())),
                "played/s": round(float((runs.played / runs.seconds).mean())),
                "seconds": round(float(runs.seconds.mean())),
                "seeds": len(runs),
            }
        )
    return pd.DataFrame(rows)


def figure_of(curves: pd.DataFrame, ceilings: Mapping[str, float]) -> Figure:
    """A row for each environment: utility over seconds and over steps, mean and range of the seeds."""
    environments = list(curves.environment.unique())
    with styled():
        size = (9, 2.4 * len(environments) + 0.6)
        figure, axes = plt.subplots(len(environments), 2, figsize=size, squeeze=False, layout="constrained")
        for row, environment in zip(axes, environments, strict=True):
            mine = curves[curves.environment == environment]
            best = ceilings[environment]
            utility = mine[mine.steps > 0].utility  # untrained networks may be far below everything else
            lowest, highest = utility.min(), np.fmax(best, utility.max())
            margin = 0.1 * (highest - lowest)
            for axis, unit in zip(row, ("seconds", "steps"), strict=True):
                for algorithm, color in ALGORITHMS.items():
                    _curve(axis, mine[mine.algorithm == algorithm], unit, algorithm, color)
                axis.axhline(best, color="black", lw=0.8, ls=":")  # nothing where it is not known
                axis.set(xlabel=unit, ylim=(lowest - margin, highest + margin))
            row[0].set(ylabel="expected utility", title=environment)
            row[1].set(xscale="log")
        lines, names = axes[0, 0].get_legend_handles_labels()
        figure.legend(lines, names, loc="outside upper center", ncols=len(names), title="dotted: known optimum")
    return figure


def _curve(axis: Axes, runs: pd.DataFrame, unit: str, algorithm: str, color: str) -> None:
    """Mean and range of the seeds; what is scored before training has no place on a logarithmic axis."""
    points = runs.assign(point=runs.groupby("seed").cumcount())
    points = points[points[unit] > 0].groupby("point")
    x, y = points[unit].mean(), points.utility
    axis.plot(x, y.mean(), color=color, label=algorithm, marker=".")
    axis.fill_between(x, y.min(), y.max(), color=color, alpha=0.15, lw=0)


if __name__ == "__main__":
    main()

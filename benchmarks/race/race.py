"""usfa against GPI-LS, GPI-PD and Envelope of morl-baselines, at equal time and at equal environment steps.

    python benchmarks/race/race.py [--environments minecart-v0] [--algorithms usfa gpi-ls] [--seeds 0 1 2] [--scale 1]
    python benchmarks/race/race.py --steps 5400               # equal steps, in the time of the race by time at most
    python benchmarks/race/race.py --steps 100000 --minutes 400 --environments minecart-v0   # the same, in 400 minutes
    python benchmarks/race/race.py --environments minecart-v0 --minutes 30   # another time than usual
    python benchmarks/race/race.py --environments resource-gathering-v0 --gamma 0.95 --minutes 3   # any environment
    python benchmarks/race/race.py --report    # only the table and the figure, from the tables that are there

Every racer is a separate process with one thread. Complete tables are kept, so the same command continues after an
interruption; the scores of an unfinished racer are in tables/*.unfinished. Scoring is the same for all and does not
count as time. morl-baselines is installed into a separate virtual environment, .venv-morl, because of its many
dependencies.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from racing import Contest, Memoryless, expected_utility

from usfa import functional
from usfa.environments import feature_count, make, step_limit
from usfa.evaluation import bootstrap_interval, environment_front
from usfa.figures.style import INK, PAGE, label_ends, save, styled
from usfa.paper.report import markdown_table
from usfa.tasks import spread_over_simplex

HERE = Path(__file__).parent
MORL = "morl-baselines==1.3.0"
ALGORITHMS = {
    "usfa": ("usfa", "#0072B2"),
    "gpi-ls": ("GPI-LS", "#D55E00"),
    "gpi-ls-scaled": ("GPI-LS, ε scaled", "#E69F00"),
    "gpi-ls-1": ("GPI-LS, 1 update", "#F0A060"),
    "gpi-pd": ("GPI-PD", "#CC79A7"),
    "gpi-pd-scaled": ("GPI-PD, ε scaled", "#882255"),
    "envelope": ("Envelope", "#009E73"),
    "envelope-scaled": ("Envelope, ε scaled", "#44AA99"),
}
"""Labels and colours in the figure. Scaled: ε falls in the first half of the race, not in its authors' 50,000 steps.
1 update: one gradient step per step, as Envelope, instead of 10."""
BASELINES = {"random": "random actions", "constant": "best constant action"}
APPROXIMATE = {"minecart-v0"}
"""Environments whose known front is an approximation."""
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
    """A race by time."""
    return Contest(
        environment=environment,
        arguments=arguments,
        gamma=gamma,
        preferences=spread_over_simplex(100, features).tolist(),
        seconds=minutes * MINUTE,
        steps=None,
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
    parser.add_argument("--environments", nargs="+", default=list(CONTESTS), help="known ones, or any by its name")
    parser.add_argument("--gamma", type=float, help="of environments that are not known here")
    parser.add_argument("--minutes", type=float, help="of the race by time; by default 10 on minecart, 3 elsewhere")
    parser.add_argument("--steps", type=int, help="race by steps instead of time")
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--scale", type=float, default=1.0, help="of all times, for trials")
    parser.add_argument("--cores", type=int, default=1, help="racers at a time, one core each")
    parser.add_argument("--report", action="store_true", help="only draw and report the tables that are there")
    parser.add_argument("--out", type=Path, help=f"default {PUBLISHED}; of trials {TRIALS}")
    words = parser.parse_args()
    out = words.out or (PUBLISHED if words.scale == 1 else TRIALS)
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for environment in set(words.environments) - set(CONTESTS):
        CONTESTS[environment] = unknown_contest(environment, words.gamma, words.minutes or 3.0)
    if not words.report:
        race(words, out)
        baselines(words.environments, out / "baselines.csv")
    report(out)


def unknown_contest(environment: str, gamma: float | None, minutes: float) -> Contest:
    """The contest in an environment that is given by name."""
    if gamma is None:
        raise SystemExit(f"--gamma is missing; expected the discount for {environment}.")
    with closing(make(environment)) as env:
        return contest(environment, feature_count(env), gamma, minutes, step_limit=step_limit(env) or 1000)


def race(words: argparse.Namespace, out: Path) -> None:
    """Run every racer whose table is not there."""
    python = {"usfa": Path(sys.executable)}
    if set(words.algorithms) - {"usfa"}:
        python |= dict.fromkeys(set(ALGORITHMS) - {"usfa"}, morl_environment())
    each = itertools.product(words.environments, words.algorithms, words.seeds)
    racers = [Racer(*one, out, words.scale, words.steps, words.minutes) for one in each]
    with ThreadPoolExecutor(words.cores) as pool:
        list(pool.map(lambda racer: racer.run(python[racer.algorithm]), racers))


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
    steps: int | None
    minutes: float | None

    def run(self, python: Path) -> None:
        given = CONTESTS[self.environment]
        minutes = None if self.minutes in (None, given.seconds / MINUTE) else self.minutes
        race = "" if minutes is None else f"-{minutes:g}-minutes"
        if self.steps is not None:
            race = f"-{self.steps}-steps"
        table = self.out / "tables" / f"{self.environment}-{self.algorithm}{race}-{self.seed}.csv"
        if table.exists():
            return
        seconds = self.scale * (given.seconds if minutes is None else minutes * MINUTE)
        description = table.with_suffix(".json")
        changes = {"seconds": seconds, "steps": self.steps, "minutes": minutes}
        description.write_text(json.dumps(asdict(given) | changes))
        script = HERE / ("run_usfa.py" if self.algorithm == "usfa" else "run_morl.py")
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        print(f"{self.environment}, {self.algorithm}, seed {self.seed}: {seconds:.0f} s of training", flush=True)
        command = [str(x) for x in (python, "-W", "ignore", script, description, self.algorithm, self.seed, table)]
        subprocess.run(command, check=True, env=os.environ | one_thread, stdout=subprocess.DEVNULL)
        description.unlink()


def baselines(environments: Sequence[str], path: Path) -> None:
    """Add the utilities of random actions, and of the best action to repeat (often standing still), to a table."""
    known = pd.read_csv(path) if path.exists() else pd.DataFrame({"environment": []})
    rows = []
    for name in environments:
        if name in set(known.environment):
            continue
        given = CONTESTS[name]
        env = given.make()
        actions = env.action_space.n
        env.close()
        constant = [expected_utility(given, Memoryless(partial(_repeat, action)), 1000) for action in range(actions)]
        rng = np.random.default_rng(0)
        policy = Memoryless(lambda seen, w: rng.integers(actions, size=len(w)))  # noqa: B023
        random = expected_utility(given, policy, 1000)
        rows.append({"environment": name, "random": random, "constant": max(constant)})
    if rows:
        pd.concat([known, pd.DataFrame(rows)], ignore_index=True).to_csv(path, index=False)


def _repeat(action: int, seen: NDArray[Any], w: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.full(len(w), action)


# --- from tables to a table and a figure ---


def report(out: Path) -> None:
    curves = pd.concat([pd.read_csv(path) for path in sorted((out / "tables").glob("*.csv"))], ignore_index=True)
    curves["race"] = curves.race.fillna("time") if "race" in curves else "time"  # earlier tables have no such column
    curves = curves[curves.environment.isin(CONTESTS)]
    ceilings = {name: ceiling(name) for name in curves.environment.unique()}
    summary = final_table(curves, ceilings)
    path, constant = out / "baselines.csv", {}
    if path.exists():
        table = pd.read_csv(path)
        constant = dict(zip(table.environment, table.constant, strict=True))
        summary = summary.merge(table.rename(columns=BASELINES), on="environment", how="left")
    summary.to_csv(out / "summary.csv", index=False)
    (out / "summary.md").write_text(f"# The race\n\n{markdown_table(summary)}\n")
    save(figure_of(curves, ceilings, constant), out / "curves.png")
    print(markdown_table(summary))


def ceiling(environment: str) -> float:
    """The expected utility of the known front, NaN where it is not known."""
    given = CONTESTS[environment]
    w = np.array(given.preferences)
    env = make(environment, **given.arguments)
    known = environment_front(env, given.gamma, w)
    env.close()
    return float("nan") if known is None else functional.expected_utility(known, w)


def optimum_kind(environment: str, ceilings: Mapping[str, float]) -> str:
    if np.isnan(ceilings[environment]):
        return "unknown"
    return "approximate" if environment in APPROXIMATE else "known"


def final_table(curves: pd.DataFrame, ceilings: Mapping[str, float]) -> pd.DataFrame:
    """A row for each algorithm: the utility at the end with its interval, and its speed."""
    last = curves.loc[curves.groupby(["race", "environment", "algorithm", "seed"]).seconds.idxmax()]
    rows = []
    for (race, environment, algorithm), runs in last.groupby(["race", "environment", "algorithm"], sort=False):
        utility = runs.utility.to_numpy()
        low, high = (np.nan, np.nan)  # one run says nothing about the next
        if len(utility) > 1:
            low, high = bootstrap_interval(utility[:, None], np.random.default_rng(0))
        rows.append(
            {
                "race": race,
                "environment": environment,
                "algorithm": algorithm,
                "expected utility": utility.mean(),
                "low": low,
                "high": high,
                "optimum": ceilings[str(environment)],
                "optimum is": optimum_kind(str(environment), ceilings),
                "steps/s": round(float((runs.steps / runs.seconds).mean())),
                "seconds": round(float(runs.seconds.mean())),
                "steps": round(float(runs.steps.mean())),
                "played": round(float(runs.played.mean())),
                "seeds": len(runs),
            }
        )
    return pd.DataFrame(rows)


def figure_of(curves: pd.DataFrame, ceilings: Mapping[str, float], constant: Mapping[str, float]) -> Figure:
    """A row for each environment: utility over seconds and over steps, mean of the seeds, their range at the end.

    Args:
        curves: scores of all runs on their way.
        ceilings: utility of the known optimum, NaN where it is not known.
        constant: utility of the best action to repeat, where it is known.
    """
    environments = list(curves.environment.unique())
    curves = curves[curves.algorithm.isin(ALGORITHMS)]  # algorithms that are scored only at the end have no curve
    with styled():
        figure = Figure(figsize=(PAGE, 1.35 * len(environments) + 0.5), layout="constrained")
        rows = figure.subplots(len(environments), 2, sharey="row", squeeze=False, width_ratios=(1.5, 1))
        for row, environment in zip(rows, environments, strict=True):
            mine = curves[curves.environment == environment]
            _row(row, mine, ceilings[environment], constant.get(environment, np.nan))
            row[0].set_title(environment, loc="left")
            row[0].set_ylabel("expected utility")
        rows[-1, 0].set_xlabel("seconds of training")
        rows[-1, 1].set_xlabel("environment steps")
    return figure


def _row(row: Sequence[Axes], curves: pd.DataFrame, best: float, constant: float) -> None:
    """Both panels have one scale, from the lowest end of a run to the optimum; earlier scores may be far below.

    Races by steps are in the panel of steps only, with thin lines: every number of steps is a training of its own.
    """
    last = curves.loc[curves.groupby(["race", "algorithm", "seed"]).seconds.idxmax()]
    lowest, highest = last.utility.min(), np.fmax(best, last.utility.max())
    margin = 0.12 * (highest - lowest)
    by_time = last[~last.race.str.endswith("steps")]
    longest = (by_time if len(by_time) else last).seconds.max()
    row[0].set(xlim=(0, 1.05 * longest), ylim=(lowest - margin, highest + margin))
    for axes, unit in zip(row, ("seconds", "steps"), strict=True):
        for algorithm, (_, colour) in ALGORITHMS.items():
            for race, runs in curves[curves.algorithm == algorithm].groupby("race"):
                by_steps = str(race).endswith("steps")
                if unit == "steps" or not by_steps:
                    _curve(axes, runs, unit, colour, width=0.6 if by_steps else 1.3)
        for known in (best, constant):  # nothing where it is not known
            axes.axhline(known, color=INK, lw=0.8, ls="--")
    row[1].set_xscale("log")
    means = last[last.race == "time"].groupby("algorithm").utility.mean()
    ends = [(means[name], label, colour) for name, (label, colour) in ALGORITHMS.items() if name in means]
    lines = [(best, "optimum", INK), (constant, "one action", INK)]
    lines = [line for line in lines if line[0] > lowest - margin]  # those that are known and in view
    labels = [
        (value, f"{label} {f'{value:.2f}'.replace('-', '−')}", colour) for value, label, colour in [*ends, *lines]
    ]
    label_ends(row[0], labels)
    _label_steps(row[1], last[~last.algorithm.isin(means.index)])


def _label_steps(axes: Axes, last: pd.DataFrame) -> None:
    """Name racers by steps that have no label elsewhere, in the lower right corner."""
    for index, algorithm in enumerate(last.algorithm.unique()):
        label, colour = ALGORITHMS[algorithm]
        axes.text(
            0.98, 0.04 + 0.12 * index, label, transform=axes.transAxes, color=colour, ha="right", fontsize="small"
        )


def _curve(axes: Axes, runs: pd.DataFrame, unit: str, colour: str, width: float) -> None:
    """The mean of the seeds; what is scored before training has no place on a logarithmic axis."""
    if not len(runs):
        return
    points = runs.assign(point=runs.groupby("seed").cumcount())
    points = points[points[unit] > 0].groupby("point")
    x, y = points[unit].mean(), points.utility
    axes.plot(x, y.mean(), color=colour, lw=width)
    axes.plot([x.iloc[-1]] * 2, [y.min().iloc[-1], y.max().iloc[-1]], color=colour, lw=1.2)
    axes.plot(x.iloc[-1], y.mean().iloc[-1], "o", color=colour, ms=4.5, mew=0)
    if unit == "seconds":  # towards the label of a racer that was done earlier
        axes.axhline(
            y.mean().iloc[-1], float(x.iloc[-1] / axes.get_xlim()[1]), 1, color=colour, lw=0.8, ls=":", zorder=1
        )


if __name__ == "__main__":
    main()

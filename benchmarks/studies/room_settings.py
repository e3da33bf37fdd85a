"""What makes training in the room work: the settings of room-laptop, one changed at a time, see docs/room-agents.md.

    python benchmarks/studies/room_settings.py [--frames 1000000] [--seeds 100 101 102] [--only "λ = 0" …]

Every setting trains a USFA with seeds that no published number uses, and is scored with C = M as evaluation does: on
the training tasks, and on tasks that are neither trained on nor tested in any published number. It can be stopped and
called again: what is done is not done again.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from changing import changed
from rich.console import Console

from usfa.environments.room.scale import read_yardstick
from usfa.evaluation import read_scores, summarise, write_table
from usfa.experiments import TrainConfig, preset
from usfa.experiments.plan import Job, run_jobs
from usfa.experiments.report import markdown_table
from usfa.experiments.room_tables import summary_of

OTHERS = {"only wishes": "1010;0101;1110;1101", "wishes and dislikes": "-1010;010-1;10-11"}
"""Tasks in neither M nor M′."""

CHANGES: dict[str, dict[str, Any]] = {
    "as in the preset": {},
    "no clipping of gradients": {"clip": None},
    "learning rate halved": {"learning_rate": 3.5e-4},
    "learning rate doubled": {"learning_rate": 1.4e-3},
    "half as many updates, twice as large": {"updates_per_round": 4},
    "twice as many updates, half as large": {"updates_per_round": 16},
    "one past round learned again": {"reuse": 1, "replay_capacity": 20, "updates_per_round": 16},
    "target network, renewed every 100 updates": {"target_every": 100},
    "γ = 0.95": {"gamma": 0.95},
    "γ = 0.98": {"gamma": 0.98},
    "λ = 0": {"lambda_": 0.0},
    "ε = 0.3": {"epsilon": 0.3},
    "no layer normalisation": {"network.normalise": False},
    "no memory": {"network.memory": 0},
    "inner product instead of concatenation": {"network.conditioning": "inner-product"},
    "convolutions 16 8×8/4, 32 4×4/2": {"network.convolutions": ((16, 8, 4), (32, 4, 2))},
    "target network, no layer normalisation": {"target_every": 100, "network.normalise": False},
    "target network, inner product": {"target_every": 100, "network.conditioning": "inner-product"},
    "target network, renewed every 400 updates": {"target_every": 400},
    **{
        f"no layer normalisation, {name}": {"network.normalise": False} | changes
        for name, changes in {
            "learning rate doubled": {"learning_rate": 1.4e-3},
            "twice as many updates, half as large": {"updates_per_round": 16},
            "γ = 0.98": {"gamma": 0.98},
            "no clipping of gradients": {"clip": None},
            "target network, learning rate doubled": {"target_every": 100, "learning_rate": 1.4e-3},
            "target network, twice as many updates": {"target_every": 100, "updates_per_round": 16},
            "target network, γ = 0.95": {"target_every": 100, "gamma": 0.95},
            "target network, renewed every 50 updates": {"target_every": 50},
        }.items()
    },
}


def settings(frames: int) -> dict[str, TrainConfig]:
    base = preset("room-laptop")
    evaluation = replace(base.evaluation, tasks=("room-train", *OTHERS.values()), candidates=("train",), snapshots=1)
    base = replace(base, learner=replace(base.learner, budget=frames), evaluation=evaluation)
    return {name: changed(base, changes) for name, changes in CHANGES.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101, 102])
    parser.add_argument("--only", nargs="+", choices=CHANGES, metavar="NAME", help="some of the settings")
    parser.add_argument("--out", type=Path, default=Path("runs/room-settings"))
    chosen = parser.parse_args()
    jobs = [
        Job(name, replace(config, seeds=(seed,)), chosen.out / f"{name.replace(' ', '-').replace('/', '-')}-{seed}")
        for seed in chosen.seeds
        for name, config in settings(chosen.frames).items()
        if chosen.only is None or name in chosen.only
    ]
    run_jobs(jobs, os.cpu_count() or 1, Console(stderr=True))
    table = results(jobs)
    write_table(chosen.out / "settings.csv", table)
    print(markdown_table(table))


def results(jobs: list[Job]) -> pd.DataFrame:
    """Setting × the normalised score of the training tasks and the mean return of the others, with 95 % intervals."""
    scores = pd.concat([read_scores(job.path / "scores.csv") for job in jobs], ignore_index=True)
    scores = scores[scores.snapshot == scores.snapshot.max()]
    train = summary_of(scores[scores.task_set == "room-train"], read_yardstick())
    table = {"training tasks, normalised": _cells(train[(train.measure == "normalised") & (train.task == "all")], 2)}
    for name, tasks in OTHERS.items():
        table[f"{name}, return"] = _cells(summarise(scores[scores.task_set == tasks], ["agent"], "score"), 1)
    names = dict.fromkeys(job.name for job in jobs)
    return pd.DataFrame(table).loc[list(names)].rename_axis("setting").reset_index()


def _cells(summary: pd.DataFrame, digits: int) -> pd.Series:
    return summary.set_index("agent").apply(_with_interval, axis=1, digits=digits)


def _with_interval(row: pd.Series, digits: int) -> str:
    if pd.isna(row.low):
        return f"{row['mean']:.{digits}f} (one seed)"
    return f"{row['mean']:.{digits}f} [{row.low:.{digits}f}, {row.high:.{digits}f}]"


if __name__ == "__main__":
    main()

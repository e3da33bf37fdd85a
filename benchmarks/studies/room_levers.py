"""Possible improvements of training in the room: room-laptop without advantage learning, one change at a time.

    python benchmarks/studies/room_levers.py [--frames 1000000] [--seeds 100 101] [--only "no change" "three heads" …]

The seeds differ from those of published numbers. Scores are on the training tasks and on room-validation, which has no
task of M or M′ nor a permutation of one, by Eq. 3 and by the cautious rule. The study can be interrupted and restarted;
finished runs are not repeated. Results: docs/room-settings.md.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from changing import changed
from room_lever_parts import BurnIn, Ensemble, Heads, NearAndAllAround
from room_study import study

from usfa.environments.room.yardstick import read_yardstick
from usfa.evaluation import read_scores
from usfa.paper.experiment import Job
from usfa.paper.room_claims import gains
from usfa.runs import TrainConfig, preset
from usfa.tasks import parse_task

LEVERS: dict[str, dict[str, Any]] = {
    "no change": {},
    "half near M, half from the sphere": {"policies": NearAndAllAround()},
    "advantage learning, 0.5": {"action_gap": 0.5},
    "advantage learning, 0.8": {"action_gap": 0.8},
    "advantage learning, 0.9": {"action_gap": 0.9},
    "random actions repeated": {"repeat_exponent": 2.0},
    "burn-in of 8 steps": {"agent": BurnIn},
    "three heads": {"agent": Ensemble, "network.network_class": Heads},
    "learning rate 1.4e-3": {"learning_rate": 1.4e-3},
}


def settings(frames: int) -> dict[str, TrainConfig]:
    base = preset("room-laptop")
    evaluation = replace(
        base.evaluation,
        tasks=("room-train", "room-validation"),
        candidates=("train", "train+task"),
        final_rules=("cautious",),
        snapshots=1,
        episodes=10,
    )
    base = replace(base, learner=replace(base.learner, budget=frames, action_gap=0.0), evaluation=evaluation)
    return {name: _with(base, dict(changes)) for name, changes in LEVERS.items()}


def _with(base: TrainConfig, changes: dict[str, Any]) -> TrainConfig:
    agent = changes.pop("agent", base.agent)
    return replace(changed(base, changes), agent=agent)


def results(jobs: list[Job]) -> pd.DataFrame:
    """Setting × C × rule, with normalised scores: the mean over seeds, and the scores of the seeds in brackets."""
    scores = pd.concat([read_scores(job.path / "scores.csv") for job in jobs if job.finished], ignore_index=True)
    final = gains(scores[scores.snapshot == scores.snapshot.max()], read_yardstick())
    dislikes = final.task.map(lambda task: bool((parse_task(task) < 0).any()))
    final["tasks"] = final.task_set.map({"room-train": "training", "room-validation": "without dislikes"})
    final.loc[(final.task_set == "room-validation") & dislikes, "tasks"] = "with dislikes"
    groups = ["agent", "candidates", "rule", "tasks"]
    sums = final.groupby([*groups, "seed"], sort=False)[["gained", "possible"]].sum()
    cells = (sums.gained / sums.possible).groupby(level=groups, sort=False).agg(_cell)
    return cells.unstack("tasks").reset_index().rename(columns={"agent": "setting", "candidates": "C"})


def _cell(seeds: pd.Series) -> str:
    return f"{seeds.mean():.2f} ({', '.join(f'{score:.2f}' for score in seeds)})"


if __name__ == "__main__":
    study(__doc__, settings, results, (100, 101), Path("runs/room-levers"))

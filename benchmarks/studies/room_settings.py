"""Ablation of training in the room: room-laptop without its stabilising settings, with each, and with some together.

    python benchmarks/studies/room_settings.py [--frames 1000000] [--seeds 100 101 102] [--only "plain" "replay" …]

Every setting trains a USFA with seeds that no published number uses, and is scored with C = M as evaluation does: on
the training tasks, and on tasks that are neither trained on nor tested in any published number. The study can be
interrupted and restarted; finished runs are not repeated. Results: docs/room-settings.md.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from changing import changed
from room_study import study

from usfa.environments.room.yardstick import read_yardstick
from usfa.evaluation import read_scores, summarise
from usfa.paper.experiment import Job
from usfa.paper.room_report import summary_of
from usfa.runs import TrainConfig, preset

OTHERS = {"only wishes": "1010;0101;1110;1101", "wishes and dislikes": "-1010;010-1;10-11"}
"""Tasks in neither M nor M′."""

PLAIN = {
    "network.normalise": False,
    "target_every": None,
    "action_gap": 0.0,
    "replay_ratio": 0,
    "replay_capacity": 10_000,
    "updates_per_round": 8,
}
"""The paper's settings; only Adam and clipping make it more stable."""

_TARGET = {"target_every": 100}
_REPLAY = {"replay_ratio": 1, "replay_capacity": 100, "updates_per_round": 16}
_NORMALISED = {"network.normalise": True}
_INNER = {"network.conditioning": "inner-product"}

CHANGES: dict[str, dict[str, Any]] = {
    "plain": {},
    "no clipping": {"clip": None},
    "learning rate 1.4e-3": {"learning_rate": 1.4e-3},
    "16 updates of half the size": {"updates_per_round": 16},
    "γ = 0.98": {"gamma": 0.98},
    "replay": _REPLAY,
    "target network": _TARGET,
    "target network of 50 updates": {"target_every": 50},
    "target network, learning rate 1.4e-3": _TARGET | {"learning_rate": 1.4e-3},
    "target network, 16 updates of half the size": _TARGET | {"updates_per_round": 16},
    "target network, γ = 0.95": _TARGET | {"gamma": 0.95},
    "target network, replay": _TARGET | _REPLAY,
    "target network, replay of 20 rounds": _TARGET | _REPLAY | {"replay_capacity": 20},
    "target network, replay of 20 rounds, learning rate 1e-3": _TARGET
    | _REPLAY
    | {"replay_capacity": 20, "learning_rate": 1e-3},
    "target network, replay, learning rate 1e-3": _TARGET | _REPLAY | {"learning_rate": 1e-3},
    "target network, replay, learning rate 1.4e-3": _TARGET | _REPLAY | {"learning_rate": 1.4e-3},
    "target network, replay, λ = 0": _TARGET | _REPLAY | {"lambda_": 0.0},
    "target network, replay, no memory": _TARGET | _REPLAY | {"network.memory": 0},
    "target network, replay, inner product": _TARGET | _REPLAY | _INNER,
    "target network, replay, layer normalisation": _TARGET | _REPLAY | _NORMALISED,
    "layer normalisation": _NORMALISED,
    "layer normalisation, no clipping": _NORMALISED | {"clip": None},
    "layer normalisation, λ = 0": _NORMALISED | {"lambda_": 0.0},
    "layer normalisation, no memory": _NORMALISED | {"network.memory": 0},
    "layer normalisation, inner product": _NORMALISED | _INNER,
    "layer normalisation, target network": _NORMALISED | _TARGET,
    "layer normalisation, target network of 400 updates": _NORMALISED | {"target_every": 400},
    "layer normalisation, target network, inner product": _NORMALISED | _TARGET | _INNER,
}


def settings(frames: int) -> dict[str, TrainConfig]:
    base = preset("room-laptop")
    evaluation = replace(base.evaluation, tasks=("room-train", *OTHERS.values()), candidates=("train",), snapshots=1)
    base = replace(base, learner=replace(base.learner, budget=frames), evaluation=evaluation)
    return {name: changed(base, PLAIN | changes) for name, changes in CHANGES.items()}


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
    study(__doc__, settings, results, (100, 101, 102), Path("runs/room-settings"))

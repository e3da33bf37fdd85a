"""The same training in one process and with actors on this machine: scores with 95 % intervals over seeds.

    python benchmarks/studies/cluster_scores.py [--seeds 10] [--room-seeds 8] [--actors 2] [--out FOLDER]

Trip MDP: the preset, mean gap over the 51 test directions (small is good). Small room: 16×16 pixels, 5×5 metres, two
kinds of objects, after 36,000 and after 72,000 frames; mean return on the two training tasks, 20 episodes each (large
is good).
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import pandas as pd

from usfa.cluster import ClusterConfig, read_account
from usfa.cluster.ray import cpus_here
from usfa.evaluation import read_scores, summarise, write_table
from usfa.networks import NetworkConfig
from usfa.runs import EvaluationConfig, TrainConfig, preset, train

SMALL_ROOM = TrainConfig(
    environment="room",
    training_tasks="1,0;0,1",
    environment_arguments={
        **{"image_size": 16, "side": 5.0, "types": 2, "objects_per_type": 2},
        **{"decisions": 60, "speed": 0.5, "turn": 0.42},
    },
    network=NetworkConfig(((8, 4, 2), (16, 3, 2)), memory=16, trunk=(32,), embedding=(16,), head=(32,), normalise=True),
    learner=replace(
        preset("room-laptop").learner,
        policies_per_step=5,
        environments=16,
        trajectory_length=16,
        gamma=0.85,
        epsilon=0.2,
        learning_rate=1e-3,
        updates_per_round=8,
        replay_ratio=0,
        replay_capacity=10_000,
        target_every=None,
    ),
    evaluation=EvaluationConfig(snapshots=1),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--room-seeds", type=int, default=8)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    local = ClusterConfig("local", chosen.actors, cpus_per_actor=min(1.0, cpus_here() / chosen.actors))
    trip = preset("trip-usfa")
    trip = replace(trip, evaluation=EvaluationConfig(("trip-directions",), snapshots=1))
    problems = {"trip": replace(trip, seeds=tuple(range(chosen.seeds)))}
    for frames in (36_000, 72_000):
        learner = replace(SMALL_ROOM.learner, budget=frames)
        config = replace(SMALL_ROOM, learner=learner, seeds=tuple(range(chosen.room_seeds)))
        problems[f"small room, {frames:,} frames"] = config
    rows = [row for name, config in problems.items() for row in compared(name, config, local)]
    table = pd.DataFrame(rows)
    print(table.to_string(index=False, float_format="{:.4f}".format))
    if chosen.out is not None:
        write_table(chosen.out / "scores.csv", table)


def compared(problem: str, config: TrainConfig, local: ClusterConfig) -> list[dict[str, object]]:
    """A row for one process, a row for the cluster."""
    rows = []
    for how, cluster in {"one process": None, f"{local.actors} actors": local}.items():
        with tempfile.TemporaryDirectory() as directory:
            run = train(config, Path(directory) / "run", cluster=cluster)
            scores = read_scores(run.scores)
            account = str(read_account(run.trajectories)) if run.trajectories.exists() else ""
        last = scores[scores.snapshot == scores.snapshot.max()]
        known = bool(last.optimal.notna().all())
        last = last.assign(value=last.optimal - last.score if known else last.score)
        found = summarise(last, ["agent"], "value").iloc[0]
        what = "gap" if known else "return"
        numbers = {name: found[name] for name in ("mean", "low", "high", "runs")}
        rows.append({"problem": problem, "how": how, "score": what, **numbers, "trajectories": account})
        print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    main()

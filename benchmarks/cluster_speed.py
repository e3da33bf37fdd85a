"""Speed of a cluster on this machine, compared with one process and with the model's prediction.

    python benchmarks/cluster_speed.py [--preset room-laptop] [--rounds 6] [--turns 3] [--actors 1 2 3 4] [--out FOLDER]

First, one process and a cluster with one actor are measured in turns, each after its pipeline is full. Then the costs
of the parts are measured, and the speeds that they predict for each number of actors on the cores of this machine are
compared with measured speeds. --out writes tables and figures, and also predicts the speed for actors on nodes of their
own and a faster learner.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from usfa.agents import Agent
from usfa.cluster import ClusterConfig
from usfa.cluster.planning import Costs, Site, measure_costs, predict
from usfa.cluster.ray import RayFleet, connected, cpus_here
from usfa.cluster.remote_acting import ClusterActing
from usfa.evaluation import write_table
from usfa.figures import save
from usfa.figures.cluster import plan
from usfa.learning import Learner
from usfa.runs import TrainConfig, build_agent, preset

COLUMNS = ["actors", "frames_per_second", "predicted", "limit", "error", "staleness"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="room-laptop")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--learner-speedup", type=float, default=40.0)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    config = preset(chosen.preset)
    torch.set_num_threads(config.threads)
    agent = build_agent(config)
    most = max(chosen.actors)
    with connected(ClusterConfig("local", most, cpus_per_actor=cpus_here() / most)):
        against_one_process(config, agent, chosen.rounds, chosen.turns)
        costs = against_the_model(config, agent, chosen.rounds, chosen.actors, chosen.out)
    if chosen.out is not None:
        beyond_this_machine(costs, chosen.learner_speedup, chosen.out)


def against_one_process(config: TrainConfig, agent: Agent, rounds: int, turns: int) -> None:
    single = Learner(agent, config.learner, config.environments, config.tasks, (0,))
    with closing(single), cluster_of(1, config, agent) as (cluster, fleet):
        speeds = [(speed(single, rounds), speed_of_cluster(cluster, fleet, rounds)) for _ in range(turns)]
        show_transport(fleet)
    alone, together = np.median(speeds, axis=0)
    print(f"one process {alone:,.0f} frames/s, one actor {together:,.0f}: {together / alone:.2f}  (at least 0.70)")


@contextmanager
def cluster_of(actors: int, config: TrainConfig, agent: Agent) -> Iterator[tuple[Learner, RayFleet]]:
    settings = ClusterConfig("auto", actors)
    with tempfile.TemporaryDirectory() as directory:
        fleet = RayFleet(cpus_here() / max(actors, cpus_here()))
        acting = ClusterActing(settings, fleet, Path(directory) / "trajectories.jsonl")
        learner = Learner(agent, config.learner, config.environments, config.tasks, (0,), acting=acting)
        with closing(learner):
            yield learner, fleet


def speed(learner: Learner, rounds: int) -> float:
    """Frames per second over some rounds, after one that warms up."""
    learner.step()
    before, started = learner.frames.sum(), time.perf_counter()
    for _ in range(rounds):
        learner.step()
    return float((learner.frames.sum() - before) / (time.perf_counter() - started))


def speed_of_cluster(learner: Learner, fleet: RayFleet, rounds: int) -> float:
    """The same, after using up the trajectories that are ready; waits at the end until the actors are idle."""
    learner.step()
    for _ in range(fleet.ready):
        learner.step()
    found = speed(learner, rounds)
    while fleet.ready < _acting(learner).account.under_way:
        time.sleep(0.05)
    return found


def _acting(learner: Learner) -> ClusterActing:
    assert isinstance(learner.acting, ClusterActing)
    return learner.acting


def show_transport(fleet: RayFleet) -> None:
    arrival = fleet.next(timeout=60.0)
    assert arrival is not None
    delivery = arrival.delivery
    assert delivery is not None
    pickled = len(pickle.dumps(delivery, protocol=5, buffer_callback=lambda _: None))
    shared = all(not array.flags.owndata for array in delivery.arrays.values())
    print(f"a trajectory has {delivery.nbytes:,} bytes of arrays, of which 0 are pickled, and {pickled:,} of the rest;")
    print(
        f"the learner's arrays are {'views of shared memory' if shared else 'copies'}: 1 copy on the way, by the actor"
    )


def against_the_model(config: TrainConfig, agent: Agent, rounds: int, actors: list[int], out: Path | None) -> Costs:
    costs = measure_costs(agent, config.learner, config.environments, config.tasks, (0,), torch.device("cpu"), rounds)
    print(costs)
    here = predict(costs, Site(shared_cores=cpus_here()), actors)
    rows = []
    for row in here.itertuples():
        with cluster_of(int(row.actors), config, agent) as (learner, fleet):
            found = speed_of_cluster(learner, fleet, rounds * int(row.actors))
            staleness = learner.acting.report()["staleness"]
        rows.append([row.actors, found, row.frames_per_second, row.limit, row.frames_per_second / found - 1, staleness])
    table = pd.DataFrame(rows, columns=COLUMNS)
    print(table.to_string(index=False, float_format="{:,.2f}".format))
    if out is not None:
        write_table(out / "measured.csv", table)
        save(plan(here, table), out / "measured.png")
    return costs


def beyond_this_machine(costs: Costs, speedup: float, out: Path) -> None:
    """Predict the speed for actors on nodes of their own, with cores like this machine's, and a faster learner."""
    faster = replace(costs, learn=costs.learn / speedup)
    table = predict(faster, Site(), [1, 2, 3, 4, 6, 10, 20, 50, 100, 200, 500, 1000])
    write_table(out / "plan.csv", table)
    save(plan(table), out / "plan.png")


if __name__ == "__main__":
    main()

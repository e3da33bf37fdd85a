"""`usfa plan-cluster`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

from usfa.cli.options import PlanCluster
from usfa.cli.tables import print_table
from usfa.cli.terminal import print_lines
from usfa.cluster import ClusterConfig
from usfa.cluster.planning import Costs, Site, actors_until, measure_costs, predict
from usfa.cluster.ray import connected
from usfa.evaluation import write_table
from usfa.figures import save
from usfa.figures.cluster import plan
from usfa.learning import choose_device
from usfa.runs import build_agent, preset
from usfa.threads import threads

__all__ = ["run"]


def run(command: PlanCluster) -> None:
    site = Site(command.gigabits, command.shared_cores)
    costs = _measured(command)
    costs = replace(costs, learn=costs.learn / command.learner_speedup)
    table = predict(costs, site, sorted(set(command.actors)))
    path = command.out or Path("runs") / f"plan-{command.preset}"
    write_table(path / "plan.csv", table)
    save(plan(table), path / "plan.png")
    _print(costs, site, table)
    print_lines(f"Table: {path / 'plan.csv'}   figure: {path / 'plan.png'}")


def _measured(command: PlanCluster) -> Costs:
    config = preset(command.preset)
    agent = build_agent(config)
    with connected(ClusterConfig("local", cpus_per_actor=0.5)), threads(config.threads):  # as in training
        settings = (agent, config.learner, config.environments, config.tasks, config.seeds)
        return measure_costs(*settings, choose_device(config.device), command.rounds)


def _print(costs: Costs, site: Site, table: pd.DataFrame) -> None:
    shown = table.assign(frames_per_second=table.frames_per_second.round().astype(int))
    print_table(shown[["actors", "frames_per_second", "limit", "staleness"]], "predicted")
    needed, limit = actors_until(costs, site)
    print_lines(
        f"A trajectory of {costs.frames:,} frames: {costs.act:.3f} s to act, {costs.send:.3f} to send "
        f"({costs.trajectory_bytes / 1e6:.1f} MB), {costs.learn:.3f} to learn, {costs.publish:.4f} to publish weights "
        f"({costs.weights_bytes / 1e6:.1f} MB).",
        f"{needed} actor{'s are' if needed > 1 else ' is'} enough: with more, the {limit} is the limit.",
    )

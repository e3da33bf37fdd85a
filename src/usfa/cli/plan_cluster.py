"""`usfa plan-cluster`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import tyro
from rich.console import Console

from usfa.cli.terminal import parse, print_lines, table_of
from usfa.cluster import ClusterConfig
from usfa.cluster.planning import Costs, Site, actors_until, measure_costs, predict
from usfa.cluster.ray import connected
from usfa.errors import InputError
from usfa.evaluation import write_table
from usfa.figures import save
from usfa.figures.cluster import plan
from usfa.learning import choose_device
from usfa.runs import build_agent, preset
from usfa.threads import threads

__all__ = ["PlanCluster", "run"]


@dataclass(frozen=True)
class PlanCluster:
    """Measure one actor and the learner on this machine, and predict frames/s for any number of actors.

    Examples:
      usfa plan-cluster room-laptop
      usfa plan-cluster room-paper --actors 8 32 128 512 --gigabits 25 --learner-speedup 40
      usfa plan-cluster room-laptop --shared-cores 16 --actors 1 4 8 16   (one machine with 16 cores)
    """

    preset: tyro.conf.Positional[str]
    """Preset to train, see `usfa list`."""
    actors: tuple[int, ...] = (1, 2, 3, 4, 6, 10, 20, 50, 100, 200, 500, 1000)
    """Numbers of actors to predict for."""
    gigabits: float = 10.0
    """Network bandwidth of the learner in Gbit/s."""
    learner_speedup: float = 1.0
    """Speed of the learner relative to this machine, for example with a GPU."""
    shared_cores: int | None = None
    """Number of cores, if everything runs on one machine; by default actors have nodes of their own."""
    rounds: int = 10
    """Number of trajectories to measure."""
    out: Path | None = None
    """Directory for plan.csv and plan.png; by default runs/plan-PRESET."""

    def __post_init__(self) -> None:
        if not self.actors or min(self.actors) < 1:
            raise InputError(f"--actors is {self.actors}; expected numbers from 1.")
        if not self.learner_speedup > 0:
            raise InputError(f"--learner-speedup is {self.learner_speedup}; expected a positive number.")
        if self.rounds < 1:
            raise InputError(f"--rounds is {self.rounds}; expected at least 1.")


def run(words: list[str]) -> None:
    command = parse(PlanCluster, "plan-cluster", words)
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
    Console().print(table_of(shown[["actors", "frames_per_second", "limit", "staleness"]], "predicted"))
    needed, limit = actors_until(costs, site)
    print_lines(
        f"A trajectory of {costs.frames:,} frames: {costs.act:.3f} s to act, {costs.send:.3f} to send "
        f"({costs.trajectory_bytes / 1e6:.1f} MB), {costs.learn:.3f} to learn, {costs.publish:.4f} to publish weights "
        f"({costs.weights_bytes / 1e6:.1f} MB).",
        f"{needed} actor{'s are' if needed > 1 else ' is'} enough: with more, the {limit} is the limit.",
    )

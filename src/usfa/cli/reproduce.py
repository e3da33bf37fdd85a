"""`usfa reproduce`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pandas as pd
import tyro

from usfa.cli.options import HELP, Output
from usfa.cli.parsing import parse
from usfa.cli.tables import print_table
from usfa.cli.terminal import print_lines, print_next, progress_console
from usfa.errors import unknown_name
from usfa.paper import room_report, trip_report
from usfa.paper.one_state import OneStateExperiment, reproduce_one_state
from usfa.paper.room import RoomExperiment, report_agents, reproduce_room
from usfa.paper.trip import TripExperiment, reproduce_trip

__all__ = ["ReproduceOneState", "ReproduceRoom", "ReproduceTrip", "run"]


@dataclass(frozen=True)
class ReproduceTrip:
    """Section 4.1 and Appendix B: UVFA, SF&GPI and USFA on the Trip MDP.

    Examples:
      usfa reproduce trip
      usfa reproduce trip --seeds 0 1 2 --episodes 300 --out runs/quick
    """

    experiment: Annotated[TripExperiment, tyro.conf.arg(name="")] = field(default_factory=TripExperiment)
    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)

    def run(self, path: Path) -> str:
        """Reproduce the experiment, print a table, and return the next command."""
        reproduce_trip(self.experiment, path, self.output.existing, progress_console())
        final = trip_report.final_table(pd.read_csv(path / "summary.csv"), "trip-directions")
        shown = final[["method", "rule", "mean gap", "95 % interval", "runs"]]
        print_table(shown, "Trip MDP: mean optimality gap over the 51 directions")
        agent = path / "runs" / "usfa"
        return f"evaluate {agent} --task 0.7,0.7 --candidates task train+task --rule cautious gpi"


@dataclass(frozen=True)
class ReproduceOneState:
    """Appendix A: two types of generalisation in an MDP with one state.

    Examples:
      usfa reproduce one-state
    """

    experiment: Annotated[OneStateExperiment, tyro.conf.arg(name="")] = field(default_factory=OneStateExperiment)
    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)

    def run(self, path: Path) -> str:
        """Reproduce the experiment and return the next command."""
        reproduce_one_state(self.experiment, path, self.output.existing, progress_console())
        return f"evaluate {path / 'runs' / 'usfa'} --task -0.2 --candidates task train"


@dataclass(frozen=True)
class ReproduceRoom:
    """Sections 4.2 and 4.3, Appendices C and D: USFA, the UVFAs and SF&GPI in the first-person room.

    Trains every variant with every seed, several runs in parallel. It can be stopped at any time and continued with
    --resume, which does not repeat finished work.

    Examples:
      usfa reproduce room
      usfa reproduce room --resume
      usfa reproduce room --variants usfa uvfa --seeds 0 --frames 1000000 --out runs/quick
      usfa reproduce room --resume --no-train
      usfa reproduce room --agents docs/results/room-agents/six-seeds/runs --out runs/published
    """

    experiment: Annotated[RoomExperiment, tyro.conf.arg(name="")] = field(default_factory=RoomExperiment)
    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)
    at_once: int | None = None
    """Number of runs to train in parallel; by default one per core."""
    train: bool = True
    """Train missing runs; without it, report on the runs that are finished."""
    agents: Path | None = None
    """Score the trained agents in this directory instead of training; tables, claims and figures follow from them."""

    def run(self, path: Path) -> str:
        """Reproduce the experiment, print a table, and return the next command."""
        if self.agents is not None:
            report_agents(self.agents, path, self.output.existing, progress_console(), self.at_once)
            first = next(self.agents.glob("*/config.json")).parent
        else:
            reproduce_room(self.experiment, path, self.output.existing, progress_console(), self.at_once, self.train)
            first = next(job.path for job in self.experiment.jobs(path) if job.finished)
        print_table(room_report.final_table(pd.read_csv(path / "summary.csv")), room_report.ROOM_TITLE)
        return f"watch room --agent {first} --task 1,1,-1,0"


EXPERIMENTS = {"trip": ReproduceTrip, "one-state": ReproduceOneState, "room": ReproduceRoom}


def run(words: list[str]) -> None:
    if not words:
        print(HELP["reproduce"])
        return
    name, *rest = words
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    command = parse(EXPERIMENTS[name], f"reproduce {name}", rest)
    path = command.output.path(name)
    following = command.run(path)
    print_lines(f"Report: {path / 'report.md'}   figures: {path / 'figures'}")
    print_next(following)

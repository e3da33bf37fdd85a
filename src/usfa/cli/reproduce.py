"""`usfa reproduce`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pandas as pd
import tyro
from rich.console import Console

from usfa.cli.terminal import Output, parse, print_next, progress_console, table_of
from usfa.errors import unknown_name
from usfa.paper.one_state import OneStateExperiment, reproduce_one_state
from usfa.paper.room import RoomExperiment, reproduce_room
from usfa.paper.room_tables import ROOM_TITLE
from usfa.paper.room_tables import final_table as final_room_table
from usfa.paper.trip import TripExperiment, reproduce_trip
from usfa.paper.trip_report import final_table

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


@dataclass(frozen=True)
class ReproduceOneState:
    """Appendix A: two types of generalisation in an MDP with one state.

    Examples:
      usfa reproduce one-state
    """

    experiment: Annotated[OneStateExperiment, tyro.conf.arg(name="")] = field(default_factory=OneStateExperiment)
    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


@dataclass(frozen=True)
class ReproduceRoom:
    """Sections 4.2 and 4.3, Appendices C and D: USFA, the UVFAs and SF&GPI in the first-person room.

    Trains every variant with every seed, several runs at a time. It can be stopped at any moment and goes on with
    --resume; what is done is not done again.

    Examples:
      usfa reproduce room
      usfa reproduce room --resume
      usfa reproduce room --variants usfa uvfa --seeds 0 --frames 1000000 --out runs/quick
    """

    experiment: Annotated[RoomExperiment, tyro.conf.arg(name="")] = field(default_factory=RoomExperiment)
    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)
    at_once: int | None = None
    """How many runs train at the same time; by default one for each core."""


def run(words: list[str]) -> None:
    experiments: dict[str, Callable[[list[str]], None]] = {
        "trip": _reproduce_trip,
        "one-state": _reproduce_one_state,
        "room": _reproduce_room,
    }
    if not words or words[0] in {"-h", "--help"}:
        print("usfa reproduce trip|one-state|room: an experiment of the paper, end to end, into a run directory.")
        print("`usfa reproduce trip --help` shows every setting.")
        return
    if words[0] not in experiments:
        raise unknown_name("experiment", words[0], experiments)
    experiments[words[0]](words[1:])


def _reproduce_trip(words: list[str]) -> None:
    command = parse(ReproduceTrip, "reproduce trip", words)
    path, console = command.output.path("trip"), Console()
    reproduce_trip(command.experiment, path, command.output.existing, progress_console())
    summary = pd.read_csv(path / "summary.csv")
    final = final_table(summary, "trip-directions")[["method", "rule", "mean gap", "95 % interval", "runs"]]
    console.print(table_of(final, "Trip MDP: mean optimality gap over the 51 directions"))
    _print_report(console, path)
    print_next(
        console, f"evaluate {path / 'runs' / 'usfa'} --task 0.7,0.7 --candidates task train+task --rule cautious gpi"
    )


def _reproduce_one_state(words: list[str]) -> None:
    command = parse(ReproduceOneState, "reproduce one-state", words)
    path, console = command.output.path("one-state"), Console()
    reproduce_one_state(command.experiment, path, command.output.existing, progress_console())
    _print_report(console, path)
    print_next(console, f"evaluate {path / 'runs' / 'usfa'} --task -0.2 --candidates task train")


def _reproduce_room(words: list[str]) -> None:
    command = parse(ReproduceRoom, "reproduce room", words)
    path, console = command.output.path("room"), Console()
    reproduce_room(command.experiment, path, command.output.existing, progress_console(), command.at_once)
    summary = pd.read_csv(path / "summary.csv")
    console.print(table_of(final_room_table(summary), ROOM_TITLE))
    _print_report(console, path)
    first = command.experiment.jobs(path)[0].path
    print_next(console, f"watch room --agent {first} --task 1,1,-1,0")


def _print_report(console: Console, path: Path) -> None:
    console.print(f"Report: {path / 'report.md'}   figures: {path / 'figures'}", soft_wrap=True)

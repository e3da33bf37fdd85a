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
from usfa.experiments.one_state import OneStateExperiment, reproduce_one_state
from usfa.experiments.trip import TripExperiment, reproduce_trip
from usfa.experiments.trip_report import final_table

__all__ = ["ReproduceOneState", "ReproduceTrip", "run"]


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


def run(words: list[str]) -> None:
    experiments: dict[str, Callable[[list[str]], None]] = {
        "trip": _reproduce_trip,
        "one-state": _reproduce_one_state,
    }
    if not words or words[0] in {"-h", "--help"}:
        print("usfa reproduce trip|one-state: an experiment of the paper, end to end, into a run directory.")
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
    final = final_table(summary, "trip-directions")[["method", "mean gap", "95 % interval", "runs"]]
    console.print(table_of(final, "Trip MDP: mean optimality gap over the 51 directions"))
    _print_report(console, path)
    print_next(console, f"evaluate {path / 'runs' / 'usfa'} --task 0.7,0.7 --candidates task sample:5")


def _reproduce_one_state(words: list[str]) -> None:
    command = parse(ReproduceOneState, "reproduce one-state", words)
    path, console = command.output.path("one-state"), Console()
    reproduce_one_state(command.experiment, path, command.output.existing, progress_console())
    _print_report(console, path)
    print_next(console, f"evaluate {path / 'runs' / 'usfa'} --task -0.2 --candidates task train")


def _print_report(console: Console, path: Path) -> None:
    console.print(f"Report: {path / 'report.md'}   figures: {path / 'figures'}", soft_wrap=True)

"""`usfa plot`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from usfa.cli.terminal import parse, print_lines, table_of
from usfa.errors import InputError
from usfa.figures import save
from usfa.figures.learning import learning_curves
from usfa.files import require_free
from usfa.runs.curves import compared

__all__ = ["Plot", "run"]


@dataclass(frozen=True)
class Plot:
    """Compare the learning curves of runs, with 95 % intervals over their seeds.

    Runs that differ only in their seeds are pooled.

    Examples:
      usfa plot runs/trip-usfa runs/trip-uvfa
      usfa plot runs/seed-0 runs/seed-1 runs/other --candidates train --rule gpi --out curves.png
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Directories of finished runs."""
    candidates: str | None = None
    """Candidate set C; by default the first that all runs were scored with."""
    rule: str | None = None
    """Decision rule; by default likewise."""
    out: Path = Path("runs/plot.png")
    """File of the figure."""
    overwrite: bool = False
    """Replace an earlier figure."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise InputError("A run is missing; expected one or more run directories.")


def run(words: list[str]) -> None:
    command = parse(Plot, "plot", words)
    require_free(command.out, command.overwrite)
    curves = compared(command.runs, command.candidates, command.rule)
    save(learning_curves(curves), command.out)
    last = curves[curves.snapshot == curves.groupby("label").snapshot.transform("max")]
    shown = last[["label", "task_set", "mean", "low", "high", "runs"]].rename(columns={"label": "run", "runs": "seeds"})
    Console().print(
        table_of(shown, f"{curves.candidates.iloc[0]}, {curves.rule.iloc[0]}: last snapshot, 95 % interval")
    )
    print_lines(f"Figure: {command.out}")

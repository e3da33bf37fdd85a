"""`usfa plot`."""

from __future__ import annotations

from usfa.cli.options import Plot
from usfa.cli.tables import print_table
from usfa.cli.terminal import print_lines
from usfa.figures import save
from usfa.figures.learning import learning_curves
from usfa.files import require_free
from usfa.runs.curves import compared

__all__ = ["run"]


def run(command: Plot) -> None:
    require_free(command.out, command.overwrite)
    curves = compared(command.runs, command.candidates, command.rule)
    save(learning_curves(curves), command.out)
    last = curves[curves.snapshot == curves.groupby("label").snapshot.transform("max")]
    shown = last[["label", "task_set", "mean", "low", "high", "runs"]].rename(columns={"label": "run", "runs": "seeds"})
    interval = ", 95 % interval" if shown.low.notna().any() else ""
    print_table(shown, f"{curves.candidates.iloc[0]}, {curves.rule.iloc[0]}: last snapshot{interval}")
    print_lines(f"Figure: {command.out}")

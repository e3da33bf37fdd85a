"""Learning curves: scores of snapshots over training, of one run or of several."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from usfa.figures.style import COLOURS, PAGE, label_ends, styled

__all__ = ["learning_curves"]

_IN_A_ROW = 3  # panels


def learning_curves(summary: pd.DataFrame, ylabel: str = "mean return") -> Figure:
    """A panel for each set of tasks, up to three in a row, with a line for each label.

    The last value is written beside its line, with its 95 % interval over seeds where there are several.

    Args:
        summary: columns label, task_set, frames, mean, low, high (NaN for a single seed).
        ylabel: name of the values.
    """
    sets = list(dict.fromkeys(summary.task_set))
    colours = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(dict.fromkeys(summary.label))}
    columns = min(_IN_A_ROW, len(sets))
    rows = -(-len(sets) // columns)
    with styled():
        figure = Figure(figsize=(PAGE * max(columns, 1.5) / _IN_A_ROW, 1.9 * rows + 0.3), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid.flat[len(sets) :]:
            axes.remove()
        for axes, name in zip(grid.flat, sets, strict=False):
            _panel(axes, summary[summary.task_set == name], colours)
            axes.set(title=name if len(name) <= 30 else name[:27] + "...", xlabel="frames")
        for axes in grid[:, 0]:
            axes.set_ylabel(ylabel)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(3, len(labels)), fontsize=7.5)
    return figure


def _panel(axes: Axes, curves: pd.DataFrame, colours: dict[str, str]) -> None:
    ends = []
    for label, curve in curves.groupby("label", sort=False):
        ordered, colour = curve.sort_values("frames"), colours[str(label)]
        last = ordered.iloc[-1]
        axes.plot(ordered.frames, ordered["mean"], color=colour, label=str(label))
        axes.plot([last.frames], [last["mean"]], color=colour, marker="o", markersize=3.5)
        axes.plot([last.frames] * 2, [last.low, last.high], color=colour, linewidth=1.2)
        ends.append((float(last["mean"]), f"{last['mean']:#.3g}", colour))
    label_ends(axes, ends)

"""Learning curves: scores of snapshots over training, of one run or of several."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from usfa.figures.style import COLOURS, styled

__all__ = ["learning_curves"]


def learning_curves(summary: pd.DataFrame, ylabel: str = "mean return") -> Figure:
    """A panel for each set of tasks, a line for each label, with 95 % intervals over seeds where there are several.

    Args:
        summary: columns label, task_set, frames, mean, low, high (NaN for a single seed).
        ylabel: name of the values.
    """
    sets = list(dict.fromkeys(summary.task_set))
    colours = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(dict.fromkeys(summary.label))}
    with styled():
        figure = Figure(figsize=(3.4 * len(sets) + 0.4, 2.9), layout="constrained")
        panels = figure.subplots(1, len(sets), squeeze=False)[0]
        for axes, name in zip(panels, sets, strict=True):
            for label, curve in summary[summary.task_set == name].groupby("label", sort=False):
                ordered = curve.sort_values("frames")
                colour = colours[str(label)]
                axes.plot(ordered.frames, ordered["mean"], color=colour, label=str(label), marker=".")
                axes.fill_between(ordered.frames, ordered.low, ordered.high, color=colour, alpha=0.15, linewidth=0)
            axes.set(title=name if len(name) <= 30 else name[:27] + "...", xlabel="frames")
        panels[0].set_ylabel(ylabel)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(3, len(labels)), fontsize=8)
    return figure

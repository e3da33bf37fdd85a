"""The training speed of a cluster over its number of actors."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator

from usfa.figures.style import COLUMN, styled

__all__ = ["plan"]

BOUNDS = {
    "actors": ("actors alone", "#0072B2"),
    "learner": ("learner alone", "#D55E00"),
    "network": ("network alone", "#009E73"),
    "cores": ("cores that all share", "#CC79A7"),
}


def plan(prediction: pd.DataFrame, measured: pd.DataFrame | None = None) -> Figure:
    """Predicted speed, its upper bounds, and measured speeds.

    Args:
        prediction: actors, frames_per_second, and the column NAME_allow of every bound.
        measured: actors, frames_per_second.
    """
    with styled():
        figure = Figure(figsize=(COLUMN, 2.5), layout="constrained")
        axes = figure.subplots()
        for name, (label, colour) in BOUNDS.items():
            if f"{name}_allow" in prediction:
                axes.plot(prediction.actors, prediction[f"{name}_allow"], color=colour, lw=1, ls="--", label=label)
        axes.plot(
            prediction.actors, prediction.frames_per_second, color="#333333", lw=2.4, alpha=0.5, label="predicted"
        )
        if measured is not None:
            axes.plot(measured.actors, measured.frames_per_second, "o", color="#333333", label="measured")
        axes.set(xlabel="actors", ylabel="frames per second", xscale="log", yscale="log")
        axes.set_ylim(prediction.frames_per_second.min() / 2, prediction.frames_per_second.max() * 4)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.minorticks_off()
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(EngFormatter(sep=""))
        axes.legend(loc="lower right")
    return figure

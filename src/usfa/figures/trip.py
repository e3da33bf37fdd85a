"""Figures of Section 4.1 and Appendix B, with both terms of Proposition 1 over the task space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Circle, FancyArrowPatch

from usfa.figures.style import EXACT, PAGE, Key, label_ends, method, rows_of, styled

__all__ = ["bound_maps", "diagonal", "gap_maps", "overview", "performance_maps"]

CURVES: tuple[Key, ...] = (("uvfa", "task"), EXACT, ("usfa", "task"), ("usfa", "sample:5"))
MAPS: tuple[Key, ...] = (("uvfa", "task"), EXACT, ("usfa", "sample:5"), ("usfa", "task"))
"""Methods with a map, from left to right."""


def overview(curves: pd.DataFrame, places: int, cost: float) -> Figure:
    """The MDP, and the optimality gap over training on the 51 directions (the paper's Figure 2).

    Args:
        curves: gaps from `summarise` by agent, candidates, task_set and snapshot.
        places: N of the MDP.
        cost: ε of the MDP.
    """
    with styled():
        figure = Figure(figsize=(PAGE, 2.5), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.35))
        _draw_mdp(left, places, cost)
        curves = curves[curves.task_set == "trip-directions"]
        _draw_curves(right, curves)
        right.set_title("Zero-shot on 51 directions w′, 95 % intervals over runs")
        # Untrained networks start near 0.3; show the range around the line of SF&GPI instead.
        right.set_ylim(0, 2 * float(rows_of(curves, EXACT)["mean"].iloc[0]))
        _name_curves(right, curves)
    return figure


def _draw_mdp(axes: Axes, places: int, cost: float) -> None:
    axes.set(xlim=(-0.5, 4.9), ylim=(-2.3, 2.3), aspect="equal", title="Trip MDP")
    axes.axis("off")
    states = {"s₁": (0.0, 0.0), "s₂": (2.5, 0.0)}
    for name, centre in states.items():
        axes.add_patch(Circle(centre, 0.28, fill=False, lw=1.4))
        axes.text(*centre, name, ha="center", va="center")
    _arrow(axes, (0.28, 0), (2.22, 0), "black")
    axes.text(1.25, 0.1, "E", ha="center", va="bottom", fontsize=7)
    axes.text(1.25, -0.12, f"φ=[−{cost:g},\n−{cost:g}]", ha="center", va="top", fontsize=7)
    for label, phi, end in (("C", "[1, 0]", (0.0, 1.75)), ("F", "[0, 1]", (0.0, -1.75))):
        _arrow(axes, (0, np.sign(end[1]) * 0.28), (0, end[1] - np.sign(end[1]) * 0.16), "black")
        _place(axes, end, f"{label}  φ={phi}", "#333333")
    for k in range(places + 1):
        angle = np.pi / 2 * (1 - 2 * k / places) * 0.8
        end = (2.5 + 1.7 * np.cos(angle), 1.9 * np.sin(angle))
        name = {0: "C", places: "F"}.get(k, f"P{k}")
        share = k / places
        colour = (0.84 * (1 - share), 0.37 * (1 - share) + 0.45 * share, 0.7 * share)
        start = (2.5 + 0.28 * np.cos(angle), 0.28 * np.sin(angle))
        _arrow(axes, start, (end[0] - 0.14 * np.cos(angle), end[1] - 0.14 * np.sin(angle)), colour)
        _place(axes, end, name, colour)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: Any) -> None:
    arrow = FancyArrowPatch(start, end, color=colour, arrowstyle="-|>", mutation_scale=8, lw=1.1, shrinkA=0, shrinkB=0)
    axes.add_patch(arrow)


def _place(axes: Axes, centre: tuple[float, float], label: str, colour: Any) -> None:
    axes.plot(*centre, marker="s", ms=5, color=colour)
    axes.annotate(label, centre, xytext=(7, 0), textcoords="offset points", va="center", fontsize=7)


def _draw_curves(axes: Axes, curves: pd.DataFrame) -> None:
    for key in CURVES:
        look, mine = method(*key), rows_of(curves, key).sort_values("snapshot")
        if key == EXACT:
            axes.axhline(mine["mean"].iloc[0], color=look.colour, ls="--", lw=1.4, label=look.label)
            continue
        axes.fill_between(mine.snapshot, mine.low, mine.high, color=look.colour, alpha=0.2, lw=0)
        axes.plot(mine.snapshot, mine["mean"], color=look.colour, lw=1.4, label=look.label)
    axes.set(xlabel="training episodes", ylabel="mean optimality gap", xlim=(0, curves.snapshot.max()))
    axes.set_ylim(bottom=0)


def _name_curves(axes: Axes, curves: pd.DataFrame) -> None:
    """Write methods and last gaps at the ends of their curves."""
    last = {key: float(rows_of(curves, key).sort_values("snapshot")["mean"].iloc[-1]) for key in CURVES}
    label_ends(axes, [(gap, f"{method(*key).label}  {gap:.4f}", method(*key).colour) for key, gap in last.items()])


def performance_maps(maps: pd.DataFrame) -> Figure:
    """Returns over the task space [0,1]² beside the optimum, one sample run (Appendix B).

    Args:
        maps: long form with agent, candidates, w1, w2, score, optimal.
    """
    with styled():
        figure = Figure(figsize=(PAGE, 1.75), layout="constrained")
        axes = figure.subplots(1, 1 + len(MAPS), sharey=True)
        top = float(maps.optimal.max())
        image = _heat(axes[0], rows_of(maps, MAPS[0]), "optimal", top, "viridis", "optimal")
        for ax, key in zip(axes[1:], MAPS, strict=True):
            _heat(ax, rows_of(maps, key), "score", top, "viridis", method(*key).label)
        axes[0].set_ylabel("w′₂ (food)")
        figure.colorbar(image, ax=axes, label="return", pad=0.01)
    return figure


def gap_maps(maps: pd.DataFrame) -> Figure:
    """Optimality gap over the task space [0,1]², the same sample run (Appendix B)."""
    maps = maps.assign(gap=maps.optimal - maps.score)
    with styled():
        figure = Figure(figsize=(PAGE, 2.1), layout="constrained")
        axes = figure.subplots(1, len(MAPS), sharey=True)
        top = float(maps.gap.max())
        for ax, key in zip(axes, MAPS, strict=True):
            mine = rows_of(maps, key)
            image = _heat(ax, mine, "gap", top, "magma_r", f"{method(*key).label}\nmean {mine.gap.mean():.4f}")
        axes[0].set_ylabel("w′₂ (food)")
        figure.colorbar(image, ax=axes, label="optimality gap", pad=0.01)
    return figure


def _heat(
    axes: Axes, table: pd.DataFrame, value: str, high: float, colours: str, title: str, gamma: float = 1.0
) -> AxesImage:
    """A heat map from 0 to `high`; a `gamma` below 1 gives small values more of the colour range."""
    grid = table.pivot(index="w2", columns="w1", values=value)
    extent = (grid.columns.min(), grid.columns.max(), grid.index.min(), grid.index.max())
    image = axes.imshow(grid.to_numpy(), origin="lower", extent=extent, cmap=colours, norm=PowerNorm(gamma, 0, high))
    axes.grid(visible=False)
    axes.set_title(title, fontsize=7.5)
    axes.set(xlabel="w′₁ (coffee)", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    axes.set_xticks((0, 0.5, 1), ("0", "0.5", "1"))
    return image


def diagonal(curves: pd.DataFrame, final: pd.DataFrame) -> Figure:
    """The adversarial diagonal w′₁ = w′₂: over training, and along it after training (Appendix B).

    Args:
        curves: gaps from `summarise` by agent, candidates, task_set and snapshot.
        final: gap of each agent, candidate set and seed at each w1 of the diagonal after training.
    """
    with styled():
        figure = Figure(figsize=(PAGE, 2.3), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_curves(left, curves[curves.task_set == "trip-diagonal"])
        left.set_title("Diagonal w′₁ = w′₂, 95 % intervals")
        for key in CURVES:
            look, gaps = method(*key), rows_of(final, key).pivot(index="seed", columns="w1", values="gap")
            right.plot(gaps.columns, gaps.mean(), color=look.colour, label=look.label, lw=1.4)
            if len(gaps) > 1:
                spread = gaps.std(ddof=1)
                right.fill_between(gaps.columns, (gaps.mean() - spread).clip(lower=0), gaps.mean() + spread,
                                   color=look.colour, alpha=0.2, lw=0)  # fmt: skip
        right.set(title="After training, ±1 std", xlabel="w′₁ = w′₂", xlim=(0, 1))
        right.set_ylim(bottom=0)
        last = {key: rows_of(final[final.w1 == final.w1.max()], key).gap.mean() for key in CURVES}
        label_ends(right, [(gap, method(*key).label, method(*key).colour) for key, gap in last.items()])
    return figure


def bound_maps(bounds: pd.DataFrame, candidate_sets: Sequence[str]) -> Figure:
    """The terms of Proposition 1, their sum and the true gap over [0,1]², with a row for each candidate set.

    The term of rewards that φ cannot express has a column if it is not 0.

    Args:
        bounds: long form with candidates, w1, w2, distance, approximation, reward, total, gap.
        candidate_sets: the rows, from top to bottom.
    """
    columns = {
        "distance": "distance term\n2H ‖φ‖ min δ$_d$(z)",
        "approximation": "approximation term\n2H ‖w′‖ max δ$_ψ$(z)",
        "reward": "reward term\n2H max |r − φ·w′|",
        "total": "bound\n(sum)",
        "gap": "true gap\n‖Q* − Q$^π$‖$_∞$",
    }
    if "reward" not in bounds or not bounds.reward.any():
        columns.pop("reward")
    with styled():
        figure = Figure(figsize=(PAGE, 6.6 / len(columns) * len(candidate_sets) + 0.3), layout="constrained")
        rows = figure.subplots(len(candidate_sets), len(columns), sharex=True, sharey=True, squeeze=False)
        top, gap_top = float(bounds.total.max()), float(bounds.gap.max())
        for row, candidates in zip(rows, candidate_sets, strict=True):
            mine = bounds[bounds.candidates == candidates]
            for ax, (name, title) in zip(row, columns.items(), strict=True):
                heading = title if ax in rows[0] else ""
                if name == "gap":
                    image = _heat(ax, mine, name, gap_top, "magma_r", heading)
                else:
                    image = _heat(ax, mine, name, top, "cividis", heading, gamma=0.4)
                if name in {"total", "gap"}:
                    figure.colorbar(image, ax=ax, fraction=0.05, pad=0.02)
            row[0].set_ylabel(f"{method('usfa', candidates).label.removeprefix('USFA, ')}\nw′₂")
        for row in rows[:-1]:
            for ax in row:
                ax.set_xlabel("")
    return figure

"""Fronts of value vectors, and utility over the simplex of preferences.

`front` has a row for each preference: w1 … wD, value1 … valueD, utility, optimal, nondominated, candidates, rule,
gamma, episodes. `known` holds a known front: value1 … valueD, and `supported`, whether the value is optimal for some
preference w ≥ 0. `indicators` has a row for each indicator: indicator, agent, best_of_set, known, reference.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from numpy.typing import NDArray

from usfa.figures.style import COLUMN, PAGE, styled

__all__ = ["FIGURES", "all_figures", "front_2d", "front_3d", "parallel_coordinates", "utility_line", "utility_maps"]

Array = NDArray[np.float64]

AGENT, SET, KNOWN, FADED, LOST = "#0072B2", "#56B4E9", "#333333", "#AAAAAA", "#D55E00"
OBJECTIVES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#000000")
"""Colours of the objectives, from Okabe and Ito's palette."""

FIGURES = ("front", "utility")
"""Names of the figures that :func:`all_figures` may draw."""

TRIANGLE = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]])
"""Corners of the simplex in the figure."""


def all_figures(
    front: pd.DataFrame, known: pd.DataFrame | None, indicators: pd.DataFrame, names: Sequence[str] = ()
) -> dict[str, Figure]:
    """The figures for this number of objectives, by file name.

    Args:
        front: the values of the agent.
        known: the known front, or None.
        indicators: the indicators, for the captions.
        names: the names of the objectives.
    """
    w = _vectors(front, "w")
    objectives = w.shape[1]
    names = tuple(names) or tuple(f"objective {d}" for d in range(1, objectives + 1))
    draw = {2: front_2d, 3: front_3d}.get(objectives, parallel_coordinates)
    figures = {"front": draw(front, known, indicators, names)}
    over_simplex = {2: utility_line, 3: utility_maps}.get(objectives)
    if over_simplex is not None and len(w) > objectives and (w >= 0).all() and np.allclose(w.sum(axis=1), 1):
        figures["utility"] = over_simplex(front, indicators, names)
    return figures


# --- fronts ---


def front_2d(front: pd.DataFrame, known: pd.DataFrame | None, indicators: pd.DataFrame, names: Sequence[str]) -> Figure:
    """Two objectives: the values of the agent, the region they dominate, and the known front.

    With a reference point the region is the hypervolume.
    """
    reference = _reference(indicators)
    with styled():
        figure = Figure(figsize=(COLUMN, 3.1), layout="constrained")
        axes = figure.subplots()
        _scatter(axes, front, known, (0, 1))
        if reference is not None:
            axes.scatter(reference[0], reference[1], s=28, marker="+", color=KNOWN, lw=1.2, label="reference point")
        axes.set(xlabel=names[0], ylabel=names[1], xlim=axes.get_xlim(), ylim=axes.get_ylim())
        corner = np.array([axes.get_xlim()[0], axes.get_ylim()[0]]) if reference is None else reference
        if known is not None:
            axes.step(*_stairs(corner, known), where="post", color=KNOWN, lw=0.9, ls="--", zorder=1)
        x, y = _stairs(corner, front[front.nondominated])
        axes.fill_between(x, y, corner[1], step="post", color=AGENT, alpha=0.1, lw=0, zorder=0)
        axes.step(x, y, where="post", color=AGENT, lw=0.9, zorder=1)
        figure.legend(loc="outside upper center", ncols=2)
        _caption(figure, front, indicators)
    return figure


def front_3d(front: pd.DataFrame, known: pd.DataFrame | None, indicators: pd.DataFrame, names: Sequence[str]) -> Figure:
    """Three objectives: a 3D plot with a line from each value to the floor, and three projections."""
    with styled():
        figure = Figure(figsize=(PAGE, 4.4), layout="constrained")
        grid = figure.add_gridspec(3, 2, width_ratios=(1.8, 1))
        space: Any = figure.add_subplot(grid[:, 0], projection="3d")
        _scatter(space, front, known, (0, 1, 2))
        floor = space.get_zlim()[0]
        for x, y, z in np.unique(_vectors(front[front.nondominated], "value"), axis=0):
            space.plot((x, x), (y, y), (floor, z), color=AGENT, lw=0.6, alpha=0.5)
        space.set(xlabel=names[0], ylabel=names[1], zlabel=names[2], zlim=(floor, space.get_zlim()[1]))
        space.set_box_aspect((1, 1, 0.9), zoom=0.95)  # otherwise the label of the third objective is cut off
        figure.legend(*space.get_legend_handles_labels(), loc="outside upper center", ncols=4)
        for row, pair in enumerate(combinations(range(3), 2)):
            axes = figure.add_subplot(grid[row, 1])
            _scatter(axes, front, known, pair)
            axes.set(xlabel=names[pair[0]], ylabel=names[pair[1]])
        _caption(figure, front, indicators)
    return figure


def parallel_coordinates(
    front: pd.DataFrame, known: pd.DataFrame | None, indicators: pd.DataFrame, names: Sequence[str]
) -> Figure:
    """Any number of objectives: a line for each nondominated value, coloured by its most weighted objective."""
    points = _distinct(front[front.nondominated])
    values, favourites = _vectors(points, "value"), _vectors(points, "w").argmax(axis=1)
    possible = values[:0] if known is None else _vectors(known, "value")
    low, high = (edge(np.concatenate([values, possible]), axis=0) for edge in (np.min, np.max))
    span = np.where(high > low, high - low, 1.0)
    with styled():
        figure = Figure(figsize=(max(COLUMN, 0.8 + 0.95 * len(names)), 3.1), layout="constrained")
        axes = figure.subplots()
        axes.plot(((possible - low) / span).T, color=KNOWN, lw=0.6, alpha=0.4)
        for value, favourite in zip(values, favourites, strict=True):
            axes.plot((value - low) / span, color=_hue(favourite), lw=1.4, alpha=0.8)
        _parallel_axes(axes, low, high, names)
        looks = [Line2D([], [], color=_hue(d), label=names[d]) for d in np.unique(favourites)]
        if known is not None:
            looks.append(Line2D([], [], color=KNOWN, lw=0.6, label=f"known front, {len(known)} points"))
        title = f"agent, {len(points)} points; largest weight on"
        figure.legend(handles=looks, title=title, loc="outside upper center", ncols=min(len(looks), 4))
        _caption(figure, front, indicators)
    return figure


def _hue(objective: int) -> str:
    return OBJECTIVES[objective % len(OBJECTIVES)]


def _parallel_axes(axes: Axes, low: Array, high: Array, names: Sequence[str]) -> None:
    """Draw a vertical line for each objective, with its range at the ends."""
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(-0.3, len(names) - 0.7), ylim=(-0.08, 1.08), yticks=())
    axes.set_xticks(range(len(names)), names)
    axes.tick_params(axis="x", length=0)
    for place, (bottom, top) in enumerate(zip(low, high, strict=True)):
        axes.plot((place, place), (0, 1), color="#000000", lw=0.8)
        axes.text(place, -0.02, f"{bottom:.3g}", ha="center", va="top", fontsize=8)
        axes.text(place, 1.02, f"{top:.3g}", ha="center", va="bottom", fontsize=8)


def _scatter(axes: Any, front: pd.DataFrame, known: pd.DataFrame | None, dimensions: Sequence[int]) -> None:
    """Draw the known front as diamonds, and the agent's values as dots that grow with their share of preferences."""
    if known is not None:
        for chosen, colour, label in (
            (known.supported, KNOWN, f"known front, {len(known)} points"),
            (~known.supported, FADED, "of these, best for no w"),
        ):
            if chosen.any():
                axes.scatter(*_vectors(known[chosen], "value")[:, dimensions].T, s=28, marker="D", lw=0.9,
                             facecolors="none", edgecolors=colour, label=label)  # fmt: skip
    axes.margins(0.08)
    points = _distinct(front)
    good, bad = points[points.nondominated], points[~points.nondominated]
    axes.scatter(*_vectors(good, "value")[:, dimensions].T, s=8 + 110 * good.share, color=AGENT, alpha=0.8, lw=0,
                 label=f"agent, {len(good)} points")  # fmt: skip
    if len(bad):
        axes.scatter(*_vectors(bad, "value")[:, dimensions].T, s=14, marker="x", color=LOST, lw=1,
                     label=f"agent, {len(bad)} dominated")  # fmt: skip


def _distinct(front: pd.DataFrame) -> pd.DataFrame:
    """The distinct values, each with the mean of the preferences that lead to it, and their share."""
    groups = front.groupby(list(front.filter(regex=r"^value\d+$")), as_index=False, sort=False)
    weights = {name: (name, "mean") for name in front.filter(regex=r"^w\d+$")}
    points = groups.agg(**weights, nondominated=("nondominated", "first"), share=("utility", "size"))
    return points.assign(share=points.share / len(front))


def _stairs(corner: Array, front: pd.DataFrame) -> tuple[Array, Array]:
    """The border of the region between a corner and a Pareto front."""
    values = np.unique(_vectors(front, "value"), axis=0)
    values = values[(values >= corner).all(axis=1)]
    return np.insert(values[:, 0], 0, corner[0]), np.append(values[:, 1], corner[1])


# --- utility over the simplex ---


def utility_line(front: pd.DataFrame, indicators: pd.DataFrame, names: Sequence[str]) -> Figure:
    """Two objectives: utility over the weight of the first."""
    rows = front.sort_values("w1")
    best = (_vectors(rows, "w") @ _vectors(rows, "value").T).max(axis=1)
    with styled():
        figure = Figure(figsize=(COLUMN, 2.9), layout="constrained")
        axes = figure.subplots()
        axes.plot(rows.w1, best, color=SET, lw=2.4, label="best of all its policies")
        axes.plot(rows.w1, rows.utility, color=AGENT, lw=1.2, marker=".", ms=3, label="agent, asked for w")
        if rows.optimal.notna().all():
            axes.plot(rows.w1, rows.optimal, color="#000000", lw=1, ls="--", label="known optimum")
            axes.fill_between(rows.w1, rows.utility, rows.optimal, color=LOST, alpha=0.2, lw=0, label="utility loss")
        axes.set(xlabel=f"weight of {names[0]} (the rest: {names[1]})", ylabel="utility v·w", xlim=(0, 1))
        figure.legend(loc="outside upper center", ncols=2)
        _caption(figure, front, indicators)
    return figure


def utility_maps(front: pd.DataFrame, indicators: pd.DataFrame, names: Sequence[str]) -> Figure:
    """Three objectives: utility and utility loss over the triangle of preferences."""
    maps: dict[str, tuple[pd.Series, str, float | None]] = {"utility v·w": (front.utility, "viridis", None)}
    if front.optimal.notna().all():
        maps["utility loss against the known front"] = (front.optimal - front.utility, "magma_r", 0.0)
    with styled():
        figure = Figure(figsize=(COLUMN * len(maps), 3.4), layout="constrained")
        panels = figure.subplots(1, len(maps), squeeze=False)[0]
        nearest = _nearest_preference(_vectors(front, "w"))
        for axes, (label, (values, colours, low)) in zip(panels, maps.items(), strict=True):
            image = axes.imshow(values.to_numpy()[nearest], origin="lower", extent=(0, 1, 0, TRIANGLE[2, 1]),
                                cmap=colours, vmin=low)  # fmt: skip
            image.set_clip_path(_triangle(axes, names))
            figure.colorbar(image, ax=axes, label=label, location="bottom", shrink=0.7, pad=0.02)
        _caption(figure, front, indicators)
    return figure


def _nearest_preference(w: Array) -> NDArray[np.int64]:
    """The index of the preference nearest to each pixel of the triangle."""
    x, y = np.meshgrid(np.linspace(0, 1, 401), np.linspace(0, TRIANGLE[2, 1], 347))
    centres = w @ TRIANGLE
    distances = (x[..., None] - centres[:, 0]) ** 2 + (y[..., None] - centres[:, 1]) ** 2
    nearest: NDArray[np.int64] = distances.argmin(axis=-1)
    return nearest


def _triangle(axes: Axes, names: Sequence[str]) -> Polygon:
    """Draw the border of the simplex, with the name of the objective that has all weight at each corner."""
    axes.axis("off")
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.1, TRIANGLE[2, 1] + 0.1))
    for corner, name in zip(TRIANGLE, names, strict=True):
        up = corner[1] > 0
        axes.text(corner[0], corner[1] + (0.03 if up else -0.03), name, ha="center", va="bottom" if up else "top")
    border = Polygon(TRIANGLE, fill=False, lw=1)
    axes.add_patch(border)
    return border


# --- tables and captions ---


def _vectors(table: pd.DataFrame, name: str) -> Array:
    return table.filter(regex=rf"^{name}\d+$").to_numpy(np.float64)


def _caption(figure: Figure, front: pd.DataFrame, indicators: pd.DataFrame) -> None:
    """Write settings and results below the figure."""
    first, rows = front.iloc[0], indicators.set_index("indicator")
    episodes = "1 episode each" if first.episodes == 1 else f"{first.episodes} episodes each"
    utility, volume = rows.loc["expected utility"], rows.loc["hypervolume"]
    results = [f"expected utility {_of(utility.agent, utility.known)}"]
    if _reference(indicators) is not None:
        point = volume.reference.replace(",", ", ")
        results.append(f"hypervolume {_of(volume.best_of_set, volume.known)} with reference ({point})")
    settings = f"γ = {first.gamma:g}, {len(front)} preferences, {episodes}, C = {first.candidates}, rule {first.rule}"
    width = int(22 * figure.get_size_inches()[0])  # characters of 7 points
    lines = [*textwrap.wrap(settings, width), *textwrap.wrap(", ".join(results).replace("-", "−"), width)]
    figure.supxlabel("\n".join(lines), fontsize=7, color=KNOWN)


def _reference(indicators: pd.DataFrame) -> Array | None:
    """The reference point of the hypervolume, or None."""
    point = indicators.set_index("indicator").reference["hypervolume"]
    return np.array([float(x) for x in point.split(",")]) if isinstance(point, str) and point else None


def _of(value: float, known: float) -> str:
    return f"{value:.4g}" if np.isnan(known) else f"{value:.4g} of {known:.4g}"

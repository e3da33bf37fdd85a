"""Figures of a learned φ: how well it expresses each reward, and what each feature responds to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from usfa.figures.style import COLOURS, INK, PAGE, styled
from usfa.names import short_names

__all__ = ["quality_figure", "responses_figure"]


def quality_figure(quality: pd.DataFrame) -> Figure:
    """R² of each reward on held-out episodes with the chosen φ, and over the number of features.

    Args:
        quality: long form with reward, features, r2, chosen.
    """
    with styled():
        figure = Figure(figsize=(PAGE, 2.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        chosen = quality[quality.chosen]
        names = _labels(chosen.reward)
        left.bar(range(len(chosen)), chosen.r2.clip(lower=0).fillna(0), color=COLOURS[0], width=0.6)
        for place, value in enumerate(chosen.r2):
            text = "–" if np.isnan(value) else f"{value:.3f}"
            left.text(place, max(0.0, np.nan_to_num(value)) + 0.01, text, ha="center", va="bottom", fontsize=7)
        left.set_xticks(range(len(chosen)), names)
        left.set(ylim=(0, 1.12), ylabel="R² on held-out episodes", title="Each reward")
        for index, (name, (_, rows)) in enumerate(zip(names, quality.groupby("reward", sort=False), strict=True)):
            colour = COLOURS[index % len(COLOURS)]
            right.plot(rows.features, rows.r2.clip(lower=-0.05), "o-", color=colour, ms=3, lw=1.2, label=name)
        if len(chosen):
            right.axvline(chosen.features.iloc[0], color=INK, ls=":", lw=1)
        right.set_xticks(sorted(quality.features.unique()))
        right.set(ylim=(-0.08, 1.05), xlabel="features D", title="By number of features; dotted: chosen")
        if quality.reward.nunique() > 1:
            right.legend()
    return figure


def responses_figure(responses: pd.DataFrame, extremes: Mapping[str, NDArray[np.uint8]] | None = None) -> Figure:
    """Responses of each feature: mean by action, correlation with rewards, and the strongest transitions.

    Args:
        responses: long form with feature, kind ("action" or "reward"), to, value.
        extremes: for each feature, images before and after the transitions with its largest values, [n, 2, H, W, 3].
    """
    with styled():
        if extremes is None:
            return _maps(Figure(figsize=(PAGE, 2.4), layout="constrained"), responses)
        rows = max(1, len(extremes))
        figure = Figure(figsize=(PAGE, 2.4 + 0.95 * rows), layout="constrained")
        parts: Any = figure.subfigures(2, 1, height_ratios=(2.4, 0.95 * rows))
        upper, lower = parts
        _maps(upper, responses)
        axes = lower.subplots(rows, 1, squeeze=False)
        for ax, (name, images) in zip(axes[:, 0], extremes.items(), strict=False):
            _strip(ax, name, images)
        return figure


def _maps(figure: Any, responses: pd.DataFrame) -> Any:
    titles = {"action": ("mean by action", "action"), "reward": ("correlation with rewards", "")}
    kinds = [kind for kind in titles if (responses.kind == kind).any()]
    for axes, kind in zip(np.atleast_1d(figure.subplots(1, len(kinds))), kinds, strict=True):
        table = responses[responses.kind == kind].pivot(index="feature", columns="to", values="value")
        order = responses[responses.kind == kind]
        table = table.loc[order.feature.unique(), order.to.unique()]
        largest = 1.0 if kind == "reward" else float(np.nanmax(np.abs(table.to_numpy()), initial=1e-9))
        image = axes.imshow(table.to_numpy(), cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
        axes.grid(visible=False)
        axes.set_xticks(range(table.shape[1]), _labels(table.columns))
        axes.set_yticks(range(table.shape[0]), list(table.index))
        axes.set(title=titles[kind][0], xlabel=titles[kind][1])
        figure.colorbar(image, ax=axes, pad=0.02)
    return figure


def _strip(axes: Axes, name: str, images: NDArray[np.uint8]) -> None:
    """Pairs of images, before and after, side by side."""
    gap = np.full((images.shape[2], 4, 3), 255, np.uint8)
    parts = [part for before, after in images for part in (before, after, gap)]
    axes.imshow(np.concatenate(parts, axis=1), interpolation="nearest", aspect="equal")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.grid(visible=False)
    axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=7)


def _labels(rewards: Iterable[str]) -> list[str]:
    """Names of rewards that fit below an axis."""
    return [name if len(name) <= 14 else name[:13] + "…" for name in short_names(list(rewards))]

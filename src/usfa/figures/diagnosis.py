"""The figure of a diagnosis, from the tables of :class:`usfa.evaluation.Diagnosis`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from usfa.figures.style import INK, PAGE, styled

__all__ = ["diagnosis_figure"]

_PROMISED, _REALISED, _IMPROVED, _IDLE = "#56B4E9", "#0072B2", "#E69F00", "#D55E00"
_MOST = 12  # number of policies shown, the most trusted ones
_HATCHES = ("", "///", "...", "xxx")  # hatches of the rules, in turn


def diagnosis_figure(
    actors: pd.DataFrame, candidates: pd.DataFrame, features: pd.DataFrame, title: str, names: Sequence[str] = ()
) -> Figure:
    """Four panels: ψ·w against returns, trusted policies, errors of ψ per feature, and scores with idle steps.

    Args:
        actors: a row for each rule, and for each policy followed alone.
        candidates: a row for each policy in C.
        features: a row for each policy and feature.
        title: the title of the figure.
        names: the names of the features.
    """
    candidates = _most_trusted(candidates)
    features = features[features.policy.isin(candidates.policy)]
    actors = actors[(actors.actor == "rule") | actors.name.isin(candidates.policy)]
    with styled():
        figure = Figure(figsize=(PAGE, 4.8), layout="constrained")
        figure.suptitle(title, fontsize=9)
        (top_left, top_right), (low_left, low_right) = figure.subplots(2, 2)
        _promises(top_left, candidates)
        _trust(top_right, candidates)
        _errors(low_left, features, names)
        _outcomes(low_right, actors)
    return figure


def _most_trusted(candidates: pd.DataFrame) -> pd.DataFrame:
    shares = candidates.filter(regex=r"^(followed|improved), ").sum(axis=1)
    kept = shares.sort_values(ascending=False, kind="stable").index[:_MOST]
    return candidates.loc[sorted(kept)]


def _promises(axes: Axes, candidates: pd.DataFrame) -> None:
    places = np.arange(len(candidates))
    axes.hlines(places, candidates.promised, candidates.realised, color="#BBBBBB", linewidth=2, zorder=1)
    axes.scatter(candidates.promised, places, color=_PROMISED, marker="D", label="promised, ψ·w", zorder=2)
    axes.scatter(candidates.realised, places, color=_REALISED, label="realised", zorder=2)
    axes.axvline(0, color=INK, linewidth=0.8)
    _policies(axes, candidates.policy, places)
    axes.set(title="What each policy in C is worth on the task", xlabel="discounted return from the start")
    axes.legend(fontsize=7)


def _trust(axes: Axes, candidates: pd.DataFrame) -> None:
    rules = [name.removeprefix("followed, ") for name in candidates if str(name).startswith("followed, ")]
    height = 0.8 / max(len(rules), 1)
    places = np.arange(len(candidates))
    for number, rule in enumerate(rules):
        at = places + (number - (len(rules) - 1) / 2) * height
        followed, improved = candidates[f"followed, {rule}"], candidates[f"improved, {rule}"]
        look: dict[str, Any] = {"hatch": _HATCHES[number % len(_HATCHES)], "edgecolor": "white", "height": height * 0.9}
        axes.barh(at, followed, color=_REALISED, label=f"{rule}: followed", **look)
        axes.barh(at, improved, left=followed, color=_IMPROVED, label=f"{rule}: improved upon", **look)
    _policies(axes, candidates.policy, places)
    axes.set(title="Policies that each rule trusted", xlabel="share of steps", xlim=(0, 1.02))
    axes.legend(fontsize=7, loc="best")


def _errors(axes: Axes, features: pd.DataFrame, names: Sequence[str]) -> None:
    table = features.pivot(index="policy", columns="feature", values="error").loc[features.policy.unique()]
    promised = features.pivot(index="policy", columns="feature", values="promised").loc[table.index]
    image = axes.imshow(table.to_numpy(), cmap="Oranges", aspect="auto", vmin=0)
    for row, column in np.ndindex(table.shape):
        error, size = table.iat[row, column], promised.iat[row, column]
        dark = error > 0.6 * float(table.max(axis=None))
        text = f"{error:.2f}\nof {size:.2f}".replace("-", "−")
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color="white" if dark else INK)
    axes.grid(visible=False)
    axes.set_xticks(range(table.shape[1]), names or [f"φ{feature}" for feature in table.columns])
    _policies(axes, pd.Series(table.index), np.arange(len(table)))
    axes.set(title="Mean error of ψ per feature, of its mean")
    axes.figure.colorbar(image, ax=axes, shrink=0.85)


def _outcomes(axes: Axes, actors: pd.DataFrame) -> None:
    places = np.arange(len(actors))
    colours = [_REALISED if actor == "rule" else "#AAAAAA" for actor in actors.actor]
    axes.barh(places, actors.score, xerr=actors["std"], color=colours, ecolor=INK, height=0.7)
    axes.axvline(0, color=INK, linewidth=0.8)
    _policies(axes, actors.name.where(actors.actor == "policy", "rule " + actors.name), places)
    for place, idle in enumerate(actors.idle):
        text = f"{idle:.0%} idle"
        axes.text(1.01, place, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7, color=_colour(idle))
    axes.set(title="Score of the rules, and of each policy alone", xlabel="undiscounted return, ±1 std over episodes")


def _colour(idle: float) -> str:
    return _IDLE if idle > 0.1 else INK


def _policies(axes: Axes, names: pd.Series, places: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    """Label the rows with policies, from top to bottom."""
    axes.set_yticks(places, [str(name).replace("-", "−") for name in names])
    axes.set_ylim(len(places) - 0.5, -0.5)

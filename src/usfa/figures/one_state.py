"""Figures of Appendix A: two ways to generalise from three tasks to a fourth."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from usfa.figures.style import COLUMN, PAGE, styled

__all__ = ["generalisation", "returns"]

OPTIMAL, GUESS, TRUSTED, OTHER, TEST = "#333333", "#D55E00", "#0072B2", "#999999", "#CC79A7"


def generalisation(values: pd.DataFrame, evaluations: pd.DataFrame, test_task: float) -> Figure:
    """The four panels of Appendix A.

    Args:
        values: seed, w, optimal (max_a Q*(s,a,w)), uvfa (fitted value).
        evaluations: z, value (of the policy of training task z on the test task), trusted (by GPI).
        test_task: w'.
    """
    with styled():
        figure = Figure(figsize=(PAGE, 4.4), layout="constrained")
        ((optimal, fit), (known, choice)) = figure.subplots(2, 2, sharey=True)
        curve = values[values.seed == values.seed.iloc[0]]
        training = evaluations.z.tolist()
        _optimal(optimal, curve, training)
        optimal.set_title("Optimal value over tasks")
        _fit(fit, values, training, test_task)
        _known(known, curve, evaluations, test_task)
        _choice(choice, curve, evaluations, test_task)
        for axes in (known, choice):
            axes.set_xlabel("task w")
        for axes in figure.axes:
            axes.set_xticks(range(-2, 3))
        for axes in (optimal, known):
            axes.set(ylabel="value", ylim=(-1.1, 2.3))
    return figure


def _optimal(axes: Axes, curve: pd.DataFrame, training: list[float]) -> None:
    axes.plot(curve.w, curve.optimal, color=OPTIMAL, lw=1.6, label="V*(w) = max(w, 0)")
    axes.plot(training, [max(w, 0) for w in training], "o", color=OPTIMAL, label="training tasks M")
    for index, w in enumerate(training, start=1):
        axes.annotate(f"w$_{index}$", (w, max(w, 0)), xytext=(0, 8), textcoords="offset points", ha="center")
    axes.legend(loc="upper left")


def _fit(axes: Axes, values: pd.DataFrame, training: list[float], test_task: float) -> None:
    by_task = values.groupby("w")
    axes.plot(by_task.optimal.mean(), color=OPTIMAL, lw=1, ls=":", label="V*(w)")
    mean = _mean_and_std(axes, by_task.uvfa, GUESS, "UVFA fitted to M (mean, ±1 std)")
    axes.plot(training, [max(w, 0) for w in training], "o", color=OPTIMAL)
    nearest = min(mean.index, key=lambda w: abs(w - test_task))
    guess = float(mean[nearest])
    axes.plot(
        [test_task], [guess], "*", ms=13, color=TEST, label=f"its guess at w′ = {_signed(test_task)}: {guess:.2f}"
    )
    axes.legend(loc="upper left")
    axes.set_title("UVFA: a guess; the truth at w′ is 0")


def _known(axes: Axes, curve: pd.DataFrame, evaluations: pd.DataFrame, test_task: float) -> None:
    axes.plot(curve.w, curve.optimal, color=OPTIMAL, lw=1, ls=":")
    axes.axvline(test_task, color=TEST, lw=1, ls="--", label=f"w′ = {_signed(test_task)}")
    for index, row in enumerate(evaluations.itertuples(), start=1):
        colour = TRUSTED if row.trusted else OTHER
        label = f"π$_{index}$ of w$_{index}$ = {_signed(row.z)}: worth {_signed(row.value)} on w′"
        axes.plot(curve.w, row.value / test_task * curve.w, color=colour, lw=1.2, ls=("-", "--", "-")[index - 1])
        axes.plot([test_task], [row.value], "o", color=colour, label=label)
    axes.legend(loc="upper left")
    axes.set_title("Known policies evaluated through ψ")


def _choice(axes: Axes, curve: pd.DataFrame, evaluations: pd.DataFrame, test_task: float) -> None:
    slopes = [row.value / test_task for row in evaluations.itertuples()]
    best = [max(slope * w for slope in slopes) for w in curve.w]
    axes.plot(curve.w, best, color=TRUSTED, lw=4, alpha=0.35, label="max over known policies (GPI)")
    axes.plot(curve.w, curve.optimal, color=OPTIMAL, lw=1, ls=":", label="V*(w)")
    trusted = evaluations[evaluations.trusted].iloc[0]
    number = int(evaluations.trusted.to_numpy().argmax()) + 1
    label = f"GPI trusts π$_{number}$ (w$_{number}$ = {_signed(trusted.z)}): {_signed(trusted.value)}"
    axes.plot([test_task], [trusted.value], "*", ms=13, color=TEST, label=label)
    axes.legend(loc="upper left")
    axes.set_title("GPI: trust the most promising evaluation")


def returns(scores: pd.DataFrame) -> Figure:
    """Zero-shot returns of the trained agents over tasks, mean and ±1 std over seeds.

    Args:
        scores: method, seed, w, score, optimal.
    """
    with styled():
        figure = Figure(figsize=(COLUMN, 2.3), layout="constrained")
        axes = figure.subplots()
        axes.plot(scores.groupby("w").optimal.mean(), color=OPTIMAL, lw=1, ls=":", label="optimal")
        looks = {"UVFA": GUESS, "USFA, C = {w′}": "#56B4E9", "USFA, C = M": TRUSTED}
        for name, colour in looks.items():
            _mean_and_std(axes, scores[scores.method == name].groupby("w").score, colour, name)
        axes.set(xlabel="task w", ylabel="return", title="Zero-shot returns of the trained agents")
        axes.set_xticks(range(-2, 3))
        axes.legend(loc="upper left")
    return figure


def _signed(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _mean_and_std(axes: Axes, groups: Any, colour: str, label: str) -> pd.Series:
    """Draw the mean of each group with a band of ±1 std; return the means."""
    mean, std = groups.mean(), groups.std(ddof=1).fillna(0.0)
    axes.plot(mean, color=colour, lw=1.6, label=label)
    axes.fill_between(mean.index, mean - std, mean + std, color=colour, alpha=0.2, lw=0)
    return mean

"""The figures of Appendix A: two ways to generalise from three tasks to a fourth."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from usfa.figures.style import styled

__all__ = ["generalisation", "returns"]

OPTIMAL, GUESS, TRUSTED, OTHER, TEST = "#333333", "#D55E00", "#0072B2", "#999999", "#CC79A7"


def generalisation(values: pd.DataFrame, evaluations: pd.DataFrame, test_task: float) -> Figure:
    """The four pictures of Appendix A.

    Args:
        values: seed, w, optimal, uvfa: max_a Q*(s,a,w) and the fitted UVFA, for each seed.
        evaluations: z, value, trusted: what the policy of each training task is worth on the test task.
        test_task: w'.
    """
    with styled():
        figure = Figure(figsize=(10, 6.2), layout="constrained")
        ((optimal, fit), (known, choice)) = figure.subplots(2, 2, sharey=True)
        curve = values[values.seed == values.seed.iloc[0]]
        training = evaluations.z.tolist()
        _optimal(optimal, curve, training)
        optimal.set_title("Optimal value over tasks, and the training tasks M")
        _fit(fit, values, training, test_task)
        _known(known, curve, evaluations, test_task)
        _choice(choice, curve, evaluations, test_task)
        for axes in (known, choice):
            axes.set_xlabel("task w")
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
    by_task = values.groupby("w").uvfa
    mean, std = by_task.mean(), by_task.std(ddof=1).fillna(0.0)
    axes.plot(mean.index, values.groupby("w").optimal.mean(), color=OPTIMAL, lw=1, ls=":", label="V*(w)")
    axes.plot(mean.index, mean, color=GUESS, lw=1.6, label="UVFA fitted to M (mean, ±1 std)")
    axes.fill_between(mean.index, mean - std, mean + std, color=GUESS, alpha=0.2, lw=0)
    axes.plot(training, [max(w, 0) for w in training], "o", color=OPTIMAL)
    nearest = min(mean.index, key=lambda w: abs(w - test_task))
    guess = float(mean[nearest])
    axes.plot([test_task], [guess], "*", ms=13, color=TEST, label=f"its guess at w′ = {test_task:g}: {guess:.2f}")
    axes.legend(loc="upper left")
    axes.set_title("UVFA: a guess in value space; the truth at w′ is 0")


def _known(axes: Axes, curve: pd.DataFrame, evaluations: pd.DataFrame, test_task: float) -> None:
    axes.plot(curve.w, curve.optimal, color=OPTIMAL, lw=1, ls=":")
    axes.axvline(test_task, color=TEST, lw=1, ls="--", label=f"w′ = {test_task:g}")
    for index, row in enumerate(evaluations.itertuples(), start=1):
        slope = row.value / test_task
        label = f"π$_{index}$ of w$_{index}$={row.z:g}: worth {row.value:.2f} on w′"
        axes.plot(
            curve.w,
            slope * curve.w,
            color=TRUSTED if row.trusted else OTHER,
            lw=1.2,
            ls=("-", "--", "-")[index - 1],
        )
        axes.plot([test_task], [row.value], "o", color=TRUSTED if row.trusted else OTHER, label=label)
    axes.legend(loc="upper left")
    axes.set_title("Known policies evaluated on every task through ψ")


def _choice(axes: Axes, curve: pd.DataFrame, evaluations: pd.DataFrame, test_task: float) -> None:
    slopes = [row.value / test_task for row in evaluations.itertuples()]
    best = [max(slope * w for slope in slopes) for w in curve.w]
    axes.plot(curve.w, best, color=TRUSTED, lw=4, alpha=0.35, label="max over known policies (GPI)")
    axes.plot(curve.w, curve.optimal, color=OPTIMAL, lw=1, ls=":", label="V*(w)")
    trusted = evaluations[evaluations.trusted].iloc[0]
    number = int(evaluations.trusted.to_numpy().argmax()) + 1
    label = f"GPI trusts π$_{number}$ (w$_{number}$={trusted.z:g}): {trusted.value:.2f}"
    axes.plot([test_task], [trusted.value], "*", ms=13, color=TEST, label=label)
    axes.legend(loc="upper left")
    axes.set_title("GPI: trusting the most promising evaluation")


def returns(scores: pd.DataFrame) -> Figure:
    """What the trained agents collect on tasks they never saw: mean and ±1 std over seeds.

    Args:
        scores: method, seed, w, score, optimal.
    """
    with styled():
        figure = Figure(figsize=(6, 3.4), layout="constrained")
        axes = figure.subplots()
        optimal = scores.groupby("w").optimal.mean()
        axes.plot(optimal.index, optimal, color=OPTIMAL, lw=1, ls=":", label="optimal")
        looks = {"UVFA": GUESS, "USFA, C = {w′}": "#56B4E9", "USFA, C = M": TRUSTED}
        for name, colour in looks.items():
            by_task = scores[scores.method == name].groupby("w").score
            mean, std = by_task.mean(), by_task.std(ddof=1).fillna(0.0)
            axes.plot(mean.index, mean, color=colour, label=name, lw=1.6)
            axes.fill_between(mean.index, mean - std, mean + std, color=colour, alpha=0.2, lw=0)
        axes.set(xlabel="task w", ylabel="return", title="Zero-shot returns of the trained agents")
        axes.legend(loc="upper left")
    return figure

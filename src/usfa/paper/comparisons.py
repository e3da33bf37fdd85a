"""Tests of differences between methods, from one number per run, corrected for the number of tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from usfa.paper.report import Verdict

__all__ = ["LEVEL", "Comparison", "holm", "paired", "strongest", "unpaired", "verdict_of"]

LEVEL = 0.05
"""Significance level of a family of tests."""


class Comparison(NamedTuple):
    """A difference of means with its 95 % interval, and the p-value of a two-sided t-test that it is 0."""

    about: str
    effect: float
    low: float
    high: float
    p: float  # NaN if there are too few runs
    test: Literal["paired", "Welch"]

    def describe(self, corrected: float) -> str:
        """The effect, its interval and the corrected p-value as text."""
        if math.isnan(self.p):
            return f"{self.about}: too few runs"
        p = "p < 0.001" if corrected < 0.0005 else f"p = {corrected:.3f}"
        return f"{self.about} {self.effect:+.2f} [{self.low:+.2f}, {self.high:+.2f}], {p} ({self.test})"


def paired(about: str, differences: pd.Series) -> Comparison:
    """Student's t-test of differences within runs, one per run."""
    runs = differences.dropna().to_numpy(dtype=np.float64)
    if len(runs) < 2:
        return Comparison(about, math.nan, math.nan, math.nan, math.nan, "paired")
    return _t_test(about, float(runs.mean()), _variance(runs), len(runs) - 1, "paired")


def unpaired(about: str, first: pd.Series, second: pd.Series) -> Comparison:
    """Welch's t-test of the first minus the second, each with one number per run."""
    one, two = (runs.dropna().to_numpy(dtype=np.float64) for runs in (first, second))
    if min(len(one), len(two)) < 2:
        return Comparison(about, math.nan, math.nan, math.nan, math.nan, "Welch")
    variances = _variance(one), _variance(two)
    total = sum(variances)
    parts = variances[0] ** 2 / (len(one) - 1) + variances[1] ** 2 / (len(two) - 1)
    freedom = total**2 / parts if parts > 0 else 1.0
    return _t_test(about, float(one.mean() - two.mean()), total, freedom, "Welch")


def _variance(runs: NDArray[np.float64]) -> float:
    """The variance of the mean; 0 if the runs differ only by rounding."""
    return float(runs.var(ddof=1)) / len(runs) if np.ptp(runs) > 1e-12 * max(1.0, np.abs(runs).max()) else 0.0


def _t_test(about: str, effect: float, variance: float, freedom: float, test: Literal["paired", "Welch"]) -> Comparison:
    if variance == 0:  # all runs agree: the difference is certain, or certainly none
        return Comparison(about, effect, effect, effect, 1.0 if abs(effect) < 1e-12 else 0.0, test)
    from scipy.special import stdtr, stdtrit  # imported late: most users never need it

    error = math.sqrt(variance)
    half = float(stdtrit(freedom, 0.975)) * error
    return Comparison(
        about, effect, effect - half, effect + half, 2 * float(stdtr(freedom, -abs(effect) / error)), test
    )


def strongest(about: str, comparisons: Sequence[Comparison], sign: int) -> Comparison:
    """The clearest difference with this sign among several tasks, its p-value corrected for their number."""
    known = [one for one in comparisons if not math.isnan(one.p)]
    found = [one for one in known if sign * one.effect > 0]
    if not found:
        p = 1.0 if known else math.nan
        return Comparison(about, 0.0, 0.0, 0.0, p, "paired")
    best = min(found, key=lambda one: one.p)
    return best._replace(about=f"{about} ({best.about})", p=min(1.0, best.p * len(comparisons)))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values of a family of tests, corrected by Holm's method; NaN stays NaN and does not count as a test."""
    p = np.array(p_values, np.float64)
    order = [index for index in np.argsort(p).tolist() if not math.isnan(p[index])]
    corrected, largest = p.copy(), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, float(p[index]) * (len(order) - rank)))
        corrected[index] = largest
    return corrected.tolist()


def verdict_of(comparison: Comparison, corrected: float) -> Verdict:
    """Whether the difference is above 0: not decided unless the corrected p-value is below the level."""
    if not corrected < LEVEL:  # also if it is NaN
        return "not decided"
    return "holds" if comparison.effect > 0 else "does not hold"

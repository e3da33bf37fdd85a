"""Point estimates and intervals over seeds and tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from usfa.errors import InputError

__all__ = ["Summary", "bootstrap_interval", "interquartile_mean", "summarise"]

Array = NDArray[np.float64]


class Summary(NamedTuple):
    """What a group of scores comes to."""

    mean: float
    std: float  # of the runs' means, the ±1 std of the paper; NaN for a single run
    iqm: float  # mean of the middle half of all scores
    low: float  # 95 % bootstrap interval of the mean, whole runs resampled; NaN for a single run
    high: float
    low_stratified: float  # the same, runs resampled for each task by itself
    high_stratified: float
    runs: int
    tasks: int


def interquartile_mean(values: Array, axis: int = -1) -> Array:
    """The mean of the middle half: a quarter of the values is cut off at either end, in fractions where it must be."""
    ordered = np.moveaxis(np.sort(values, axis=axis), axis, -1)
    count = ordered.shape[-1]
    rank = np.arange(count)
    weight = np.clip(np.minimum(rank + 1, 0.75 * count) - np.maximum(rank, 0.25 * count), 0, 1)
    kept: Array = ordered @ weight / weight.sum()
    return kept


def bootstrap_interval(
    scores: Array,
    rng: np.random.Generator,
    statistic: Callable[[Array], Array] = lambda flat: flat.mean(axis=-1),
    unit: Literal["run", "score"] = "run",
    confidence: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float]:
    """Percentile bootstrap of a statistic of scores [R, K].

    Args:
        scores: [runs, tasks].
        rng: for the resampling.
        statistic: of the last axis of [resamples, R·K].
        unit: what is drawn again. "run" draws whole runs: the tasks of a run share its network, so they are not
            independent. "score" is the stratified bootstrap of Agarwal et al. 2021: runs are drawn for each task by
            itself, which is narrower where the tasks of a run rise and fall together.
        confidence: of the interval.
        resamples: how often.
    """
    runs, tasks = scores.shape
    drawn = rng.integers(runs, size=(resamples, runs, tasks if unit == "score" else 1))
    resampled = np.take_along_axis(scores[None], drawn, axis=1) if unit == "score" else scores[drawn[..., 0]]
    values = statistic(resampled.reshape(resamples, -1))
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def summarise(table: pd.DataFrame, by: Sequence[str], value: str, seed: int = 0) -> pd.DataFrame:
    """A row for each group with the fields of :class:`Summary`.

    Args:
        table: long form with the columns `seed`, `task`, `value` and those in `by`.
        by: what makes a group.
        value: the column to summarise.
        seed: of the bootstrap.
    """
    rows = []
    for key, group in table.groupby(list(by), sort=False):
        matrix = group.pivot(index="seed", columns="task", values=value).to_numpy(dtype=np.float64)
        if np.isnan(matrix).any():
            raise InputError(f"Some seed has no {value} for some task in the group {key}; expected all of them.")
        rows.append((*key, *_summary(matrix, np.random.default_rng(seed))))
    return pd.DataFrame(rows, columns=[*by, *Summary._fields])


def _summary(scores: Array, rng: np.random.Generator) -> Summary:
    runs, tasks = scores.shape
    unknown = (float("nan"), float("nan"))  # one run says nothing about the next
    return Summary(
        float(scores.mean()),
        float(scores.mean(axis=1).std(ddof=1)) if runs > 1 else float("nan"),
        float(interquartile_mean(scores.reshape(-1))),
        *(bootstrap_interval(scores, rng, unit="run") if runs > 1 else unknown),
        *(bootstrap_interval(scores, rng, unit="score") if runs > 1 else unknown),
        runs,
        tasks,
    )

"""Statistics of tables of scores: means, interquartile means and bootstrap intervals over runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from usfa.errors import InputError

__all__ = ["Summary", "bootstrap_interval", "interquartile_mean", "summarise"]

Array = NDArray[np.float64]


class Summary(NamedTuple):
    """Statistics of a group of scores."""

    mean: float
    std: float  # of the runs' means, the ±1 std of the paper; NaN for a single run
    iqm: float  # mean of the middle half of all scores
    low: float  # 95 % bootstrap interval of the mean, whole runs resampled; NaN for a single run
    high: float
    low_stratified: float  # the same, with runs resampled for each task separately
    high_stratified: float
    runs: int
    tasks: int


def interquartile_mean(values: Array, axis: int = -1) -> Array:
    """Mean of the middle half of values; the values at the quartiles count fractionally."""
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
        unit: unit of resampling. "run" draws whole runs, because the scores of a run share its network and are not
            independent. "score" is the stratified bootstrap of Agarwal et al. 2021: runs are drawn for each task
            separately, which gives narrower intervals if the scores of a run are correlated.
        confidence: level of the interval.
        resamples: number of resamples.
    """
    low, high = _intervals(scores, rng, statistic, unit, confidence, resamples)
    return float(low), float(high)


def _intervals(
    scores: Array,
    rng: np.random.Generator,
    statistic: Callable[[Array], Array] = lambda flat: flat.mean(axis=-1),
    unit: Literal["run", "score"] = "run",
    confidence: float = 0.95,
    resamples: int = 2000,
) -> tuple[Array, Array]:
    """:func:`bootstrap_interval` of many tables [..., R, K] at once, with the same draws for each."""
    *groups, runs, tasks = scores.shape
    drawn = rng.integers(runs, size=(resamples, runs, tasks if unit == "score" else 1))
    resampled = np.take_along_axis(scores[..., None, :, :], drawn[(None,) * len(groups)], axis=-2)
    values = statistic(resampled.reshape(*groups, resamples, -1))
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail], axis=-1)
    return low, high


def summarise(table: pd.DataFrame, by: Sequence[str], value: str, seed: int = 0) -> pd.DataFrame:
    """Summarise each group: a row with the fields of :class:`Summary`.

    Args:
        table: long form with the columns `seed`, `task`, `value` and those in `by`.
        by: columns that define a group.
        value: the column to summarise.
        seed: seed of the bootstrap.
    """
    number = table.groupby(list(by), sort=False).ngroup().to_numpy()
    order = np.argsort(number, kind="stable")
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))
    keys = list(table[list(by)].iloc[order[starts]].itertuples(index=False, name=None))
    seeds, tasks = table["seed"].to_numpy(), table["task"].to_numpy()
    values = table[value].to_numpy(dtype=np.float64)
    matrices = []
    for key, rows in zip(keys, np.split(order, starts)[1:], strict=True):
        matrix = _matrix(seeds[rows], tasks[rows], values[rows], value)
        if np.isnan(matrix).any():
            raise InputError(f"The group {key} lacks {value} for some seed and task; expected all of them.")
        matrices.append(matrix)
    summaries = [(*key, *summary) for key, summary in zip(keys, _summaries(matrices, seed), strict=True)]
    return pd.DataFrame(summaries, columns=[*by, *Summary._fields])


def _matrix(seed: NDArray[Any], task: NDArray[Any], values: Array, name: str) -> Array:
    """Values by seed and task, [R, K], both in order; NaN where there is none. (A pivot takes ten times as long.)"""
    seeds, row = np.unique(seed, return_inverse=True)
    tasks, column = np.unique(task, return_inverse=True)
    matrix = np.full((len(seeds), len(tasks)), float("nan"))
    matrix[row, column] = values
    if len(values) > matrix.size:
        raise InputError(f"The table has {name} twice for a seed and task; expected it once.")
    return matrix


_AT_ONCE = 64  # tables; resamples of more would need much memory


def _summaries(tables: Sequence[Array], seed: int) -> list[Summary]:
    """Summarise tables [R, K]; those of one shape are computed together, because they have the same draws."""
    found: dict[int, Summary] = {}
    for shape in {table.shape for table in tables}:
        own = [index for index, table in enumerate(tables) if table.shape == shape]
        for start in range(0, len(own), _AT_ONCE):
            some = own[start : start + _AT_ONCE]
            summaries = _summaries_of_shape(np.stack([tables[index] for index in some]), np.random.default_rng(seed))
            found.update(zip(some, summaries, strict=True))
    return [found[index] for index in range(len(tables))]


def _summaries_of_shape(scores: Array, rng: np.random.Generator) -> list[Summary]:
    """Summaries of G tables, [G, R, K]."""
    count, runs, tasks = scores.shape
    unknown = np.full(count, float("nan"))  # with one run
    columns = (
        scores.reshape(count, -1).mean(axis=-1),
        scores.mean(axis=2).std(axis=1, ddof=1) if runs > 1 else unknown,
        interquartile_mean(scores.reshape(count, -1)),
        *(_intervals(scores, rng, unit="run") if runs > 1 else (unknown, unknown)),
        *(_intervals(scores, rng, unit="score") if runs > 1 else (unknown, unknown)),
    )
    rows = np.stack(columns, axis=-1).tolist()
    return [Summary._make((*row, runs, tasks)) for row in rows]

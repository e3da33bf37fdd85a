"""Tables of the room's scores: over runs, by method and set, by method and task."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from usfa.environments.room.scale import measured
from usfa.evaluation import summarise
from usfa.figures.room import AGENTS, BASELINES, BROAD, LARGE, SETS, USFA, last_snapshot
from usfa.figures.style import method

__all__ = [
    "ROOM_TITLE",
    "UVFAS",
    "behaviour_table",
    "final_table",
    "gains",
    "has_rows_for",
    "summary_of",
    "task_table",
]

UVFAS = (("uvfa", "task"), ("uvfa-off-policy", "task"))
"""They have one policy, so that there is no rule to choose."""
ROWS = (*USFA, *BROAD, *LARGE, *BASELINES)
ROOM_TITLE = "The room: normalised score (0 random, 1 oracle), 95 % interval"
"""Over :func:`final_table` on the terminal."""


def summary_of(scores: pd.DataFrame, yardstick: pd.DataFrame) -> pd.DataFrame:
    """Scores over runs, of every task and of every set as a whole (task "all"), as returns and normalised.

    The normalised score of a set is Σ(score − random) / Σ(oracle − random) over its tasks, so that a task with little
    to gain cannot outweigh the others; its return is the mean over its tasks.

    Args:
        scores: the table of scores.
        yardstick: set, task, policy, mean.
    """
    groups = ["agent", "candidates", "rule", "task_set", "task", "snapshot"]
    each = gains(scores, yardstick).rename(columns={"score": "return"})
    table = pd.concat([each, _whole_sets(scores, yardstick)], ignore_index=True)
    measures = [summarise(table, groups, name).assign(measure=name) for name in ("normalised", "return")]
    frames = scores.groupby(["agent", "candidates", "snapshot"], as_index=False).frames.mean()
    summary = pd.concat(measures, ignore_index=True).merge(frames, on=["agent", "candidates", "snapshot"])
    first = ["measure", *groups, "frames"]
    return summary[[*first, *(name for name in summary if name not in first)]]


def _whole_sets(scores: pd.DataFrame, yardstick: pd.DataFrame) -> pd.DataFrame:
    groups = gains(scores, yardstick).groupby(
        ["agent", "candidates", "rule", "task_set", "snapshot", "seed"], sort=False
    )
    sums = groups[["gained", "possible"]].sum()
    whole = pd.DataFrame({"return": groups.score.mean(), "normalised": sums.gained / sums.possible})
    return whole.reset_index().assign(task="all")


def gains(scores: pd.DataFrame, yardstick: pd.DataFrame) -> pd.DataFrame:
    """Scores with what was gained over the random policy, what the oracle gains, and the share."""
    table = measured(scores, yardstick)
    return table.assign(gained=table.score - table.random, possible=table.oracle - table.random)


def final_table(summary: pd.DataFrame, measure: str = "normalised") -> pd.DataFrame:
    """Method and rule × set at the last snapshot, each with the 95 % interval over runs."""
    mine = last_snapshot(summary[(summary.measure == measure) & (summary.task == "all")])
    return _table_of(mine, "task_set", SETS, 2 if measure == "normalised" else 1)


def has_rows_for(scores: pd.DataFrame) -> bool:
    """Whether :func:`final_table` can show all of these scores, and they can be normalised."""
    keys = set(zip(scores.agent, scores.candidates, strict=True))
    return keys <= set(ROWS) and set(scores.task_set) <= set(SETS)


def _table_of(final: pd.DataFrame, column: str, names: Mapping[str, str], digits: int) -> pd.DataFrame:
    rows = []
    for key in ROWS:
        of_key = final[(final.agent == key[0]) & (final.candidates == key[1])]
        for rule, group in of_key.groupby("rule", sort=False):
            mine = group.set_index(column)
            cells = {title: _cell(mine, name, digits) for name, title in names.items()}
            label = {"method": method(*key).label, "rule": "–" if key in UVFAS else rule}
            rows.append({**label, **cells, "runs": str(mine.runs.iloc[0])})
    return pd.DataFrame(rows, columns=["method", "rule", *names.values(), "runs"])


def _cell(table: pd.DataFrame, name: str, digits: int) -> str:
    if name not in table.index:
        return "–"
    row = table.loc[name]
    interval = f" [{row.low:.{digits}f}, {row.high:.{digits}f}]" if row.runs > 1 else ""
    return f"{row['mean']:.{digits}f}{interval}"


def task_table(summary: pd.DataFrame, yardstick: pd.DataFrame, task_set: str, measure: str) -> pd.DataFrame:
    """Method × task at the last snapshot; returns are followed by those of the yardstick."""
    each = summary[(summary.measure == measure) & (summary.task_set == task_set) & (summary.task != "all")]
    known = yardstick[yardstick.set == task_set].pivot(index="policy", columns="task", values="mean")
    tasks = list(dict.fromkeys(yardstick[yardstick.set == task_set].task))
    table = _table_of(last_snapshot(each), "task", {task: task for task in tasks}, 2 if measure == "normalised" else 1)
    table = table.drop(columns="runs")
    if measure == "return":
        levels = [
            {"method": name, "rule": "–", **{task: f"{known.loc[name, task]:.1f}" for task in tasks}}
            for name in known.index
        ]
        table = pd.concat([table, pd.DataFrame(levels)], ignore_index=True)
    return table


def behaviour_table(training: pd.DataFrame) -> pd.DataFrame:
    """Agent × canonical task: the mean ε-greedy return in the last tenth of training, and the worst and best run."""
    late = training[training.frames >= 0.9 * training.groupby(["agent", "seed"]).frames.transform("max")]
    runs = late.groupby(["agent", "task", "seed"]).score.mean().groupby(["agent", "task"])
    cells = {key: _range(group) for key, group in runs}
    tasks = ("1000", "0100", "0010", "0001")
    rows = [
        (look.label, *(cells.get((agent, task), "–") for task in tasks))
        for agent, look in AGENTS.items()
        if agent in set(late.agent)
    ]
    return pd.DataFrame(rows, columns=["agent", *tasks])


def _range(runs: pd.Series) -> str:
    return f"{runs.mean():.1f}" + (f" ({runs.min():.1f} to {runs.max():.1f})" if len(runs) > 1 else "")

"""The scale for scores in the room: 0 is the random policy, 1 the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import pandas as pd

from usfa.environments.room.rules import CAMERA_ARGUMENTS
from usfa.tasks import parse_task

__all__ = ["YARDSTICK", "is_standard_room", "measured", "read_yardstick"]

YARDSTICK = Path(str(resources.files("usfa") / "shipped" / "room-yardstick.csv"))
"""What `python -m usfa.environments.room.yardstick` measured."""


def read_yardstick() -> pd.DataFrame:
    """The table that comes with the package: set, task, policy, mean, low, high, episodes."""
    return pd.read_csv(YARDSTICK, dtype={"task": str})


def measured(scores: pd.DataFrame, yardstick: pd.DataFrame) -> pd.DataFrame:
    """Scores (columns task, score) beside the yardstick: random, oracle, and normalised so that those are 0 and 1.

    NaN for tasks that the yardstick does not have.
    """
    levels = yardstick.drop_duplicates(["task", "policy"]).pivot(index="task", columns="policy", values="mean")
    random, oracle = (scores.task.map(levels[policy]) for policy in ("random", "oracle"))
    return _with_normalised(scores.assign(random=random, oracle=oracle))


def as_a_whole(measured_scores: pd.DataFrame, name: str) -> pd.DataFrame:
    """Means over the tasks of a set for each candidate set and rule, and Σ(score − random) / Σ(oracle − random).

    If some of the tasks, but not all, have negative entries, those have a row of their own.
    """
    disliking = measured_scores[[bool((parse_task(task) < 0).any()) for task in measured_scores.task]]
    parts = {name: measured_scores}
    if 1 < disliking.task.nunique() < measured_scores.task.nunique():
        parts[f"{name}, with dislikes"] = disliking
    return pd.concat([_means(part).assign(task=title) for title, part in parts.items()], ignore_index=True)


def _means(table: pd.DataFrame) -> pd.DataFrame:
    columns = ["score", "random", "oracle"]
    return _with_normalised(table.groupby(["candidates", "rule"], sort=False)[columns].mean().reset_index())


def _with_normalised(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(normalised=(table.score - table.random) / (table.oracle - table.random))


def is_standard_room(environment: str, arguments: Mapping[str, object]) -> bool:
    """Whether these are the rules of the paper's room, whatever the picture: then the yardstick applies."""
    return environment == "room" and not arguments.keys() - set(CAMERA_ARGUMENTS)

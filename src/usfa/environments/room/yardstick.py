"""Scale for scores in the room: 0 is the random policy, 1 the oracle.

    python -m usfa.environments.room.yardstick [--episodes 50]

measures both, and a greedy policy, on the paper's tasks: undiscounted returns of one-minute episodes that start from
the same rooms, with a 95 % interval of the mean. The package ships the table that results.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from usfa.environments.room.rules import CAMERA_ARGUMENTS, RoomRules
from usfa.errors import InputError
from usfa.files import write_atomically
from usfa.tasks import format_task, parse_task, task_set

if TYPE_CHECKING:
    from usfa.environments.room.oracle import StatePolicy

__all__ = ["SETS", "YARDSTICK", "as_a_whole", "is_standard_room", "main", "measured", "read_yardstick", "yardstick"]

YARDSTICK = Path(str(resources.files("usfa") / "shipped" / "room-yardstick.csv"))
SETS = ("room-train", "room-train-large", "room-easy", "room-hard", "room-validation")
_FIRST_SEED = 1_000_000  # of the first room; no training uses these rooms


def read_yardstick() -> pd.DataFrame:
    """Read the shipped table: set, task, policy, mean, low, high, episodes."""
    return pd.read_csv(YARDSTICK, dtype={"task": str})


def measured(scores: pd.DataFrame, yardstick: pd.DataFrame) -> pd.DataFrame:
    """Add the columns random, oracle and normalised to scores (columns task, score).

    NaN for tasks that are not in the yardstick.
    """
    levels = yardstick.drop_duplicates(["task", "policy"]).pivot(index="task", columns="policy", values="mean")
    random, oracle = (scores.task.map(levels[policy]) for policy in ("random", "oracle"))
    return _with_normalised(scores.assign(random=random, oracle=oracle))


def as_a_whole(measured_scores: pd.DataFrame, name: str) -> pd.DataFrame:
    """Mean over the tasks of a set for each candidate set and rule, with Σ(score − random) / Σ(oracle − random).

    If several of the tasks, but not all, have negative entries, those get a row of their own.
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


def is_standard_room(environment: str, arguments: Mapping[str, object], phi: str) -> bool:
    """Whether rules and φ are those of the paper's room, with any camera, so that the yardstick applies."""
    return environment == "room" and phi == "reward" and not arguments.keys() - CAMERA_ARGUMENTS.keys()


# --- measuring; imports of the room are local, because they start the compiler ---


def returns(policy: StatePolicy, w: ArrayLike, rules: RoomRules, seeds: Iterable[int]) -> NDArray[np.float64]:
    """Σ_t φ_t · w of one episode per seed."""
    from usfa.environments.room.env import RoomBatch

    rooms = list(seeds)
    batch = RoomBatch(len(rooms), rules, seeds=rooms, image_size=8)
    for _ in range(rules.decisions):
        batch.move(policy.act(batch.world, w))
    collected: NDArray[np.float64] = batch.world.collected @ np.asarray(w, np.float64)
    return collected


def yardstick(episodes: int, rules: RoomRules | None = None) -> pd.DataFrame:
    """Measure the table: mean return and the 95 % interval of the mean, a row per set, task and policy."""
    from usfa.environments.room.oracle import Greedy, Oracle, random_policy

    if episodes < 2:
        raise InputError(f"episodes is {episodes}; expected at least 2.")
    rules = rules or RoomRules()
    seeds = range(_FIRST_SEED, _FIRST_SEED + episodes)
    policies: dict[str, StatePolicy] = {
        "oracle": Oracle(rules),
        "greedy": Greedy(rules),
        "random": random_policy(_FIRST_SEED),
    }
    known: dict[tuple[str, str], NDArray[np.float64]] = {}
    rows = []
    for name in SETS:
        for w in task_set(name):
            task = format_task(w)
            for policy, actor in policies.items():
                if (task, policy) not in known:
                    known[task, policy] = returns(actor, w, rules, seeds)
                rows.append((name, task, policy, *_interval(known[task, policy]), episodes))
    return pd.DataFrame(rows, columns=["set", "task", "policy", "mean", "low", "high", "episodes"])


def _interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
    mean, half = float(values.mean()), 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5
    return round(mean, 3), round(mean - half, 3), round(mean + half, 3)


def as_markdown(table: pd.DataFrame) -> str:
    """Format the table with tasks in rows and policies in columns."""
    policies = list(dict.fromkeys(table["policy"]))
    lines = [
        "# What can be collected in the room",
        "",
        f"Mean return of {table['episodes'].iloc[0]} one-minute episodes with the 95 % interval of the mean, by "
        "`python -m usfa.environments.room.yardstick`. The oracle and the greedy policy see the true state; greedy "
        "walks to the nearest object of positive value, whatever lies in the way.",
        "",
        "| set | task | " + " | ".join(policies) + " |",
        "|---|---|" + "---|" * len(policies),
    ]
    for (name, task), group in table.groupby(["set", "task"], sort=False):
        cells = [
            f"{row.mean_:.1f} [{row.low:.1f}, {row.high:.1f}]"
            for row in group.rename(columns={"mean": "mean_"}).itertuples()
        ]
        lines.append(f"| {name} | {task} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--csv", type=Path, default=YARDSTICK)
    parser.add_argument("--markdown", type=Path, default=Path("docs/results/room/yardstick.md"))
    chosen = parser.parse_args(arguments)
    table = yardstick(chosen.episodes)
    write_atomically(chosen.csv, table.to_csv(index=False).encode())
    write_atomically(chosen.markdown, as_markdown(table).encode())
    print(as_markdown(table))


if __name__ == "__main__":
    main()

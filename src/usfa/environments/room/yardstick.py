"""What the oracle, a greedy and the random policy collect on the paper's tasks: the yardstick for agents.

    python -m usfa.environments.room.yardstick [--episodes 50]

Undiscounted return of one-minute episodes, with a 95 % interval of the mean over episodes. All policies start from the
same rooms. The table that comes with the package normalises the scores of agents.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from usfa.environments.room.batch import RoomBatch
from usfa.environments.room.oracle import Greedy, Oracle, StatePolicy, random_policy
from usfa.environments.room.rules import RoomRules
from usfa.environments.room.scale import YARDSTICK
from usfa.errors import InputError
from usfa.files import write_atomically
from usfa.tasks import format_task, task_set

__all__ = ["SETS", "main", "returns", "yardstick"]

SETS = ("room-train", "room-train-large", "room-easy", "room-hard", "room-validation")
_FIRST_SEED = 1_000_000  # rooms that nobody trains in


def returns(policy: StatePolicy, w: ArrayLike, rules: RoomRules, seeds: Iterable[int]) -> NDArray[np.float64]:
    """Σ_t φ_t · w of an episode from each seed."""
    rooms = list(seeds)
    batch = RoomBatch(len(rooms), rules, seeds=rooms, image_size=8)
    for _ in range(rules.decisions):
        batch.move(policy.act(batch.world, w))
    collected: NDArray[np.float64] = batch.world.collected @ np.asarray(w, np.float64)
    return collected


def yardstick(episodes: int, rules: RoomRules | None = None) -> pd.DataFrame:
    """A row per set, task and policy: mean return, the 95 % interval of the mean, episodes."""
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
    """Tasks in rows, policies in columns."""
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

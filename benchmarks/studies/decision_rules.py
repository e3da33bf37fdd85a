"""Choice of the decision rule and its caution: scores of a room agent on validation tasks.

    python benchmarks/studies/decision_rules.py [--agent room] [--rules gpi cautious:0.5 …] [--episodes 20]

The tasks are those of room-validation: none is in M or M′, nor a permutation of a task there. The rooms differ from
those of published scores. Results: docs/decision-rules.md.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from rich.console import Console

from usfa.decisions import Decision, Rule, Situation
from usfa.environments.room.yardstick import measured, read_yardstick
from usfa.evaluation import evaluate
from usfa.functional import choose, policy_actions, stake, take_actions
from usfa.paper.report import markdown_table
from usfa.runs import load
from usfa.tasks import format_task, task_set

RULES = (
    "gpi",
    "follow",
    "single",
    "cautious:0.25",
    "cautious:0.5",
    "cautious:0.75",
    "cautious",
    "cautious:1.5",
    "cautious:2",
)


@dataclass(frozen=True)
class ShareOfStake:
    """The simplest cautious rule: a margin of a fixed share of the stake, and no doubts."""

    share: float

    @property
    def name(self) -> str:
        return f"margin of {self.share:.0%} of the stake"

    def decide(self, situation: Situation) -> Decision:
        psi, w, z, legal, *_ = situation
        own = policy_actions(psi, z, legal)
        return Decision(*choose(psi, w, z, legal, 0.0, self.share * stake(take_actions(psi, own), w), own))


@dataclass(frozen=True)
class FixedMargin:
    """A margin in the unit of the returns."""

    margin: float

    @property
    def name(self) -> str:
        return f"margin of {self.margin:g}"

    def decide(self, situation: Situation) -> Decision:
        psi, w, z, legal, *_ = situation
        return Decision(*choose(psi, w, z, legal, 0.0, self.margin))


OTHERS: tuple[Rule, ...] = (ShareOfStake(0.02), ShareOfStake(0.05), ShareOfStake(0.1), FixedMargin(0.1))
GROUPS = {"wishes": (True, False), "wishes and dislikes": (True, True), "dislikes": (False, True)}
"""Whether the tasks of a group have entries above 0, and whether they have entries below 0."""


def by_group(table: pd.DataFrame, w: NDArray[np.float64]) -> dict[str, str]:
    """Σ(score − random) / Σ(oracle − random) over the tasks of each group."""
    scores = table.set_index("task").loc[[format_task(task) for task in w]]
    signs = [(bool((task > 0).any()), bool((task < 0).any())) for task in w]
    cells = {}
    for name, wanted in GROUPS.items():
        mine = scores[[sign == wanted for sign in signs]]
        cells[name] = f"{(mine.score - mine.random).sum() / (mine.oracle - mine.random).sum():.2f}"
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="room")
    parser.add_argument("--rules", nargs="+", default=list(RULES))
    parser.add_argument("--candidates", nargs="+", default=["train", "train+task"])
    parser.add_argument("--episodes", type=int, default=20)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    agent, w, yardstick = load(chosen.agent), task_set("room-validation"), read_yardstick()
    rules: list[str | Rule] = [*chosen.rules, *(OTHERS if chosen.rules == list(RULES) else ())]
    rows = []
    for candidates in chosen.candidates:
        for rule in rules:
            console = Console(stderr=True)
            table = evaluate(agent, w, candidates, rule, episodes=chosen.episodes, seed=7, console=console)
            rows.append({"C": candidates, "rule": table.rule.iloc[0], **by_group(measured(table, yardstick), w)})
    print(markdown_table(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()

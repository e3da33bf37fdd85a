"""Agents of the room with their loops and without, by decision rule: normalised scores over runs.

    python benchmarks/studies/room_loops.py [--agents docs/results/room-agents/six-seeds/runs] [--out runs/room-loops]
    python benchmarks/studies/room_loops.py --sets room-train room-validation    # the tasks that settings are chosen on

Runs of the room are scored with their loops, as in the paper; `usfa evaluate`, `front`, `diagnose`, `watch` and the
playground leave them (docs/decision-rules.md). Each agent plays the episodes of its published scores. Scored agents are
not scored again.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import pandas as pd
from rich.console import Console

import usfa
from usfa.environments.room.yardstick import read_yardstick
from usfa.evaluation import write_table
from usfa.paper.report import markdown_table
from usfa.paper.room_report import final_table, has_rows_for, summary_of

LOOPS = {"kept": False, "left": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=Path, default=Path("docs/results/room-agents/six-seeds/runs"))
    parser.add_argument("--variants", nargs="+", default=["usfa", "uvfa-off-policy", "uvfa"])
    parser.add_argument("--rules", nargs="+", default=["steady", "cautious", "gpi"], help="of agents with ψ")
    parser.add_argument("--sets", nargs="+", default=["room-train", "room-easy", "room-hard"])
    parser.add_argument("--out", type=Path, default=Path("runs/room-loops"))
    chosen = parser.parse_args()
    console, tables = Console(stderr=True), []
    for variant in chosen.variants:
        for path in sorted(chosen.agents.glob(f"{variant}-seed-*")):
            own = chosen.out / f"{'-'.join([path.name, *chosen.sets, *chosen.rules])}.csv"
            if not own.exists():
                write_table(own, scores(path, variant, chosen.rules, chosen.sets, console))
            tables.append(pd.read_csv(own, dtype={"task": str}))
            write_table(chosen.out / "loops.csv", pd.concat(tables, ignore_index=True))
    for loops, found in pd.concat(tables, ignore_index=True).groupby("loops"):
        if has_rows_for(found):
            found = final_table(summary_of(found, read_yardstick()))
        else:
            groups = found.groupby(["agent", "rule", "task_set", "task"], sort=False)
            found = groups.score.agg(["mean", "min", "max"]).reset_index()
        print(f"Loops {loops}:\n\n{markdown_table(found)}\n")


def scores(path: Path, variant: str, rules: list[str], sets: list[str], console: Console) -> pd.DataFrame:
    """The scores of an agent: a row for each rule, with loops kept and left, and task."""
    agent, parts = usfa.load(path), []
    candidates = "train" if agent.actor.has_psi else "task"
    for rule, tasks, (loops, broken) in product(rules if agent.actor.has_psi else ["gpi"], sets, LOOPS.items()):
        table = usfa.evaluate(agent, tasks, candidates, rule, seed=agent.seed, break_loops=broken, console=console)
        part = table[["task", "score"]].assign(rule=rule, loops=loops, task_set=tasks)
        parts.append(part.assign(agent=variant, candidates=candidates, seed=agent.seed, snapshot=0, frames=0))
    return pd.concat(parts, ignore_index=True)


if __name__ == "__main__":
    main()

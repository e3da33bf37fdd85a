"""`usfa list`."""

from __future__ import annotations

import pandas as pd
from rich.console import Console

from usfa.cli.terminal import table_of
from usfa.decisions import CANDIDATE_SETS, RULES, SINGLE
from usfa.environments import ENVIRONMENTS
from usfa.errors import InputError
from usfa.runs import PRESETS, SHIPPED_AGENTS
from usfa.tasks import SPREAD_SETS, TASK_SETS, format_task

__all__ = ["run"]

OTHERS_ENVIRONMENTS = {
    "minecart-v0, …": "ids of MO-Gymnasium (extra mo) and Gymnasium with discrete actions, plain observations, and a φ",
    "module:Class": "your own, or module:function that returns one; check it with usfa check-env",
}


def run(words: list[str]) -> None:
    if words:
        print("usfa list: presets, environments, task and candidate sets, rules and shipped agents. It has no options.")
        if words[0] not in {"-h", "--help"}:
            raise InputError(f"`usfa list` was given {words[0]!r}; expected nothing.")
        return
    console = Console()
    sets = {name: f"{len(w)} tasks, D={w.shape[1]}: {format_task(w[0])} …" for name, w in TASK_SETS.items()}
    sections: dict[str, dict[str, str]] = {
        "presets (usfa train)": {name: about for name, (_, about) in PRESETS.items()},
        "environments": {name: entry.about for name, entry in ENVIRONMENTS.items()} | OTHERS_ENVIRONMENTS,
        "task sets": sets | SPREAD_SETS,
        "candidate sets (--candidates)": CANDIDATE_SETS,
        "decision rules (--rule)": RULES | {SINGLE: "for evaluation only: the best policy in C in hindsight"},
        "shipped agents (usfa evaluate, usfa.load)": SHIPPED_AGENTS,
    }
    for title, entries in sections.items():
        console.print(table_of(pd.DataFrame({"name": list(entries), "": list(entries.values())}), title))

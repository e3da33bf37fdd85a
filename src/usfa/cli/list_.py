"""`usfa list`."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from usfa.environments import ENVIRONMENTS
from usfa.errors import InputError
from usfa.names import CANDIDATE_SETS, PRESET_NAMES, RULES, SHIPPED_AGENTS, SINGLE
from usfa.tasks import SPREAD_SETS, TASK_SETS, format_task

__all__ = ["run"]

OTHERS_ENVIRONMENTS = {
    "minecart-v0, …": "ids of MO-Gymnasium (extra mo) and Gymnasium with discrete actions, plain observations, and a φ",
    "module:Class": "your own, or module:function that returns one; check it with usfa check-env",
}


def run(words: list[str]) -> None:
    if words:
        raise InputError(f"`usfa list` was given {words[0]!r}; expected nothing.")
    console = Console()
    sets = {name: f"{len(w)} tasks, D={w.shape[1]}: {format_task(w[0])} …" for name, w in TASK_SETS.items()}
    sections: dict[str, dict[str, str]] = {
        "presets (usfa train)": PRESET_NAMES,
        "environments": {name: entry.about for name, entry in ENVIRONMENTS.items()} | OTHERS_ENVIRONMENTS,
        "task sets": sets | SPREAD_SETS,
        "candidate sets (--candidates)": CANDIDATE_SETS,
        "decision rules (--rule)": RULES | {SINGLE: "for evaluation only: the best policy in C in hindsight"},
        "shipped agents (usfa evaluate, usfa.load)": SHIPPED_AGENTS,
    }
    for number, (title, entries) in enumerate(sections.items()):
        table = Table(box=None, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column()
        for name, about in entries.items():
            table.add_row(escape(name), escape(about))
        console.print(f"\n{title}" if number else title, style="bold", markup=False, highlight=False)
        console.print(table)

"""Reports: each claim of the paper beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

__all__ = ["Claim", "claims_section", "markdown_table", "verdict"]

Verdict = Literal["holds", "does not hold", "not decided"]


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper, and what became of it."""

    source: str
    statement: str
    measured: str
    verdict: Verdict


def verdict(lower: tuple[float, float], upper: tuple[float, float]) -> Verdict:
    """Whether one interval lies below another: decided only where they do not overlap."""
    if lower[1] < upper[0]:
        return "holds"
    return "does not hold" if upper[1] < lower[0] else "not decided"


def claims_section(claims: Sequence[Claim]) -> str:
    """A Markdown table with a row for each claim."""
    rows = [f"| {c.source} | {c.statement} | {c.measured} | **{c.verdict}** |" for c in claims]
    return "\n".join(["| where | the paper says | measured | verdict |", "|---|---|---|---|", *rows])


def markdown_table(table: pd.DataFrame, digits: int = 5) -> str:
    """A table of texts and numbers in Markdown."""
    lines = ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    for row in table.itertuples(index=False):
        cells = [f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell) for cell in row]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)

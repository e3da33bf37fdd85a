"""Reports: each claim of the paper beside what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

__all__ = ["Claim", "Verdict", "claims_section", "format_cell", "markdown_table", "verdict"]

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
    if math.isnan(sum(lower) + sum(upper)):
        return "not decided"
    if lower[1] < upper[0]:
        return "holds"
    return "does not hold" if upper[1] < lower[0] else "not decided"


def claims_section(claims: Sequence[Claim]) -> str:
    """A Markdown table with a row for each claim."""
    rows = [f"| {c.source} | {c.statement} | {c.measured} | **{c.verdict}** |" for c in claims]
    return "\n".join(["| where | the paper says | measured | verdict |", "|---|---|---|---|", *rows])


def format_cell(cell: object) -> str:
    """Five digits for numbers, a dash where there is none."""
    if isinstance(cell, float):
        return "–" if math.isnan(cell) else f"{cell:.5f}"
    return str(cell)


def markdown_table(table: pd.DataFrame) -> str:
    """A table of texts and numbers in Markdown."""
    lines = ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    for row in table.itertuples(index=False):
        lines.append("| " + " | ".join(format_cell(cell) for cell in row) + " |")
    return "\n".join(lines)

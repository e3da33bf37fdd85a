"""Claims of the paper with verdicts, and Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import pandas as pd

__all__ = ["Claim", "Interval", "Verdict", "claims_section", "format_cell", "holds_if", "markdown_table", "verdict"]

Interval = tuple[float, float]
Verdict = Literal["holds", "does not hold", "not decided"]


class Claim(NamedTuple):
    """A statement of the paper, the measured result, and the verdict."""

    source: str
    statement: str
    measured: str
    verdict: Verdict


def holds_if(condition: bool) -> Verdict:
    return "holds" if condition else "does not hold"


def verdict(lower: Interval, upper: Interval) -> Verdict:
    """Compare two intervals: the claim holds if `lower` is below `upper`, and is not decided if they overlap."""
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
    """Format numbers with five decimals, and NaN as a dash."""
    if isinstance(cell, float):
        return "–" if math.isnan(cell) else f"{cell:.5f}"
    return str(cell)


def markdown_table(table: pd.DataFrame) -> str:
    """Format a table of texts and numbers as Markdown."""
    lines = ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    for row in table.itertuples(index=False):
        lines.append("| " + " | ".join(format_cell(cell) for cell in row) + " |")
    return "\n".join(lines)

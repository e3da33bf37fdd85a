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
    """A statement of the paper, the measured result, the verdict, and the tests behind it."""

    source: str
    statement: str
    measured: str
    verdict: Verdict
    tests: str = ""


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
    """A Markdown table with a row for each claim, and a column of tests if there are any."""
    columns = {"where": "source", "the paper says": "statement", "measured": "measured", "tests": "tests"}
    table = pd.DataFrame({title: [getattr(claim, name) for claim in claims] for title, name in columns.items()})
    table["verdict"] = [f"**{claim.verdict}**" for claim in claims]
    return markdown_table(table if table.tests.any() else table.drop(columns="tests"))


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

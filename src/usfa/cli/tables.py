"""Tables for the terminal."""

from __future__ import annotations

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from usfa.paper.report import format_cell

__all__ = ["print_table"]

_WHOLE = ("indicator", "task_set", "rule")  # text columns that are not wrapped if there is space


def print_table(rows: pd.DataFrame, title: str) -> None:
    """Print a title and a table, without the columns that are empty."""
    console = Console()
    console.print(title, style="italic", markup=False, highlight=False)  # rich wraps titles at the table's width
    cells = {str(name): [format_cell(cell) for cell in column] for name, column in rows.items()}
    shown = {name: column for name, column in cells.items() if not column or set(column) - {"", "–"}}
    widths = {name: max(map(len, (name, *column))) for name, column in shown.items()}
    numbers = {name for name in shown if pd.api.types.is_numeric_dtype(rows[name])}
    whole = sum(widths[name] + 2 for name in {*numbers, *_WHOLE} & {*shown}) <= console.width
    table = Table(box=None, pad_edge=False)
    for name, width in widths.items():
        if name in numbers:  # never cut: part of a number is another number
            table.add_column(escape(name), justify="right", no_wrap=True, min_width=width)
        else:
            table.add_column(escape(name), no_wrap=whole and name in _WHOLE, overflow="fold")
    for row in zip(*shown.values(), strict=True):
        table.add_row(*map(escape, row))
    console.print(table)

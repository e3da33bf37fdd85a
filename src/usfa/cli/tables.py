"""Tables for the terminal."""

from __future__ import annotations

from typing import Literal

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from usfa.paper.report import format_cell

__all__ = ["print_table"]

_WHOLE = ("indicator", "task_set", "rule")  # columns of texts that are not broken


def print_table(rows: pd.DataFrame, title: str) -> None:
    """Print a title and a table, without the columns that are empty."""
    console = Console()
    console.print(title, style="italic", markup=False, highlight=False)  # a title of the table would wrap at its width
    cells = {str(name): [format_cell(cell) for cell in column] for name, column in rows.items()}
    shown = {name: column for name, column in cells.items() if not column or set(column) - {"", "–"}}
    table = Table(box=None, pad_edge=False)
    for name in shown:
        justify: Literal["left", "right"] = "right" if pd.api.types.is_numeric_dtype(rows[name]) else "left"
        table.add_column(escape(name), justify=justify, no_wrap=name in _WHOLE)
    for row in zip(*shown.values(), strict=True):
        table.add_row(*map(escape, row))
    console.print(table)

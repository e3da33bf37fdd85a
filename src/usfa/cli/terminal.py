"""What the commands share: parsing, where results go, tables, and the next command to copy."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import tyro
from rich.console import Console
from rich.table import Table

from usfa.errors import InputError
from usfa.paper.report import format_cell
from usfa.runs.directory import OnExisting

__all__ = ["Output", "parse", "parse_some", "print_next", "progress_console", "table_of"]


@dataclass(frozen=True)
class Output:
    """Where results go."""

    out: Path | None = None
    """The run directory; by default runs/NAME."""
    resume: bool = False
    """Go on with the run that is already there."""
    overwrite: bool = False
    """Replace the run that is already there."""

    def __post_init__(self) -> None:
        if self.resume and self.overwrite:
            raise InputError("--resume and --overwrite were both given; expected one of them at most.")

    @property
    def existing(self) -> OnExisting:
        return "resume" if self.resume else "overwrite" if self.overwrite else "refuse"

    def path(self, name: str) -> Path:
        path = self.out if self.out is not None else Path("runs") / name
        if self.resume and not path.exists():
            raise InputError(f"Run directory {path} does not exist; expected a run to resume.")
        return path


def parse(command: Any, program: str, words: list[str], default: Any = None) -> Any:
    _check_repeats(words)
    return tyro.cli(command, prog=f"usfa {program}", args=words, default=default, description=command.__doc__)


def _check_repeats(words: list[str]) -> None:
    """An option that is repeated would count once, silently."""
    options = [word.partition("=")[0].replace("_", "-") for word in words if word.startswith("--")]
    for option, count in Counter(options).items():
        if count > 1:
            raise InputError(f"{option} was given {count} times; expected it once, with all its values.")


def parse_some(command: Any, words: list[str]) -> Any:
    """What a command understands of the words; the others, and calls for help, are left to who comes next."""
    asked = [word for word in words if word not in {"-h", "--help"}]
    return tyro.cli(command, args=asked, return_unknown_args=True)[0]


def progress_console() -> Console:
    """Progress goes to stderr: stdout is for results, and may be a pipe that closes early."""
    return Console(stderr=True)


def table_of(rows: pd.DataFrame, title: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name, column in rows.items():
        justify: Literal["left", "right"] = "right" if pd.api.types.is_numeric_dtype(column) else "left"
        table.add_column(str(name), justify=justify)
    for row in rows.itertuples(index=False):
        table.add_row(*(format_cell(cell) for cell in row))
    return table


def print_next(console: Console, command: str) -> None:
    console.print(f"Next: {_program()} {command}", soft_wrap=True)


def _program() -> str:
    """How we were called, so that the next command can be copied."""
    called = sys.argv[0]
    if Path(called).name != "usfa":
        return "python -m usfa"
    on_path = shutil.which("usfa")
    return "usfa" if on_path and Path(on_path).samefile(called) else called

"""Parsing and printing for all commands."""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections import Counter
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from usfa.errors import InputError
from usfa.paper.report import format_cell
from usfa.runs.directory import OnExisting

__all__ = [
    "AgentOptions",
    "Output",
    "parse",
    "parse_some",
    "print_lines",
    "print_next",
    "progress_console",
    "show_help",
    "table_of",
]


_WHOLE = ("indicator", "task_set", "rule")  # columns of texts that are not broken


@dataclass(frozen=True)
class Output:
    """Options of commands that write a run directory."""

    out: Path | None = None
    """Run directory; by default runs/NAME."""
    resume: bool = False
    """Continue the run in this directory."""
    overwrite: bool = False
    """Replace the run in this directory."""

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


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """Options of commands that let a trained agent act."""

    run: tyro.conf.Positional[str]
    """A run directory, an agent directory, the name of a shipped agent, or hf://OWNER/NAME."""
    seed: int | None = None
    """Training seed of the agent, if there are several; the first by default."""
    rng: int = 0
    """Random seed of the episodes: environments, exploration, sample:N."""
    trust: bool = False
    """Allow the agent's file to name modules to import, for its environment, network, sampler or agent class."""

    def __post_init__(self) -> None:
        if not 0 <= self.rng < 2**63:
            raise InputError(f"--rng is {self.rng}; expected a whole number from 0, below 2^63.")


def parse(command: Any, program: str, words: list[str], default: Any = None) -> Any:
    """Parse the options of a command; InputError if they cannot be parsed."""
    _check_repeats(words)
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            return tyro.cli(command, prog=f"usfa {program}", args=words, default=default, description=command.__doc__)
    except SystemExit as stop:
        if stop.code in (0, None):  # help
            raise
        raise InputError(f"{_reason(printed.getvalue())}; see usfa {program} --help.") from None


def _reason(printed: str) -> str:
    """The reason in a box that tyro prints: unknown options first, otherwise its first part."""
    inside = "\n".join(line.strip("│|╭╮╰╯+ ") for line in printed.splitlines())
    parts = [" ".join(part.split()) for part in re.split(r"[─-]{10,}", inside)]
    parts = [part for part in parts if ":" in part]  # not the title
    unknown = [part for part in parts if part.startswith("Unrecognized")]
    first = (unknown or parts or ["The options cannot be parsed"])[0]
    if first.startswith("Missing from"):
        names = re.findall(r"(?<!\S)(?:--[\w.-]+|[A-Z]{3,}(?= ))", first)
        first = f"Missing: {', '.join(name for name in names if name != 'STR') or 'the first word'}"
    return first.removesuffix(".")


def _check_repeats(words: list[str]) -> None:
    """Reject repeated options, of which tyro would silently use one."""
    options = [word.partition("=")[0].replace("_", "-") for word in words if word.startswith("--")]
    for option, count in Counter(options).items():
        if count > 1:
            raise InputError(f"{option} was given {count} times; expected it once, with all its values.")


def parse_some(command: Any, words: list[str]) -> Any:
    """Parse the options that a command knows, and ignore the others and --help."""
    asked = [word for word in words if word not in {"-h", "--help"}]
    return tyro.cli(command, args=asked, return_unknown_args=True)[0]


def show_help(words: list[str], about: str | None, missing: str) -> bool:
    """Print help if the first word is missing or an option; raise InputError unless help was requested."""
    if words and not words[0].startswith("-"):
        return False
    print(about)
    if not words or words[0] not in {"-h", "--help"}:
        raise InputError(missing)
    return True


def progress_console() -> Console:
    """A console on stderr, so that stdout holds results only."""
    return Console(stderr=True)


def table_of(rows: pd.DataFrame, title: str) -> Table:
    """A table for the terminal, without the columns that are empty."""
    cells = {str(name): [format_cell(cell) for cell in column] for name, column in rows.items()}
    shown = {name: column for name, column in cells.items() if not column or set(column) - {"", "–"}}
    table = Table(title=escape(title), title_justify="left", box=None, pad_edge=False)
    for name in shown:
        justify: Literal["left", "right"] = "right" if pd.api.types.is_numeric_dtype(rows[name]) else "left"
        table.add_column(escape(name), justify=justify, no_wrap=name in _WHOLE)
    for row in zip(*shown.values(), strict=True):
        table.add_row(*map(escape, row))
    return table


def print_lines(*lines: str) -> None:
    """Print the lines that are not empty, without breaking them."""
    for line in filter(None, lines):
        Console().print(line, markup=False, soft_wrap=True)


def print_next(command: str) -> None:
    """Suggest the next command."""
    print_lines(f"Next: {_program()} {command}")


def _program() -> str:
    """The name under which this program was called."""
    called = sys.argv[0]
    if Path(called).name != "usfa":
        return "python -m usfa"
    on_path = shutil.which("usfa")
    return "usfa" if on_path and Path(on_path).samefile(called) else called

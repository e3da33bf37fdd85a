"""Printing for all commands."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

__all__ = ["print_lines", "print_next", "progress_console"]


def progress_console() -> Console:
    """A console on stderr, so that stdout holds results only."""
    return Console(stderr=True)


def print_lines(*lines: str) -> None:
    """Print the lines that are not empty, without breaking them."""
    for line in filter(None, lines):
        Console().print(line, markup=False, soft_wrap=True)


def print_next(command: str) -> None:
    """Suggest the next command."""
    program = "usfa" if Path(sys.argv[0]).name == "usfa" else "python -m usfa"
    print_lines(f"Next: {program} {command}")

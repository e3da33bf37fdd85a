"""`usfa watch`."""

from __future__ import annotations

from usfa.cli.options import WatchCommand
from usfa.cli.terminal import print_lines, progress_console
from usfa.runs.watch import watch

__all__ = ["run"]


def run(command: WatchCommand) -> None:
    film, sheet = watch(command.environment, command.request, progress_console())
    print_lines(f"Film: {film}   contact sheet: {sheet}")

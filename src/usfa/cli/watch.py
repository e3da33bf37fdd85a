"""`usfa watch`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from usfa.cli.terminal import parse, print_lines, progress_console, show_help
from usfa.environments import ENVIRONMENTS
from usfa.runs.watch import Watch, watch

__all__ = ["WatchCommand", "run"]


@dataclass(frozen=True)
class WatchCommand:
    """Record one episode of a policy as a film and a contact sheet, with task, map and collected objects.

    Examples:
      usfa watch room --agent room --task 1,1,-1,0
      usfa watch room --agent room --task 1,1,-1,0 --candidates train --rule gpi
      usfa watch room --task 1,1,-1,0 --policy oracle
      usfa watch room --task 1-100 --policy random --steps 150 --out random.mp4
      usfa watch room --task 11 --arguments types 2 layout "....../..##../..##../....../....../......"
      usfa watch room-doom --task 1,0,0,0 --policy random
    """

    request: Annotated[Watch, tyro.conf.arg(name="")]


def run(words: list[str]) -> None:
    if words[:1] in (["-h"], ["--help"]):
        words = ["ENVIRONMENT", *words]
    missing = f"An environment is missing; expected one of {', '.join(ENVIRONMENTS)}."
    if show_help(words, WatchCommand.__doc__, missing):
        return
    environment, *rest = words
    command = parse(WatchCommand, f"watch {environment}", rest)
    film, sheet = watch(environment, command.request, progress_console())
    print_lines(f"Film: {film}   contact sheet: {sheet}")

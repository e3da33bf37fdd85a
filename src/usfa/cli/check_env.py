"""`usfa check-env`."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from usfa.cli.terminal import parse, print_next, progress_console
from usfa.environments import Finding, check_environment
from usfa.errors import InputError

__all__ = ["CheckEnv", "run"]

_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


@dataclass(frozen=True)
class CheckEnv:
    """Take random actions in an environment and report each error, with a way to fix it.

    The exit code is 0 if an agent can learn in the environment, and 1 if there are errors.

    Examples:
      usfa check-env minecart-v0
      usfa check-env own_environment:Garden
      usfa check-env fruit-tree-v0 --arguments depth 5
      usfa check-env CartPole-v1 --phi own_features:phi
    """

    environment: tyro.conf.Positional[str]
    """A name from `usfa list`, an id of Gymnasium or MO-Gymnasium, or your own: module:Class, or module:function."""
    arguments: Annotated[Mapping[str, bool | int | float | str], tyro.conf.arg(aliases=["--environment-arguments"])] = (
        field(default_factory=dict)
    )
    """Arguments of the environment."""
    phi: str = "reward"
    """Source of φ: reward (a vector), info (info["vector_reward"]), or module:function."""
    steps: int = 1000
    """Number of random steps."""
    seed: int = 0
    """Random seed of the environment and of the actions."""

    def __post_init__(self) -> None:
        if "phi" in self.arguments:
            raise InputError("--arguments has an entry phi; expected it as --phi.")


def run(words: list[str]) -> int:
    command = parse(CheckEnv, "check-env", words)
    findings = check_environment(
        command.environment,
        command.phi,
        arguments=command.arguments,
        steps=command.steps,
        seed=command.seed,
        console=progress_console(),
    )
    console = Console()
    console.print(_table_of(findings))
    console.print(f"{command.environment}: {_counted(findings)}.", highlight=False, markup=False, soft_wrap=True)
    if any(finding.severity == "error" for finding in findings):
        return 1
    print_next(_training(command))
    return 0


def _table_of(findings: list[Finding]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        style = _STYLES[finding.severity]
        table.add_row(f"[{style}]{finding.severity}[/]", f"[{style}]{finding.check}[/]", escape(finding.sentence))
    return table


def _counted(findings: list[Finding]) -> str:
    counts = Counter(finding.severity for finding in findings)
    errors = f"{counts['error']} error{'s' * (counts['error'] != 1)}" if counts["error"] else "no errors"
    warnings = f", {counts['warning']} warning{'s' * (counts['warning'] != 1)}" if counts["warning"] else ""
    return errors + warnings


def _training(command: CheckEnv) -> str:
    words = ["train", command.environment]
    if command.phi != "reward":
        words += ["--phi", command.phi]
    if command.arguments:
        words += ["--environment-arguments", *(str(word) for pair in command.arguments.items() for word in pair)]
    return shlex.join(words)

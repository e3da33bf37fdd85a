"""`usfa check-env`."""

from __future__ import annotations

import shlex
from collections import Counter

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from usfa.cli.options import CheckEnv
from usfa.cli.terminal import print_next, progress_console
from usfa.environments import Finding, check_environment

__all__ = ["run"]

_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def run(command: CheckEnv) -> int:
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

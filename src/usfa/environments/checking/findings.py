"""What a check brings to light."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

__all__ = ["Broken", "Finding", "Severity", "collect", "error", "note", "warning"]

Severity = Literal["error", "warning", "note"]
_ORDER: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One thing about an environment."""

    severity: Severity
    """An error keeps an agent from learning; a warning makes results doubtful; a note is good to know."""
    check: str
    """What was looked at, in a word, such as "seeding"."""
    sentence: str
    """What was found, and the cure."""


error: Callable[[str, str], Finding] = partial(Finding, "error")
warning: Callable[[str, str], Finding] = partial(Finding, "warning")
note: Callable[[str, str], Finding] = partial(Finding, "note")


class Broken(Exception):
    """An error after which there is nothing more to look at."""

    def __init__(self, check: str, sentence: str) -> None:
        super().__init__(sentence)
        self.finding = error(check, sentence)


def collect(findings: Iterable[Finding]) -> list[Finding]:
    """The first finding of every check, the worst first: what is wrong in every step is told once."""
    found: dict[str, Finding] = {}
    try:
        for finding in findings:
            found.setdefault(finding.check, finding)
    except Broken as broken:
        found[broken.finding.check] = broken.finding  # in place of a milder word about the same
    return sorted(found.values(), key=lambda finding: _ORDER.index(finding.severity))

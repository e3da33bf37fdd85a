"""The style of all figures, and the methods that they compare."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from usfa.files import write_atomically

__all__ = ["EXACT", "METHODS", "UVFAS", "Key", "Method", "last_snapshot", "method", "rows_of", "save", "styled"]

Key = tuple[str, str]
"""A method in tables: agent and candidate set."""
EXACT: Key = ("sf-gpi-exact", "train")
UVFAS: tuple[Key, ...] = (("uvfa", "task"), ("uvfa-off-policy", "task"))


@dataclass(frozen=True)
class Method:
    """Label, colour, marker and line style of a method in every figure."""

    label: str
    colour: str
    marker: str = "o"
    line: str = "-"


# Okabe and Ito's palette, which colour-blind readers can tell apart. Each candidate set has one hue; for the other
# USFAs it is darker, with another line style and marker.
METHODS: dict[Key, Method] = {
    UVFAS[0]: Method("UVFA", "#D55E00", "s"),
    UVFAS[1]: Method("UVFA, off-policy", "#E69F00", "D"),
    EXACT: Method("SF&GPI (exact ψ)", "#555555", "v"),
    ("sf-gpi", "train"): Method("SF&GPI (learned ψ)", "#999999", "^"),
    ("usfa", "task"): Method("USFA, C = {w′}", "#56B4E9", "o"),
    ("usfa", "sample:5"): Method("USFA, C = random(5)", "#0072B2", "P"),
    ("usfa", "train"): Method("USFA, C = M", "#009E73", "X"),
    ("usfa", "train+task"): Method("USFA, C = M ∪ {w′}", "#CC79A7", "*"),
    ("usfa-sigma-0.5", "task"): Method("USFA σ = 0.5, C = {w′}", "#2E86C1", "<", "--"),
    ("usfa-sigma-0.5", "train"): Method("USFA σ = 0.5, C = M", "#00805C", ">", "--"),
    ("usfa-sigma-0.5", "train+task"): Method("USFA σ = 0.5, C = M ∪ {w′}", "#B0508A", "d", "--"),
    ("usfa-8-tasks", "task"): Method("USFA 8 tasks, C = {w′}", "#1F5F9E", "h", "-."),
    ("usfa-8-tasks", "train"): Method("USFA 8 tasks, C = M", "#00664A", "H", "-."),
    ("usfa-8-tasks", "train+task"): Method("USFA 8 tasks, C = M ∪ {w′}", "#9B2F73", "p", "-."),
}


def method(agent: str, candidates: str) -> Method:
    """The style of an agent with a candidate set."""
    return METHODS.get((agent, candidates), Method(f"{agent}, C = {candidates}", "#000000"))


def rows_of(table: pd.DataFrame, key: Key) -> pd.DataFrame:
    """The rows of one method."""
    return table[(table.agent == key[0]) & (table.candidates == key[1])]


def last_snapshot(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of each method and rule at its last snapshot."""
    return table[table.snapshot == table.groupby(["agent", "candidates", "rule"]).snapshot.transform("max")]


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style to figures that are drawn within this context."""
    settings: dict[Any, Any] = {
        "axes.grid": True,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 10,
        "font.size": 9,
        "grid.alpha": 0.25,
        "legend.edgecolor": "none",
        "legend.framealpha": 0.8,
        "savefig.dpi": 160,
    }
    with mpl.rc_context(settings):
        yield


def save(figure: Figure, path: Path) -> None:
    """Write a PNG without a date, so that the same table gives the same bytes."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", bbox_inches="tight", metadata={"Software": None})
    write_atomically(path, picture.getvalue())

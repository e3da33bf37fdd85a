"""How every figure looks: one palette, one set of sizes, one way to disk."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from usfa.files import write_atomically

__all__ = ["METHODS", "Method", "method", "save", "styled"]


@dataclass(frozen=True)
class Method:
    """How one method is called and drawn, in every figure the same."""

    label: str
    colour: str
    marker: str = "o"
    line: str = "-"


# Okabe and Ito's palette, which stays apart for colour-blind readers. A candidate set keeps its hue: other USFAs have
# it darker, with another line and another marker.
METHODS: dict[tuple[str, str], Method] = {
    ("uvfa", "task"): Method("UVFA", "#D55E00", "s"),
    ("uvfa-off-policy", "task"): Method("UVFA, off-policy", "#E69F00", "D"),
    ("sf-gpi-exact", "train"): Method("SF&GPI (exact ψ)", "#555555", "v"),
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
    """The look of an agent with a candidate set."""
    return METHODS.get((agent, candidates), Method(f"{agent}, C = {candidates}", "#000000"))


@contextmanager
def styled() -> Iterator[None]:
    """Draw inside of this."""
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
    """PNG without a date in it, so that the same table gives the same bytes."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", bbox_inches="tight", metadata={"Software": None})
    write_atomically(path, picture.getvalue())

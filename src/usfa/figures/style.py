"""The style of all figures, and the methods that they compare."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from usfa.errors import InputError
from usfa.files import write_atomically

__all__ = [
    "COLOURS",
    "COLUMN",
    "DPI",
    "EXACT",
    "FORMATS",
    "INK",
    "METHODS",
    "PAGE",
    "UVFAS",
    "Key",
    "Method",
    "label_ends",
    "last_snapshot",
    "method",
    "rows_of",
    "save",
    "save_all",
    "spread",
    "styled",
]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555", "#000000")
"""Colours for lines that have no fixed colour."""
COLUMN, PAGE = 3.35, 6.75
"""Inches: width of a column of a two-column paper, and of its page. At these sizes all text has 7 points or more."""
DPI = 250
"""Resolution of PNG files."""
FORMATS = ("png", "pdf")
"""Formats in which figures are written unless others are given."""
INK = "#444444"
"""Colour of reference lines and of their labels."""

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
    """Apply the style to figures that are drawn or saved within this context."""
    settings: dict[Any, Any] = {
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.linewidth": 0.7,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 8.5,
        "axes.unicode_minus": True,
        "font.size": 8,
        "grid.alpha": 0.25,
        "grid.linewidth": 0.6,
        "legend.edgecolor": "none",
        "legend.fontsize": 7.5,
        "legend.framealpha": 0.8,
        "pdf.fonttype": 42,  # TrueType, so that text stays text
        "savefig.dpi": DPI,
        "svg.hashsalt": "usfa",  # otherwise ids in the file are random
        "xtick.labelsize": 7.5,
        "ytick.labelsize": 7.5,
    }
    with mpl.rc_context(settings):
        yield


# --- labels at the ends of lines ---


def label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], size: float = 7.5) -> None:
    """Label lines at the right edge of their axes, at the height of their last values, without overlaps.

    Call when the limits of the axes are final.

    Args:
        axes: linear y axis.
        ends: last value, text and colour of each line.
        size: font size in points.
    """
    low, high = axes.get_ylim()
    figure = axes.get_figure(root=True)
    assert figure is not None
    points = 72 * figure.get_size_inches()[1] * axes.get_position().height
    heights = [min(max((value - low) / (high - low), 0.0), 1.0) for value, _, _ in ends]
    for (_, text, colour), height, place in zip(ends, heights, spread(heights, 1.2 * size / points), strict=True):
        if abs(place - height) > 0.01:  # a level leader would look like a minus sign
            axes.plot((1.005, 1.035), (height, place), color=colour, lw=0.7, transform=axes.transAxes, clip_on=False,
                      label="_leader")  # fmt: skip
        axes.text(1.045, place, text, color=colour, fontsize=size, va="center", transform=axes.transAxes)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights apart until neighbours differ by at least `gap`, in the same order.

    Heights that move form groups, each around its mean. Heights are 0 or more, and stay so.
    """
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    groups: list[list[int]] = []
    centres: list[float] = []
    for index in order:
        groups.append([index])
        centres.append(heights[index])
        while len(groups) > 1 and centres[-1] - centres[-2] < gap * (len(groups[-1]) + len(groups[-2])) / 2 - 1e-12:
            last = groups.pop()
            groups[-1] += last
            centres.pop()
            mean = sum(heights[member] for member in groups[-1]) / len(groups[-1])
            centres[-1] = max(mean, gap * (len(groups[-1]) - 1) / 2)
    places = [0.0] * len(heights)
    for group, centre in zip(groups, centres, strict=True):
        for number, index in enumerate(group):
            places[index] = centre + gap * (number - (len(group) - 1) / 2)
    return places


# --- files ---


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG (250 dpi), PDF or SVG, by the ending of `path`; the same table gives the same bytes."""
    form = path.suffix.removeprefix(".")
    if form not in _METADATA:
        raise InputError(f"The figure {path} ends in {path.suffix!r}; expected one of {', '.join(_METADATA)}.")
    content = io.BytesIO()
    with styled():  # dpi, fonts and ids depend on the settings when saving
        figure.savefig(content, format=form, bbox_inches="tight", pad_inches=0.03, metadata=_METADATA[form])
    write_atomically(path, content.getvalue())


def save_all(figures: Mapping[str, Figure], directory: Path, formats: Iterable[str] = FORMATS) -> None:
    """Write each figure as directory/NAME.FORMAT."""
    for (name, figure), form in product(figures.items(), formats):
        save(figure, directory / f"{name}.{form}")


_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Creator": None, "Date": None},
}
"""Formats, each with the metadata to leave out, because it would differ between two files of one figure."""

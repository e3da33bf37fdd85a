"""Figures of Section 4.3 and Appendix D: learning and zero-shot generalisation in the room.

`training` holds ε-greedy returns during training: agent, seed, task, frames, score. `summary` holds scores of frozen
agents over runs: measure ("return" or "normalised"), agent, candidates, task_set, task ("all" for the whole set),
snapshot, frames, mean, std, low, high. `yardstick` holds returns of the random policy and the oracle: set, task,
policy, mean. Agents that are missing in a table are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from usfa.figures.style import METHODS, UVFAS, Key, Method, last_snapshot, method, rows_of, styled

__all__ = [
    "all_figures",
    "learning_curves",
    "overview",
    "sigma_comparison",
    "training_set_comparison",
    "zero_shot_curves",
]

CANDIDATES = ("task", "train", "train+task")
BASELINES: tuple[Key, ...] = (("sf-gpi", "train"), *reversed(UVFAS))
USFA, BROAD, LARGE = (
    tuple((agent, candidates) for candidates in CANDIDATES) for agent in ("usfa", "usfa-sigma-0.5", "usfa-8-tasks")
)
SETS = {"room-train": "training tasks M", "room-easy": "easy test tasks", "room-hard": "hard test tasks"}

AGENTS = {
    "usfa": Method("USFA", "#0072B2"),
    "usfa-sigma-0.5": Method("USFA, σ = 0.5", "#56B4E9", line="--"),
    "usfa-8-tasks": Method("USFA, 8 tasks", "#1B4F72", line="-."),
    "sf-gpi": METHODS["sf-gpi", "train"],
    "uvfa-off-policy": METHODS["uvfa-off-policy", "task"],
    "uvfa": METHODS["uvfa", "task"],
}
"""Styles during training, when GPI uses the policies of the training step instead of a candidate set."""

_WHILE_TRAINING = {
    "usfa": Method("while training on 4 tasks", AGENTS["usfa"].colour),
    "usfa-8-tasks": Method("while training on 8 tasks", AGENTS["usfa-8-tasks"].colour, line="-."),
}
_MILLION = 1e6
_YARDSTICKS = {"oracle": "--", "random": ":"}
_INK = "#444444"


def all_figures(training: pd.DataFrame, summary: pd.DataFrame, yardstick: pd.DataFrame) -> dict[str, Figure]:
    """Every figure of the report, by the name of its file."""
    return {
        "overview": overview(summary),
        "learning_curves": learning_curves(training, yardstick),
        "zero_shot_easy": zero_shot_curves(summary, yardstick, "room-easy"),
        "zero_shot_hard": zero_shot_curves(summary, yardstick, "room-hard"),
        "sigma": sigma_comparison(summary, yardstick),
        "training_set": training_set_comparison(training, summary, yardstick),
    }


# --- the figures ---


def overview(summary: pd.DataFrame) -> Figure:
    """Final normalised score of every method on every set (0: random policy, 1: oracle), with 95 % intervals."""
    final = last_snapshot(summary[(summary.measure == "normalised") & (summary.task == "all")])
    places = _places([_present(final, keys) for keys in (USFA, BROAD, LARGE, BASELINES)])
    highest = float(final[["mean", "high"]].max(axis=None))
    with styled():
        figure = Figure(figsize=(8.4, 1.2 + 0.26 * (max(places.values(), default=0) + 1)), layout="constrained")
        panels = figure.subplots(1, len(SETS), sharex=True, sharey=True)
        for axes, (name, title) in zip(panels, SETS.items(), strict=True):
            _dots(axes, final[final.task_set == name], places, highest)
            axes.set_title(title)
        panels[0].set_yticks(list(places.values()), [method(*key).label for key in places])
        panels[0].invert_yaxis()
        panels[1].set_xlabel("normalised score after training (0: random policy, 1: oracle)")
    return figure


def learning_curves(training: pd.DataFrame, yardstick: pd.DataFrame) -> Figure:
    """ε-greedy return on each canonical task while training; mean ±1 std over runs."""
    tasks = _tasks(yardstick, "room-train")
    binned = _binned(training)
    with styled():
        figure, panels = _grid(len(tasks), columns=len(tasks), height=2.6)
        for axes, task in zip(panels, tasks, strict=True):
            _behaviour(axes, binned[binned.task == task], AGENTS)
            _reference(axes, yardstick, task)
            _time_axis(axes, training.frames)
            axes.set_title(f"training task {task}")
        _finish(figure)
    return figure


def zero_shot_curves(
    summary: pd.DataFrame, yardstick: pd.DataFrame, task_set: str, keys: Sequence[Key] = (*USFA, *BASELINES)
) -> Figure:
    """Return of some methods on each test task over training (the paper's Figure 5 and Appendix D).

    Bands are ±1 std over runs; the bars on the right are 95 % intervals of the last snapshot.
    """
    tasks = _tasks(yardstick, task_set)
    with styled():
        figure, panels = _grid(len(tasks), columns=4 if len(tasks) > 6 else 3)
        _zero_shot(panels, summary, yardstick, task_set, keys)
        _finish(figure)
    return figure


def sigma_comparison(summary: pd.DataFrame, yardstick: pd.DataFrame) -> Figure:
    """D_z = N(w, σI) with σ = 0.1 and with σ = 0.5 on the hard tasks (the paper's Figure 6)."""
    return zero_shot_curves(summary, yardstick, "room-hard", (*USFA, *BROAD))


def training_set_comparison(training: pd.DataFrame, summary: pd.DataFrame, yardstick: pd.DataFrame) -> Figure:
    """USFA trained on four and on eight tasks: task 1000 in training, then the hard tasks (Appendix D, large M)."""
    binned = _binned(training)
    with styled():
        figure, (first, *panels) = _grid(1 + len(_tasks(yardstick, "room-hard")), columns=3)
        _behaviour(first, binned[binned.task == "1000"], _WHILE_TRAINING)
        _reference(first, yardstick, "1000")
        _time_axis(first, training.frames)
        first.set_title("training task 1000")
        _zero_shot(panels, summary, yardstick, "room-hard", (*USFA, *LARGE))
        _finish(figure)
    return figure


# --- tables ---


def _tasks(yardstick: pd.DataFrame, task_set: str) -> list[str]:
    return list(dict.fromkeys(yardstick[yardstick.set == task_set].task))


def _present(table: pd.DataFrame, keys: Iterable[Key]) -> list[Key]:
    return [key for key in keys if len(rows_of(table, key))]


def _binned(training: pd.DataFrame, bins: int = 40) -> pd.DataFrame:
    """Mean and std over runs (agent, task, frames, mean, std), after averaging each run within equal bins of frames."""
    width = max(float(training.frames.max()), 1.0) / bins if len(training) else 1.0
    part = np.minimum(training.frames // width, bins - 1)
    groups = training.assign(part=part).groupby(["agent", "task", "seed", "part"], sort=False)
    runs = groups[["frames", "score"]].mean().reset_index().groupby(["agent", "task", "part"])
    table = runs.agg(frames=("frames", "mean"), mean=("score", "mean"), std=("score", "std"))
    return table.reset_index().sort_values("frames")


# --- drawing ---


def _grid(count: int, columns: int, height: float = 2.1) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels; the rest of the last row is left empty for the legend."""
    rows = -(-count // columns)
    figure = Figure(figsize=(10.5, height * rows + 0.8), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for index, axes in enumerate(panels):
        if index >= count:
            axes.axis("off")
        if index % columns == 0:
            axes.set_ylabel("return per episode")
        if index // columns == rows - 1:
            axes.set_xlabel("training frames (millions)")
    return figure, panels[:count]


def _finish(figure: Figure) -> None:
    """Draw one legend for all panels, in an empty panel if there is one, else below."""
    entries: dict[str, Any] = {}
    for axes in reversed(figure.axes):  # the first panel may have other entries
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    names = [*(name for name in entries if name not in _YARDSTICKS), *(name for name in _YARDSTICKS if name in entries)]
    handles = [entries[name] for name in names]
    spare = [axes for axes in figure.axes if not axes.axison]
    if spare:
        spare[0].legend(handles, names, loc="center")
    else:
        figure.legend(handles, names, loc="outside lower center", ncols=3 if len(names) < 10 else 4)


def _zero_shot(
    panels: Sequence[Axes], summary: pd.DataFrame, yardstick: pd.DataFrame, task_set: str, keys: Sequence[Key]
) -> None:
    mine = summary[(summary.measure == "return") & (summary.task_set == task_set)]
    keys = _present(mine, keys)
    for axes, task in zip(panels, _tasks(yardstick, task_set), strict=True):
        of_task = mine[mine.task == task]
        for index, key in enumerate(keys):
            _curve(axes, rows_of(of_task, key).sort_values("frames"), method(*key))
            _interval(axes, last_snapshot(rows_of(of_task, key)), method(*key), 1.04 + 0.028 * index)
        _reference(axes, yardstick, task)
        _time_axis(axes, mine.frames)
        axes.set_title(f"w′ = {task}")


def _curve(axes: Axes, table: pd.DataFrame, look: Method) -> None:
    frames = table.frames / _MILLION
    axes.fill_between(frames, table["mean"] - table["std"], table["mean"] + table["std"],
                      color=look.colour, alpha=0.15, lw=0)  # fmt: skip
    axes.plot(frames, table["mean"], color=look.colour, ls=look.line, lw=1.5, label=look.label)


def _interval(axes: Axes, final: pd.DataFrame, look: Method, place: float) -> None:
    """Draw the last mean and its interval, if there is one, to the right of the curve."""
    for row in final.dropna(subset=["low", "high"]).itertuples(index=False):
        error = [[max(row.mean - row.low, 0)], [max(row.high - row.mean, 0)]]
        axes.errorbar([place * row.frames / _MILLION], [row.mean], error,
                      color=look.colour, marker=look.marker, ms=3.5, lw=1.2, capsize=0)  # fmt: skip


def _behaviour(axes: Axes, binned: pd.DataFrame, looks: dict[str, Method]) -> None:
    for agent, look in looks.items():
        mine = binned[binned.agent == agent]
        if len(mine):
            _curve(axes, mine, look)


def _reference(axes: Axes, yardstick: pd.DataFrame, task: str) -> None:
    """Draw the levels of oracle and random policy; write the oracle's as text if it is far above the curves."""
    levels = yardstick[yardstick.task == task].drop_duplicates("policy").set_index("policy")["mean"]
    low, high = min(axes.dataLim.y0, levels["random"]), max(axes.dataLim.y1, levels["random"])
    far = axes.has_data() and levels["oracle"] - low > 2.5 * (high - low)
    for policy, line in _YARDSTICKS.items():
        if policy != "oracle" or not far:
            axes.axhline(levels[policy], color=_INK, ls=line, lw=1, label=policy, zorder=1)
    if far:
        axes.annotate(f"oracle {levels['oracle']:.0f} ↑", (0.03, 0.97), xycoords="axes fraction", va="top",
                      color=_INK, fontsize=8)  # fmt: skip


def _time_axis(axes: Axes, frames: pd.Series) -> None:
    """Start at 0 and put no ticks beyond the last frame, where only intervals are drawn."""
    last = float(frames.max()) / _MILLION if len(frames) else 1.0
    axes.set_xticks([tick for tick in MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(0, last) if tick <= 1.001 * last])
    axes.set_xlim(left=0)
    axes.locator_params(axis="y", nbins=5)


def _places(groups: Sequence[Sequence[Key]]) -> dict[Key, float]:
    """Rows from top to bottom, with a gap between groups."""
    places: dict[Key, float] = {}
    row = 0.0
    for keys in groups:
        for key in keys:
            places[key] = row
            row += 1
        row += 0.6 if keys else 0
    return places


def _dots(axes: Axes, final: pd.DataFrame, places: dict[Key, float], highest: float) -> None:
    """Draw a row for each method, with its number in a column to the right of the highest score of all panels."""
    axes.axvline(0, color=_INK, ls=":", lw=1)
    if highest > 0.4:
        axes.axvline(1, color=_INK, ls="--", lw=1)
    highest = max(highest, 1.0 if highest > 0.4 else 0.1)
    axes.tick_params(axis="y", length=0)
    for key, place in places.items():
        look = method(*key)
        for row in rows_of(final, key).itertuples(index=False):
            axes.plot([row.low, row.high], [place, place], color=look.colour, lw=5, alpha=0.4, solid_capstyle="butt")
            axes.plot([row.mean], [place], color=look.colour, marker=look.marker, ms=6, mew=0)
            axes.text(1.24 * highest, place, f"{row.mean:.2f}", ha="right", va="center", fontsize=8, color=_INK)
    axes.set_xlim(right=1.27 * highest)

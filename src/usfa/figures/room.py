"""Figures of Section 4.3 and Appendix D: learning and zero-shot generalisation in the room.

`training` holds ε-greedy returns during training: agent, seed, task, frames, score. `summary` holds scores of frozen
agents over runs: measure ("return" or "normalised"), agent, candidates, rule, task_set, task ("all" for the whole set),
snapshot, frames, mean, std, low, high. `all_figures` and `rule_comparison` take the rows of all rules, the others those
of Eq. 3. `yardstick` holds returns of the random policy, the greedy one and the oracle: set, task, policy, mean.
`names` are the names of the objects, for tasks in words. Agents that are missing in a table are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from usfa.figures.style import (
    INK,
    METHODS,
    PAGE,
    UVFAS,
    Key,
    Method,
    label_ends,
    last_snapshot,
    method,
    rows_of,
    styled,
)
from usfa.tasks import describe_task, parse_task

__all__ = [
    "all_figures",
    "has_curves",
    "has_several_rules",
    "learning_curves",
    "overview",
    "rule_comparison",
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

RULES = {
    "single": Method("best policy of M alone", "#555555", "v", ""),
    "gpi": replace(METHODS["usfa", "train"], label="USFA, C = M, Eq. 3", line=""),  # as in the other figures
    "cautious": Method("USFA, C = M, cautious", "#0072B2", "o", ""),
    "steady": Method("USFA, C = M, steady", "#000000", "D", ""),
}
"""Styles of USFA with C = M by each decision rule."""

_MILLION = 1e6
_NORMALISED = "normalised score (0: random policy, 1: oracle)"
_LOWEST = -0.12  # lower end of axes with normalised scores; lower scores are written as text


def all_figures(
    training: pd.DataFrame, summary: pd.DataFrame, yardstick: pd.DataFrame, names: Sequence[str] = ()
) -> dict[str, Figure]:
    """All figures of the report by file name: rules only if there are several, curves only with several snapshots."""
    by_paper = summary[summary.rule == "gpi"]  # PAPER_RULE, whose module imports torch
    figures = {"overview": overview(by_paper)}
    if has_several_rules(summary):
        figures["rules"] = rule_comparison(summary, yardstick, names)
    if not has_curves(summary):
        return figures
    return figures | {
        "learning_curves": learning_curves(training, yardstick, names),
        "zero_shot_easy": zero_shot_curves(by_paper, yardstick, "room-easy", names),
        "zero_shot_hard": zero_shot_curves(by_paper, yardstick, "room-hard", names),
        "sigma": sigma_comparison(by_paper, yardstick, names),
        "training_set": training_set_comparison(training, by_paper, yardstick, names),
    }


def has_several_rules(summary: pd.DataFrame) -> bool:
    return bool(summary.rule.nunique() > 1)


def has_curves(summary: pd.DataFrame) -> bool:
    return bool(summary.snapshot.nunique() > 1)


# --- the figures ---


def overview(summary: pd.DataFrame) -> Figure:
    """Final normalised score of every method on every set (0: random policy, 1: oracle), with 95 % intervals."""
    final = last_snapshot(summary[(summary.measure == "normalised") & (summary.task == "all")])
    places = _places([_present(final, keys) for keys in (USFA, BROAD, LARGE, BASELINES)])
    highest = float(final[["mean", "high"]].max(axis=None))
    with styled():
        figure = Figure(figsize=(PAGE, 1.0 + 0.18 * (max(places.values(), default=0) + 1)), layout="constrained")
        panels = figure.subplots(1, len(SETS), sharex=True, sharey=True)
        for axes, (name, title) in zip(panels, SETS.items(), strict=True):
            _dots(axes, final[final.task_set == name], places, highest)
            axes.set_title(title)
        panels[0].set_yticks(list(places.values()), [method(*key).label for key in places])
        panels[0].invert_yaxis()
        panels[1].set_xlabel(f"{_NORMALISED} after training")
    return figure


def rule_comparison(summary: pd.DataFrame, yardstick: pd.DataFrame, names: Sequence[str] = ()) -> Figure:
    """USFA with C = M by each decision rule, UVFA and the greedy policy on each hard task, with 95 % intervals."""
    mine = last_snapshot(summary[(summary.measure == "normalised") & (summary.task_set == "room-hard")])
    usfa = rows_of(mine, ("usfa", "train"))
    rows = [(look, usfa[usfa.rule == rule]) for rule, look in RULES.items()]
    rows = [(replace(METHODS[UVFAS[0]], line=""), rows_of(mine, UVFAS[0])), *rows]
    rows = [(look, table) for look, table in rows if len(table)]
    tasks = [*_tasks(yardstick, "room-hard"), "all"]
    with styled():
        figure = Figure(figsize=(PAGE, 4.2), layout="constrained")
        axes = figure.subplots()
        places = _task_rows(axes, tasks, names)
        for task, place in zip(tasks, places, strict=True):
            shown = [(look, table[table.task == task]) for look, table in rows]
            _scores_in_row(axes, place, shown)
            level = _greedy(yardstick, tasks[:-1] if task == "all" else [task])
            axes.plot((level, level), (place - 0.42, place + 0.42), color=INK, lw=0.8, label="_greedy", zorder=1)
        axes.set_xlabel(f"{_NORMALISED} after training")
        looks = [(look.label, look) for look, _ in rows]
        _legend(figure, [*looks, ("greedy policy that sees the true state", Method("", INK, "|", ""))])
    return figure


def learning_curves(training: pd.DataFrame, yardstick: pd.DataFrame, names: Sequence[str] = ()) -> Figure:
    """ε-greedy return on each canonical task while training: mean over runs, and the range of the runs at the end."""
    tasks = _tasks(yardstick, "room-train")
    binned = _binned(training)
    with styled():
        figure = Figure(figsize=(PAGE, 2.1), layout="constrained")
        panels = figure.subplots(1, len(tasks), sharey=True)
        for axes, task in zip(panels, tasks, strict=True):
            _behaviour(axes, binned[binned.task == task], AGENTS)
            _returns_axis(axes, yardstick, task)
            _time_axis(axes, training.frames)
            axes.set_title(_title(task, names, "w"))
        figure.supxlabel("training frames (millions)", fontsize=8)
        panels[0].set_ylabel("return per episode")
        last = binned[binned.task == tasks[-1]]
        label_ends(panels[-1], [*_ends(last, AGENTS), *_levels(yardstick, tasks[-1])])
    return figure


def zero_shot_curves(
    summary: pd.DataFrame,
    yardstick: pd.DataFrame,
    task_set: str,
    names: Sequence[str] = (),
    keys: Sequence[Key] = (*USFA, *BASELINES),
) -> Figure:
    """Normalised score of some methods on each test task over training (the paper's Figure 5 and Appendix D).

    All panels have one scale, on which 0 is the random policy and 1 the oracle, whose returns are in the title. Lines
    are means over runs, and the marks at the end have 95 % intervals.
    """
    tasks = _tasks(yardstick, task_set)
    columns = 4 if len(tasks) > 6 else 3  # titles of tasks with fractions are long
    rows = -(-len(tasks) // columns)
    mine = summary[(summary.measure == "normalised") & (summary.task_set == task_set)]
    keys = _present(mine, keys)
    with styled():
        figure = Figure(figsize=(PAGE, 1.55 * rows + 0.75), layout="constrained")
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes, task in zip(panels.flat, tasks, strict=False):
            _zero_shot(axes, mine[mine.task == task], keys)
            _scale(axes)
            _time_axis(axes, mine.frames)
            axes.set_title(f"{_title(task, names)} ({_range(yardstick, task)})", fontsize=8)
        for axes in panels.flat[len(tasks) :]:
            axes.axis("off")
        figure.supylabel(_NORMALISED, fontsize=8)
        figure.supxlabel("training frames (millions)", fontsize=8)
        _legend(figure, [(look.label, look) for look in (method(*key) for key in keys)])
    return figure


def sigma_comparison(summary: pd.DataFrame, yardstick: pd.DataFrame, names: Sequence[str] = ()) -> Figure:
    """D_z = N(w, σI) with σ = 0.1 and with σ = 0.5 on the hard tasks after training (the paper's Figure 6)."""
    with styled():
        figure = Figure(figsize=(PAGE, 2.5), layout="constrained")
        panels = figure.subplots(1, len(CANDIDATES), sharex=True, sharey=True)
        _changes(panels, summary, yardstick, names, (USFA, BROAD))
        _legend(figure, _from_to("σ = 0.1", "σ = 0.5"))
    return figure


def training_set_comparison(
    training: pd.DataFrame, summary: pd.DataFrame, yardstick: pd.DataFrame, names: Sequence[str] = ()
) -> Figure:
    """USFA trained on four and on eight tasks: task 1000 in training, then the hard tasks (Appendix D, large M)."""
    binned = _binned(training)
    binned = binned[binned.task == "1000"]
    looks = {"usfa": Method("4 tasks", _FEW), "usfa-8-tasks": Method("8 tasks", _MANY)}
    with styled():
        figure = Figure(figsize=(PAGE, 2.6), layout="constrained")
        learning, *panels = figure.subplots(1, 1 + len(CANDIDATES), width_ratios=(1.15, 1, 1, 1))
        for axes in panels[1:]:
            axes.sharey(panels[0])
            axes.tick_params(labelleft=False)
        _behaviour(learning, binned, looks)
        _returns_axis(learning, yardstick, "1000")
        _time_axis(learning, training.frames)
        learning.set(title="while training: " + _title("1000", names, "w"), ylabel="return per episode")
        learning.set_xlabel("training frames (millions)")
        _name_levels(learning, yardstick, "1000")
        _changes(panels, summary, yardstick, names, (USFA, LARGE))
        _legend(figure, _from_to("trained on 4 tasks", "on 8 tasks, 4 of them with dislikes"))
    return figure


_FEW, _MANY = "#999999", "#0072B2"


# --- tables ---


def _tasks(yardstick: pd.DataFrame, task_set: str) -> list[str]:
    return list(dict.fromkeys(yardstick[yardstick.set == task_set].task))


def _present(table: pd.DataFrame, keys: Iterable[Key]) -> list[Key]:
    return [key for key in keys if len(rows_of(table, key))]


def _level(yardstick: pd.DataFrame, task: str) -> Mapping[str, float]:
    """Return of the oracle and of the random policy on a task."""
    return yardstick[yardstick.task == task].drop_duplicates("policy").set_index("policy")["mean"].to_dict()


def _binned(training: pd.DataFrame, bins: int = 40) -> pd.DataFrame:
    """Mean and range over runs, after averaging each run within equal bins of frames.

    Columns: agent, task, frames, mean, low, high.
    """
    width = max(float(training.frames.max()), 1.0) / bins if len(training) else 1.0
    part = np.minimum(training.frames // width, bins - 1)
    groups = training.assign(part=part).groupby(["agent", "task", "seed", "part"], sort=False)
    runs = groups[["frames", "score"]].mean().reset_index().groupby(["agent", "task", "part"])
    table = runs.agg(frames=("frames", "mean"), mean=("score", "mean"), low=("score", "min"), high=("score", "max"))
    return table.reset_index().sort_values("frames")


# --- tasks ---


def _title(task: str, names: Sequence[str], letter: str = "w′") -> str:
    """A task in words, if the objects have names, above its digits."""
    digits = f"{letter} = {task.replace('-', '−').replace(',', ', ')}"
    w = parse_task(task)
    return f"{describe_task(w, names[: len(w)])}\n{digits}" if names else digits


# --- curves ---


def _zero_shot(axes: Axes, mine: pd.DataFrame, keys: Sequence[Key]) -> None:
    below = []
    for index, key in enumerate(keys):
        look, table = method(*key), rows_of(mine, key).sort_values("frames")
        frames = table.frames / _MILLION
        axes.plot(frames, table["mean"], color=look.colour, ls=look.line, lw=1.1, label=look.label)
        for row in last_snapshot(table).itertuples(index=False):
            _end(axes, (1.05 + 0.035 * index) * row.frames / _MILLION, row, look)
            if row.mean < _LOWEST:
                below.append(f"{look.label} −{-row.mean:.1f} ↓")
    if below:
        axes.text(0.16, 0.3, "\n".join(below), transform=axes.transAxes, fontsize=7, color=INK)


def _end(axes: Axes, x: float, row: Any, look: Method) -> None:
    """Draw the last mean to the right of its curve, and its interval, if there is one."""
    if not np.isnan(row.low):
        axes.plot((x, x), (row.low, row.high), color=look.colour, lw=1, label="_interval")
    axes.plot([x], [row.mean], color=look.colour, marker=look.marker, ms=3.2, mew=0, ls="", label="_end")


def _scale(axes: Axes) -> None:
    """Set the scale from the random policy (0) to the oracle (1)."""
    for height, policy, line in ((1, "oracle", "--"), (0, "random", ":")):
        axes.axhline(height, color=INK, ls=line, lw=0.8, label=policy, zorder=1)
    axes.set(ylim=(_LOWEST, 1.08), yticks=(0, 0.5, 1))


def _range(yardstick: pd.DataFrame, task: str) -> str:
    """The returns of random policy and oracle."""
    random, oracle = (round(_level(yardstick, task)[policy]) for policy in ("random", "oracle"))
    return f"{random} to {oracle}".replace("-", "−")


def _behaviour(axes: Axes, binned: pd.DataFrame, looks: Mapping[str, Method]) -> None:
    for index, (agent, look) in enumerate(looks.items()):
        mine = binned[binned.agent == agent]
        if len(mine):
            axes.plot(mine.frames / _MILLION, mine["mean"], color=look.colour, ls=look.line, lw=1.1, label=look.label)
            for row in mine.tail(1).itertuples(index=False):
                _end(axes, (1.04 + 0.03 * index) * row.frames / _MILLION, row, look)


def _ends(binned: pd.DataFrame, looks: Mapping[str, Method]) -> list[tuple[float, str, str]]:
    """Last mean, label and colour of each agent."""
    last = binned.groupby("agent")["mean"].last()
    return [(last[agent], look.label, look.colour) for agent, look in looks.items() if agent in last]


def _levels(yardstick: pd.DataFrame, task: str) -> list[tuple[float, str, str]]:
    return [(value, policy, INK) for policy, value in _level(yardstick, task).items() if policy in ("oracle", "random")]


def _returns_axis(axes: Axes, yardstick: pd.DataFrame, task: str) -> None:
    """Draw the levels of oracle and random policy, both inside the axes."""
    level = _level(yardstick, task)
    axes.axhline(level["oracle"], color=INK, ls="--", lw=0.8, label="oracle", zorder=1)
    axes.axhline(level["random"], color=INK, ls=":", lw=0.8, label="random", zorder=1)
    axes.set_ylim(min(0, level["random"], axes.dataLim.y0), 1.08 * max(level["oracle"], axes.dataLim.y1))
    axes.locator_params(axis="y", nbins=5)


def _name_levels(axes: Axes, yardstick: pd.DataFrame, task: str) -> None:
    for value, policy, colour in _levels(yardstick, task):
        axes.annotate(policy, (0, value), xytext=(2, 1), textcoords="offset points", fontsize=7, color=colour)


def _time_axis(axes: Axes, frames: pd.Series) -> None:
    """Start at 0 and put no ticks beyond the last frame, where only the ends are drawn."""
    last = float(frames.max()) / _MILLION if len(frames) else 1.0
    axes.set_xticks([tick for tick in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(0, last) if tick <= 1.001 * last])
    axes.set_xlim(left=0)


# --- rows of dots ---


def _changes(
    panels: Sequence[Axes],
    summary: pd.DataFrame,
    yardstick: pd.DataFrame,
    names: Sequence[str],
    methods: tuple[Sequence[Key], Sequence[Key]],
) -> None:
    """Draw a panel for each candidate set, with a row for each hard task and the scores of two methods."""
    mine = summary[(summary.measure == "normalised") & (summary.task_set == "room-hard")]
    tasks = [*_tasks(yardstick, "room-hard"), "all"]
    for axes, before, after in zip(panels, *methods, strict=True):
        places = _task_rows(axes, tasks, names)
        for task, place in zip(tasks, places, strict=True):
            ends = [last_snapshot(rows_of(mine[mine.task == task], key)) for key in (before, after)]
            _change(axes, place, *ends)
        axes.set_title(METHODS[before].label.removeprefix("USFA, "))
    panels[len(panels) // 2].set_xlabel(f"{_NORMALISED} after training")


def _task_rows(axes: Axes, tasks: Sequence[str], names: Sequence[str]) -> list[float]:
    """Set up a row for each hard task and, set off, one for "all"; return their heights."""
    places = [*map(float, range(len(tasks) - 1)), len(tasks) - 0.5]
    for level, line in ((0, ":"), (1, "--")):
        axes.axvline(level, color=INK, ls=line, lw=0.8, zorder=1)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set(xlim=(_LOWEST, 1.08), xticks=(0, 0.5, 1))
    axes.set_yticks(places, [*(_row(task, names) for task in tasks[:-1]), "all hard tasks"])
    axes.set_ylim(places[-1] + 0.6, -0.6)
    return places


def _row(task: str, names: Sequence[str]) -> str:
    return _title(task, names).splitlines()[0]


def _scores_in_row(axes: Axes, place: float, shown: Sequence[tuple[Method, pd.DataFrame]]) -> None:
    """Draw scores below each other in a row; write those beyond the left end of the axis as text."""
    below = []
    for index, (look, table) in enumerate(shown):
        height = place + 0.16 * (index - (len(shown) - 1) / 2)
        for row in table.itertuples(index=False):
            if row.mean < _LOWEST:
                below.append(f"{look.label} −{-row.mean:.2f}")
                continue
            if not np.isnan(row.low):
                axes.plot((row.low, row.high), (height, height), color=look.colour, lw=1, label="_interval")
            axes.plot([row.mean], [height], color=look.colour, marker=look.marker, ms=4.5, mew=0, label=look.label)
    if below:
        axes.text(0.02, place - 0.3, "◂ " + ", ".join(below), va="center", fontsize=7, color=INK)


def _greedy(yardstick: pd.DataFrame, tasks: Sequence[str]) -> float:
    """Normalised score of the greedy policy on hard tasks: Σ(greedy − random) / Σ(oracle − random)."""
    hard = yardstick[(yardstick.set == "room-hard") & yardstick.task.isin(tasks)]
    sums = hard.groupby("policy")["mean"].sum()
    return float((sums["greedy"] - sums["random"]) / (sums["oracle"] - sums["random"]))


def _change(axes: Axes, place: float, before: pd.DataFrame, after: pd.DataFrame) -> None:
    """Draw the score of one method below that of the other, each with its 95 % interval."""
    for table, colour, shift in ((before, _FEW, 0.15), (after, _MANY, -0.15)):
        for row in table.itertuples(index=False):
            axes.plot((row.low, row.high), (place + shift, place + shift), color=colour, lw=1, label="_interval")
            axes.plot([row.mean], [place + shift], "o", color=colour, ms=4.2, mew=0, label="_end")
    if len(before) and len(after):
        ends = [float(table["mean"].iloc[0]) for table in (before, after)]
        axes.plot(ends, (place + 0.15, place - 0.15), color="#BBBBBB", lw=0.8, zorder=1, label="_change")


def _from_to(before: str, after: str) -> list[tuple[str, Method]]:
    return [(before, Method("", _FEW, line="")), (after, Method("", _MANY, line=""))]


def _legend(figure: Figure, entries: Sequence[tuple[str, Method]]) -> None:
    """Draw one legend for all panels, above them."""
    handles = []
    for label, look in entries:
        handle = Line2D([], [], color=look.colour, marker=look.marker, ls=look.line, ms=4, lw=1.1, label=label)
        handle.set_markeredgewidth(1 if look.marker == "|" else 0)  # "|" is nothing but an edge
        handles.append(handle)
    if handles:
        figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 3))


def _places(groups: Sequence[Sequence[Key]]) -> dict[Key, float]:
    """Place rows from top to bottom, with a gap between groups."""
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
    axes.axvline(0, color=INK, ls=":", lw=1)
    if highest > 0.4:
        axes.axvline(1, color=INK, ls="--", lw=1)
    highest = max(highest, 1.0 if highest > 0.4 else 0.1)
    axes.tick_params(axis="y", length=0)
    for key, place in places.items():
        look = method(*key)
        for row in rows_of(final, key).itertuples(index=False):
            axes.plot([row.low, row.high], [place, place], color=look.colour, lw=4, alpha=0.4, solid_capstyle="butt")
            axes.plot([row.mean], [place], color=look.colour, marker=look.marker, ms=4.5, mew=0)
            axes.text(1.24 * highest, place, f"{row.mean:.2f}", ha="right", va="center", fontsize=7.5, color=INK)
    axes.set_xlim(right=1.27 * highest)

"""`usfa front`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from usfa.agents import TrainedAgent
from usfa.cli.options import Front
from usfa.cli.tables import print_table
from usfa.cli.terminal import print_lines, progress_console
from usfa.environments import feature_names
from usfa.errors import InputError, counted
from usfa.evaluation import (
    environments_of,
    front_indicators,
    front_of,
    known_front,
    known_table,
    read_known_table,
    reference_point,
    write_table,
)
from usfa.figures import FORMATS, save_all
from usfa.figures.fronts import FIGURES, all_figures
from usfa.files import require_free
from usfa.registry import import_modules
from usfa.runs import load
from usfa.tasks import parse_tasks

__all__ = ["run"]


def run(command: Front) -> None:
    import_modules([command.rule])
    agent = load(command.run, command.seed, command.trust)
    _check(command, agent.file.spec.features)
    known = _known(command, agent)
    front = front_of(
        agent,
        command.preferences,
        command.candidates,
        command.rule,
        known=known,
        gamma=command.gamma,
        episodes=command.episodes,
        epsilon=command.epsilon,
        seed=command.rng,
        break_loops=command.break_loops,
        trust=command.trust,
        console=progress_console(),
    )
    indicators = front_indicators(front, known, command.reference)
    names = command.names or _names(command, agent)
    _write(command, front, known, indicators, names)
    _print(command, agent, front, known, indicators, names)


def _check(command: Front, features: int) -> None:
    """Check the options that are used after the episodes."""
    if command.reference is not None:
        reference_point(command.reference, features)
    if command.names and len(command.names) != features:
        given = counted(len(command.names), "entry", "entries")
        raise InputError(f"--names has {given}; expected {features}, one per feature.")
    if command.path.exists() and not command.path.is_dir():
        raise InputError(f"{command.path} is a file; expected a directory for the results.")
    for path in _results(command):
        require_free(path, command.overwrite)


def _results(command: Front) -> list[Path]:
    """All files that may be written."""
    tables = [command.path / f"{name}.csv" for name in ("front", "known", "indicators")]
    return [*tables, *(command.path / "figures" / f"{name}.{form}" for name in FIGURES for form in FORMATS)]


def _known(command: Front, agent: TrainedAgent) -> NDArray[np.float64] | None:
    if command.known == "none":
        return None
    if command.known == "env":
        return known_front(agent, command.preferences, gamma=command.gamma, trust=command.trust)
    features = agent.file.spec.features
    if command.known.endswith(".csv"):
        return read_known_table(Path(command.known), features)
    expected = f"expected env, none, values such as 0.7,-1;8.2,-3 with {features} numbers each, or a CSV of them"
    wrong = InputError(f"--known is {command.known!r}; {expected}.")
    if command.known[:1].isalpha():  # the name of a set of tasks
        raise wrong
    try:
        return parse_tasks(command.known, features)
    except InputError as problem:
        raise wrong from problem


def _names(command: Front, agent: TrainedAgent) -> tuple[str, ...]:
    with environments_of(agent, command.trust).opened() as env:
        return feature_names(env)


def _write(
    command: Front,
    front: pd.DataFrame,
    known: NDArray[np.float64] | None,
    indicators: pd.DataFrame,
    names: tuple[str, ...],
) -> None:
    possible = None if known is None else known_table(known)
    tables = {"front": front, "known": possible, "indicators": indicators}
    written = {command.path / f"{name}.csv": table for name, table in tables.items() if table is not None}
    figures = all_figures(front, possible, indicators, names)
    for path in _results(command):
        path.unlink(missing_ok=True)  # left by an earlier call, which may have written others
    for path, table in written.items():
        write_table(path, table)
    save_all(figures, command.path / "figures")


def _print(
    command: Front,
    agent: TrainedAgent,
    front: pd.DataFrame,
    known: NDArray[np.float64] | None,
    indicators: pd.DataFrame,
    names: tuple[str, ...],
) -> None:
    print_table(_shown(indicators), repr(agent))
    print_lines(
        f"Objectives 1 to {len(names)}: {', '.join(names)}.",
        "agent: each preference uses its own policy; set: each uses the best policy of all preferences.",
        "No known front, and so no utility loss: give one with --known." if known is None else "",
        _beyond(front),
        "No hypervolume: it needs a --reference point." if command.reference is None else "",
        f"Front: {command.path / 'front.csv'}   figures: {command.path / 'figures'}",
    )


def _beyond(front: pd.DataFrame) -> str:
    """Warn if preferences exceed the known front by more than the noise of the episodes.

    The std of few episodes is often far too small, so it counts as at least the root mean square over all preferences.
    """
    std = np.maximum(front["std"], np.sqrt((front["std"] ** 2).mean()))
    slack = 5 * std / np.sqrt(front.episodes) + 1e-5 * front.optimal.abs() + 1e-6
    count = int((front.utility - front.optimal > slack).sum())
    luck = ", or one episode each was luck" if front.episodes.iloc[0] == 1 else ""
    reason = f"it is not complete, or belongs to another γ{luck}"
    return f"{count} of {len(front)} preferences get more than the known front has: {reason}." if count else ""


def _shown(indicators: pd.DataFrame) -> pd.DataFrame:
    """The indicators that have values, with columns that fit into a terminal."""
    indicators = indicators.dropna(how="all", subset=["agent", "best_of_set", "known"])
    return pd.DataFrame(
        {
            "indicator": indicators.indicator.str.replace("utility loss", "loss"),
            "agent": indicators.agent,
            "set": indicators.best_of_set,
            "known": indicators.known,
            "γ": [f"{gamma:g}" for gamma in indicators.gamma],
            "reference": indicators.reference,
            "w × episodes": [f"{row.preferences} × {row.episodes}" for row in indicators.itertuples()],
        }
    )

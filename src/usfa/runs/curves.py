"""Tables of learning curves, from the scores of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from usfa.errors import InputError
from usfa.evaluation import summarise
from usfa.runs.config import TrainConfig
from usfa.runs.directory import RunDirectory

__all__ = ["compared", "curves_of"]


def curves_of(scores: pd.DataFrame) -> pd.DataFrame:
    """Mean score and 95 % interval over seeds of each snapshot: columns label (C and rule), task_set, frames, …

    Rules that only the last snapshot was scored with have no curve, unless this holds for all of them.
    """
    several = scores.groupby("rule").snapshot.transform("nunique") > 1
    kept = scores[several] if several.any() else scores
    table = summarise(kept, ["candidates", "rule", "task_set", "snapshot"], "score")
    frames = kept.groupby(["candidates", "rule", "task_set", "snapshot"], sort=False).frames.mean().reset_index()
    table = table.merge(frames, on=["candidates", "rule", "task_set", "snapshot"])
    return table.assign(label="C = " + table.candidates + ", " + table.rule)


def compared(paths: Sequence[Path], candidates: str | None = None, rule: str | None = None) -> pd.DataFrame:
    """Curves of several runs with one candidate set and rule, labelled by directory.

    Runs whose configurations differ only in their seeds are pooled under the name of the first.

    Args:
        paths: run directories with scores.
        candidates: the candidate set; by default the first that all runs were scored with.
        rule: the decision rule; by default likewise.
    """
    pooled: dict[Path, tuple[TrainConfig, dict[Path, pd.DataFrame]]] = {}
    for path in paths:
        run = RunDirectory(path)
        config = replace(run.config(TrainConfig), seeds=(0,))
        if not run.scores.exists():
            raise InputError(f"The run in {path} is not finished and has no scores; continue it with --resume.")
        same = next((first for first, (known, _) in pooled.items() if known == config), path)
        members = pooled.setdefault(same, (config, {}))[1]
        if path in members:
            raise InputError(f"The run in {path} was given twice; expected each run once.")
        members[path] = run.read_scores()
    tables = {path: _joined(members) for path, (_, members) in pooled.items()}
    chosen = [_common(tables, column, wanted) for column, wanted in {"candidates": candidates, "rule": rule}.items()]
    curves = []
    for path, table in tables.items():
        own = table[(table.candidates == chosen[0]) & (table.rule == chosen[1])]
        curves.append(curves_of(own).assign(label=str(path)))
    return pd.concat(curves, ignore_index=True)


def _joined(members: Mapping[Path, pd.DataFrame]) -> pd.DataFrame:
    """The scores of runs that differ only in their seeds."""
    owners: dict[int, Path] = {}
    for path, scores in members.items():
        for seed in scores.seed.unique():
            if (other := owners.setdefault(seed, path)) != path:
                raise InputError(f"The runs in {other} and {path} both have seed {seed}; expected each seed once.")
    return pd.concat(members.values(), ignore_index=True)


def _common(tables: dict[Path, pd.DataFrame], column: str, wanted: str | None) -> str:
    """Return the wanted value of a column, by default the first that all tables have; InputError if one lacks it."""
    known = [list(dict.fromkeys(table[column])) for table in tables.values()]
    common = [value for value in known[0] if all(value in others for others in known)]
    if wanted is None and common:
        return str(common[0])
    if wanted is None or wanted not in common:
        raise InputError(f"--{column} is {wanted}; expected one that all runs were scored with: {common or 'none'}.")
    return wanted

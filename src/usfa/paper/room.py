"""Sections 4.2 and 4.3, Appendices C and D: zero-shot generalisation in the room."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pandas as pd
from rich.console import Console

from usfa.decisions import PAPER_RULE
from usfa.environments.room import OBJECTS
from usfa.environments.room.yardstick import read_yardstick
from usfa.errors import InputError, unknown_name
from usfa.evaluation import read_scores
from usfa.figures.room import all_figures
from usfa.learning import Precision
from usfa.paper.experiment import Job, RunsFailed, run_jobs, write_results
from usfa.paper.room_report import room_report, settings_of, summary_of
from usfa.progress import progress_bar
from usfa.runs.config import TrainConfig
from usfa.runs.directory import OnExisting, RunDirectory
from usfa.runs.presets import ROOM_VARIANTS, preset

__all__ = ["RoomExperiment", "reproduce_room"]


@dataclass(frozen=True)
class RoomExperiment:
    """The settings of the room experiment."""

    preset: Literal["room-laptop", "room-paper"] = "room-laptop"
    """Preset for the size of images, networks and training."""
    variants: tuple[str, ...] = tuple(ROOM_VARIANTS)
    """Agents to train."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Random seeds; one run of every variant for each."""
    frames: int | None = None
    """Training frames per run; by default those of the preset."""
    snapshots: int = 5
    """Number of snapshots of each run that are scored, besides the initial one."""
    precision: Precision = "fp32"
    """Numerical precision, the same for all runs so that they are comparable."""

    def __post_init__(self) -> None:
        for variant in self.variants:
            if variant not in ROOM_VARIANTS:
                raise unknown_name("variant", variant, ROOM_VARIANTS)
        if not self.variants or len(set(self.variants)) < len(self.variants):
            raise InputError(f"variants are {self.variants}; expected one or more different ones.")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"seeds are {self.seeds}; expected one or more different ones.")
        for variant in self.variants:
            self.config(variant, self.seeds[0])

    def config(self, variant: str, seed: int) -> TrainConfig:
        """The preset of a variant with this experiment's settings."""
        base = preset(self.preset + ROOM_VARIANTS[variant])
        return replace(
            base,
            seeds=(seed,),
            precision=self.precision,
            learner=replace(base.learner, budget=base.learner.budget if self.frames is None else self.frames),
            evaluation=replace(base.evaluation, snapshots=self.snapshots),
        )

    def jobs(self, path: Path) -> list[Job]:
        """A job for every variant and seed, ordered by seed."""
        return [
            Job(variant, self.config(variant, seed), path / "runs" / f"{variant}-seed-{seed}")
            for seed in self.seeds
            for variant in self.variants
        ]


def reproduce_room(
    experiment: RoomExperiment,
    path: Path,
    existing: OnExisting = "refuse",
    console: Console | None = None,
    at_once: int | None = None,
) -> RunDirectory:
    """Train and score all variants with all seeds, draw the figures and write the report.

    Args:
        experiment: the settings.
        path: the directory; `runs/` in it holds a run directory for each variant and seed.
        existing: what to do if it already holds an experiment.
        console: where to show progress.
        at_once: number of runs to train in parallel; by default one per core.
    """
    jobs = experiment.jobs(path)
    if at_once is None:
        at_once = max(1, (os.cpu_count() or 1) // jobs[0].config.threads)
    if at_once < 1:
        raise InputError(f"at_once is {at_once}; expected at least 1 run at a time.")
    with RunDirectory.opened(path, experiment, existing) as run:
        try:
            run_jobs(jobs, at_once, console)
        except RunsFailed:
            _write_results(experiment, run, jobs, console)  # of the runs that are finished
            raise
        _write_results(experiment, run, jobs, console)
    return run


def _write_results(experiment: RoomExperiment, run: RunDirectory, jobs: list[Job], console: Console | None) -> None:
    finished = [job for job in jobs if job.finished]
    if not finished:
        return
    with progress_bar("figures and report", 1, "steps", console) as bar:
        yardstick = read_yardstick()
        scores = pd.concat([read_scores(RunDirectory(job.path).scores) for job in finished], ignore_index=True)
        training = pd.concat([_behaviour(job) for job in finished], ignore_index=True)
        summary = summary_of(scores, yardstick)
        settings = settings_of({name: experiment.config(name, experiment.seeds[0]) for name in experiment.variants})
        write_results(
            run,
            {"scores": scores, "training": training, "summary": summary},
            all_figures(training, summary[summary.rule == PAPER_RULE], yardstick, [kind.name for kind in OBJECTS]),
            room_report(scores, training, summary, yardstick, settings),
        )
        bar.update(1)


def _behaviour(job: Job) -> pd.DataFrame:
    """ε-greedy returns during training: agent, seed, task, frames, score."""
    rows: Iterable[tuple[str, int, str, float, float]] = (
        (job.name, job.config.seeds[0], task, line["frames"], score)
        for line in RunDirectory(job.path).read_metrics()
        for task, score in (line["returns"] or {}).items()
    )
    return pd.DataFrame(rows, columns=["agent", "seed", "task", "frames", "score"])

"""Sections 4.2 and 4.3, Appendices C and D end to end: zero-shot generalisation in the room."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pandas as pd
from rich.console import Console

from usfa.decisions import PAPER_RULE
from usfa.environments.room.scale import read_yardstick
from usfa.errors import InputError, unknown_name
from usfa.evaluation import read_scores, write_table
from usfa.figures import room as figures
from usfa.figures import save
from usfa.files import write_atomically
from usfa.learning import Precision
from usfa.paper.plan import Job, RunsFailed, run_jobs
from usfa.paper.room_report import room_report, settings_of
from usfa.paper.room_tables import summary_of
from usfa.progress import progress_bar
from usfa.runs.config import TrainConfig
from usfa.runs.directory import OnExisting, RunDirectory
from usfa.runs.presets import ROOM_VARIANTS, preset

__all__ = ["RoomExperiment", "reproduce_room"]


@dataclass(frozen=True)
class RoomExperiment:
    """What is trained, and for how long."""

    preset: Literal["room-laptop", "room-paper"] = "room-laptop"
    """The size of everything."""
    variants: tuple[str, ...] = tuple(ROOM_VARIANTS)
    """Which agents."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """A run for each."""
    frames: int | None = None
    """Training per run; by default what the preset says."""
    snapshots: int = 5
    """How often each run is frozen and scored, besides the beginning."""
    precision: Precision = "fp32"
    """The same for all runs, which would not be comparable if each measured what is faster."""

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
        """The preset of a variant with this experiment's numbers."""
        base = preset(self.preset + ROOM_VARIANTS[variant])
        return replace(
            base,
            seeds=(seed,),
            precision=self.precision,
            learner=replace(base.learner, budget=base.learner.budget if self.frames is None else self.frames),
            evaluation=replace(base.evaluation, snapshots=self.snapshots),
        )

    def jobs(self, path: Path) -> list[Job]:
        """Every variant with every seed; a seed is finished for all before the next begins."""
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
    """Train and score all variants with all seeds, draw every figure and write the report.

    Args:
        experiment: what to train.
        path: the directory; `runs/` inside it has a run directory for each variant and seed.
        existing: what to do if it already holds an experiment.
        console: where to show progress.
        at_once: how many runs train at the same time; by default one for each core.
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
            _write_results(experiment, run, jobs, console)  # of all others
            raise
        _write_results(experiment, run, jobs, console)
    return run


def _write_results(experiment: RoomExperiment, run: RunDirectory, jobs: list[Job], console: Console | None) -> None:
    finished = [job for job in jobs if job.finished]
    if not finished:
        return
    with progress_bar("figures and report", 1, "steps", console) as bar:
        _write_tables(experiment, run, finished)
        bar.update(1)


def _write_tables(experiment: RoomExperiment, run: RunDirectory, jobs: list[Job]) -> None:
    yardstick = read_yardstick()
    scores = pd.concat([read_scores(RunDirectory(job.path).scores) for job in jobs], ignore_index=True)
    training = pd.concat([_behaviour(job) for job in jobs], ignore_index=True)
    summary = summary_of(scores, yardstick)
    for name, table in {"scores": scores, "training": training, "summary": summary}.items():
        write_table(run.path / f"{name}.csv", table)
    for name, figure in figures.all_figures(training, summary[summary.rule == PAPER_RULE], yardstick).items():
        save(figure, run.figures / f"{name}.png")
    settings = settings_of({name: experiment.config(name, experiment.seeds[0]) for name in experiment.variants})
    write_atomically(run.path / "report.md", room_report(scores, training, summary, yardstick, settings).encode())


def _behaviour(job: Job) -> pd.DataFrame:
    """What the ε-greedy agent earned while it learned: agent, seed, task, frames, score."""
    rows: Iterable[tuple[str, int, str, float, float]] = (
        (job.name, job.config.seeds[0], task, line["frames"], score)
        for line in RunDirectory(job.path).read_metrics()
        for task, score in (line["returns"] or {}).items()
    )
    return pd.DataFrame(rows, columns=["agent", "seed", "task", "frames", "score"])

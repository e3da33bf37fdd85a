"""Train the runs of an experiment, in turn or in parallel processes, and write its results."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console

from usfa.agents.agent_files import part_texts
from usfa.errors import InputError, Interrupted
from usfa.evaluation import csv_bytes
from usfa.figures import FORMATS, save_all
from usfa.progress import interruptible, progress_bar
from usfa.records import to_json
from usfa.registry import import_modules, without_working_directory
from usfa.runs.config import TrainConfig
from usfa.runs.directory import RunDirectory
from usfa.runs.training import train

__all__ = ["Job", "RunsFailed", "run_jobs", "train_in_turn", "write_results"]

POLL_SECONDS = 0.5


def train_in_turn(path: Path, configs: Mapping[str, TrainConfig], console: Console | None) -> pd.DataFrame:
    """Train each named configuration in `path/NAME`, resuming runs that were begun; return the scores of all."""
    runs = [train(config, path / name, "resume", console, name=name) for name, config in configs.items()]
    return pd.concat([run.read_scores() for run in runs], ignore_index=True)


def write_results(
    run: RunDirectory, tables: Mapping[str, pd.DataFrame], figures: Mapping[str, Figure], report: str
) -> None:
    """Write NAME.csv for each table, figures/NAME.png and NAME.pdf for each figure, and report.md."""
    for name, table in tables.items():
        run.write(f"{name}.csv", csv_bytes(table))
    run.claim(*(f"figures/{name}.{form}" for name in figures for form in FORMATS))
    save_all(figures, run.figures)
    run.write("report.md", report.encode())  # last: it marks the experiment as finished


class Job(NamedTuple):
    """A run to train and score in a process of its own."""

    name: str  # of the agent in the table of scores
    config: TrainConfig
    path: Path

    @property
    def finished(self) -> bool:
        return RunDirectory(self.path).scores.exists()

    @property
    def done(self) -> float:
        """The used part of the budget, according to the run's log."""
        learner = self.config.learner
        if self.finished:
            return learner.budget
        return min(RunDirectory(self.path).last_metrics().get(learner.budget_unit, 0.0), learner.budget)

    def __str__(self) -> str:
        share = self.done / self.config.learner.budget
        return f"{self.name} {self.config.seeds[0]}: {'scoring' if share >= 0.999 else f'{share:.0%}'}"


class RunsFailed(InputError):
    """Some runs failed; all others are finished."""


def run_jobs(jobs: Sequence[Job], at_once: int, console: Console | None = None) -> None:
    """Train all unfinished jobs, `at_once` in parallel, resuming those that were begun.

    Ctrl-C saves and stops all of them. If one fails the others continue, and RunsFailed is raised at the end. The
    processes stop when their parent dies. Raises InputError if a finished run has a different configuration.
    """
    for job in jobs:
        if job.finished:  # `train` checks the others
            RunDirectory(job.path).check(job.config, "resume")
    waiting = [job for job in jobs if not job.finished]
    active: list[_Worker] = []
    failures: list[str] = []
    learner = jobs[0].config.learner
    total = sum(job.config.learner.budget for job in jobs)
    with (
        progress_bar(f"{len(jobs)} runs", total, learner.budget_unit, console) as bar,
        interruptible() as interrupted,
    ):
        bar.update(sum(job.done for job in jobs))
        try:
            while (waiting or active) and not interrupted.is_set():
                while waiting and len(active) < at_once:
                    active.append(_Worker(waiting.pop(0)))
                time.sleep(POLL_SECONDS)
                ended = [worker for worker in active if not worker.process.is_alive()]
                failures += filter(None, (worker.failure() for worker in ended))
                active = [worker for worker in active if worker not in ended]
                bar.update(sum(job.done for job in jobs), ", ".join(str(worker.job) for worker in active))
        finally:
            for worker in active:
                worker.process.terminate()
            for worker in active:
                worker.process.join()
    if interrupted.is_set():
        raise Interrupted("Stopped. All runs are saved; repeat the command with --resume to continue.")
    if failures:
        raise RunsFailed(" ".join(failures))


class _Worker:
    """A process with one job, and a pipe for its error message."""

    def __init__(self, job: Job) -> None:
        self.job = job
        context = multiprocessing.get_context("spawn")
        self._errors, errors = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(target=_work, args=(job, errors, os.getpid()), name=str(job.path))
        with without_working_directory():
            self.process.start()
        errors.close()

    def failure(self) -> str:
        """The error message of a process that has ended; empty if it succeeded."""
        if not self.process.exitcode:
            return ""
        try:
            sentence = self._errors.recv()
        except EOFError:  # killed, or an unexpected exception
            sentence = f"its process ended with exit code {self.process.exitcode}."
        return f"The run in {self.job.path} failed: {sentence}"


def _work(job: Job, errors: Connection, parent: int) -> None:
    _stop_with(parent)
    import_modules(part_texts(to_json(job.config)))  # as the parent did
    try:
        train(job.config, job.path, "resume", name=job.name)
    except (InputError, Interrupted) as error:
        errors.send(str(error))
        sys.exit(2)


def _stop_with(parent: int) -> None:
    """Leave Ctrl-C to the parent; when the parent dies, receive SIGTERM, which saves and stops the run."""
    os.setpgid(0, 0)
    if sys.platform == "linux":
        set_parent_death_signal = 1  # from linux/prctl.h
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)
    if os.getppid() != parent:  # the parent died before the signal was requested
        sys.exit(2)

"""Several training runs, some at a time, each in a process of its own."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from usfa.errors import InputError, Interrupted
from usfa.progress import interruptible, progress_bar
from usfa.runs.config import TrainConfig
from usfa.runs.directory import RunDirectory
from usfa.runs.training import train

__all__ = ["Job", "RunsFailed", "run_jobs"]

POLL_SECONDS = 0.5


class Job(NamedTuple):
    """A run to be trained and scored."""

    name: str  # of the agent in the table of scores
    config: TrainConfig
    path: Path

    @property
    def finished(self) -> bool:
        return RunDirectory(self.path).scores.exists()

    @property
    def done(self) -> float:
        """How much of the budget is used, as far as the log says."""
        learner = self.config.learner
        if self.finished:
            return learner.budget
        return min(RunDirectory(self.path).last_metrics().get(learner.budget_unit, 0.0), learner.budget)

    def __str__(self) -> str:
        share = self.done / self.config.learner.budget
        return f"{self.name} {self.config.seeds[0]}: {'scoring' if share >= 0.999 else f'{share:.0%}'}"


def run_jobs(jobs: Sequence[Job], at_once: int, console: Console | None = None) -> None:
    """Do what is not done yet; what was begun goes on where it stood. InputError if something else was done there.

    On Ctrl-C all are stopped and saved. When one fails the others go on, and RunsFailed is raised in the end. Nothing
    here outlives a killed parent.
    """
    for job in jobs:
        if job.finished:  # of the others, each looks for itself
            RunDirectory(job.path).check(job.config, "resume")
    waiting = [job for job in jobs if not job.finished]
    active: list[_Worker] = []
    failures: list[str] = []
    total = sum(job.config.learner.budget for job in jobs)
    unit = jobs[0].config.learner.budget_unit
    with progress_bar(f"{len(jobs)} runs", total, unit, console) as bar, interruptible() as interrupted:
        bar.update(sum(job.done for job in jobs))
        try:
            while (waiting or active) and not interrupted.is_set():
                while waiting and len(active) < at_once:
                    active.append(_Worker(waiting.pop(0)))
                time.sleep(POLL_SECONDS)
                ended = [worker for worker in active if not worker.process.is_alive()]
                failures += filter(None, (worker.failure() for worker in ended))
                active = [worker for worker in active if worker not in ended]
                note = ", ".join(str(worker.job) for worker in active)
                bar.update(sum(job.done for job in jobs), note)
        finally:
            for worker in active:
                worker.process.terminate()
            for worker in active:
                worker.process.join()
    if interrupted.is_set():
        raise Interrupted("Stopped, all runs are saved; the same command with --resume goes on.")
    if failures:
        raise RunsFailed(" ".join(failures))


class RunsFailed(InputError):
    """Some runs failed; all others are done."""


class _Worker:
    """A process with one job, and the pipe by which it says what was wrong."""

    def __init__(self, job: Job) -> None:
        self.job = job
        context = multiprocessing.get_context("spawn")
        self._told, told = context.Pipe(duplex=False)
        self.process: BaseProcess = context.Process(target=_work, args=(job, told, os.getpid()), name=str(job.path))
        self.process.start()
        told.close()

    def failure(self) -> str:
        """What went wrong, when it has ended; nothing if all went well."""
        if not self.process.exitcode:
            return ""
        try:
            sentence = self._told.recv()
        except EOFError:  # killed, or an error that nobody has a sentence for
            sentence = f"its process ended with exit code {self.process.exitcode}."
        return f"The run in {self.job.path} failed: {sentence}"


def _work(job: Job, told: Connection, parent: int) -> None:
    _stop_with(parent)
    try:
        train(job.config, job.path, "resume", name=job.name)
    except (InputError, Interrupted) as error:
        told.send(str(error))
        sys.exit(2)


def _stop_with(parent: int) -> None:
    """Be told to save and stop when the parent wants it or dies, and only then: Ctrl-C is the parent's."""
    os.setpgid(0, 0)
    if sys.platform == "linux":
        set_parent_death_signal = 1  # from linux/prctl.h
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)
    if os.getppid() != parent:  # it died before this could be told
        sys.exit(2)

"""metrics.jsonl: how training goes, a line of means for every few rounds."""

from __future__ import annotations

import json
import os
import time
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from usfa.runs.directory import RunDirectory
from usfa.learning import Improver, Update
from usfa.tasks import format_task

__all__ = ["LOG_EVERY", "MetricsLog"]

LOG_EVERY = 20
"""Rounds per line."""


class MetricsLog:
    """Gathers updates and writes their means."""

    def __init__(self, run: RunDirectory, learner: Improver) -> None:
        self._path = run.metrics
        self._learner = learner
        self._recent: list[Update] = []
        self._started = time.monotonic()
        self.note = ""

    def __enter__(self) -> MetricsLog:
        self._file: TextIO = self._path.open("a")
        return self

    def __exit__(self, *_: object) -> None:
        with self._file:
            self._file.flush()
            os.fsync(self._file.fileno())  # the scores, written next, say that everything is there

    def write(self, update: Update) -> None:
        self._recent.append(update)
        if self._learner.rounds % LOG_EVERY:
            return
        loss = float(np.mean([recent.loss for recent in self._recent]))
        episode_phi = np.concatenate([recent.episode_phi for recent in self._recent])
        where = np.concatenate([recent.episode_environment for recent in self._recent])
        returns = self._returns(episode_phi, where)
        line = {
            "updates": self._learner.updates,
            "frames": float(self._learner.frames.mean()),
            "episodes": float(self._learner.episodes.mean()),
            "loss": loss,
            "gradient": float(np.mean([recent.gradient for recent in self._recent])),
            "episode_phi": episode_phi.mean(axis=0).tolist() if len(episode_phi) else None,
            "returns": returns or None,
            "seconds": round(time.monotonic() - self._started, 3),
        }
        report = self._learner.report()
        self._file.write(json.dumps(line | ({"cluster": report} if report else {})) + "\n")
        self._file.flush()
        self._recent.clear()
        self._tell(loss, returns)

    def _returns(self, episode_phi: NDArray[np.float64], where: NDArray[np.int64]) -> dict[str, float]:
        """The mean return of the episodes of each training task, where an environment keeps its task."""
        if self._learner.config.tasks != "fixed":
            return {}
        tasks = self._learner.training_tasks
        of_task = where % self._learner.config.environments % len(tasks)
        returns = np.einsum("kd,kd->k", episode_phi, tasks[of_task])
        return {
            format_task(w): float(returns[of_task == index].mean())
            for index, w in enumerate(tasks)
            if (of_task == index).any()
        }

    def _tell(self, loss: float, returns: dict[str, float]) -> None:
        """For the progress bar: the latest returns stay until there are new ones."""
        told = f"return {np.mean(list(returns.values())):.1f}" if returns else self.note.partition(", loss")[0]
        self.note = f"{told}, loss {loss:.4f}" if told.startswith("return") else f"loss {loss:.4f}"

"""Files written during training: metrics, checkpoints to resume from, and snapshots to score."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.errors import InputError, Interrupted, told
from usfa.files import LineFile
from usfa.learning import Learner, Update
from usfa.learning.layout import defect, layout_of
from usfa.networks import Parameters
from usfa.runs.directory import KEPT_CHECKPOINTS, RunDirectory
from usfa.tasks import format_task

__all__ = ["LOG_EVERY", "Checkpoints", "MetricsLog", "SnapshotWriter", "in_half"]

LOG_EVERY = 20
"""Rounds per line of metrics.jsonl."""


class MetricsLog:
    """Writes metrics.jsonl: a line of means for every few rounds."""

    def __init__(self, run: RunDirectory, learner: Learner) -> None:
        self._run = run
        self._learner = learner
        self._recent: list[Update] = []
        self._started = time.monotonic()
        self.note = ""
        self.score: float | None = None
        self._shown_return = ""

    def __enter__(self) -> MetricsLog:
        self._run.claim(self._run.metrics.name)
        self._file = LineFile(self._run.metrics)
        return self

    def __exit__(self, *_: object) -> None:
        with closing(self._file):
            self._file.sync()  # scores.csv, written later, marks the run as complete

    def write(self, update: Update) -> dict[str, Any] | None:
        """Add the outcome of a round; return the line that was written, if any."""
        self._recent.append(update)
        if self._learner.rounds % LOG_EVERY:
            return None
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
        line |= {} if self.score is None else {"score": self.score}
        report = self._learner.acting.report()
        line |= {"cluster": report} if report else {}
        self._file.append(line)
        self._recent.clear()
        self._set_note(loss, returns)
        return line

    def _returns(self, episode_phi: NDArray[np.float64], where: NDArray[np.int64]) -> dict[str, float]:
        """Mean return of the episodes of each training task, if the tasks of environments are fixed."""
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

    def _set_note(self, loss: float, returns: dict[str, float]) -> None:
        """Set the text next to the progress bar, with the score of the last snapshot, or the last returns."""
        if returns:
            self._shown_return = f"return {np.mean(list(returns.values())):.1f}, "
        if self.score is not None:
            self._shown_return = f"score {self.score:.4g}, "
        self.note = f"{self._shown_return}loss {loss:.4f}"


class SnapshotWriter:
    """Copies the parameters of each run when it reaches a milestone; writes the file when all runs have reached it.

    Runs count their own episodes, so they reach a milestone at different times.
    """

    def __init__(self, milestones: tuple[int, ...], run: RunDirectory, last_in_half: bool = False) -> None:
        """Write snapshots at the milestones into the run directory; `last_in_half` rounds the last one to fp16."""
        self._run = run
        self._waiting = list(milestones)
        self._in_half = {milestones[-1]} if last_in_half else set()
        self._open: dict[int, _OpenSnapshot] = {}

    def update(self, learner: Learner) -> list[int]:
        """Freeze the runs that have reached a milestone; call this after every step of the learner.

        Returns: the milestones that all runs have reached now, whose snapshots were written.
        """
        written = []
        for milestone in list(self._waiting):
            arrived = learner.progress >= milestone
            if not arrived.any():
                break
            snapshot = self._open.setdefault(milestone, _OpenSnapshot.empty(learner))
            snapshot.freeze(learner, arrived)
            if snapshot.filled.all():
                tensors = in_half(snapshot.tensors) if milestone in self._in_half else snapshot.tensors
                self._run.save_snapshot(milestone, tensors, snapshot.counters())
                self._waiting.remove(milestone)
                del self._open[milestone]
                written.append(milestone)
        return written

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {
            f"snapshot/{milestone}/{name}": tensor
            for milestone, snapshot in self._open.items()
            for name, tensor in snapshot.tensors.items()
        }
        open_snapshots = {
            str(milestone): {**snapshot.counters(), "filled": snapshot.filled.tolist()}
            for milestone, snapshot in self._open.items()
        }
        return tensors, {"waiting": self._waiting, "open": open_snapshots}

    def load_state(self, learner: Learner, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        waiting, taken = values["waiting"], values["open"]
        last = self._waiting[len(self._waiting) - len(waiting) :]
        if waiting != last or any(int(milestone) not in waiting for milestone in taken):
            raise ValueError(
                f"snapshots {waiting} are waiting, {list(taken)} begun; expected the last of {self._waiting}"
            )
        self._waiting = list(waiting)
        for text, counters in taken.items():
            prefix = f"snapshot/{text}/"
            mine = {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}
            self._open[int(text)] = _OpenSnapshot.restored(learner, mine, counters)


class _OpenSnapshot(NamedTuple):
    """A snapshot that some runs have not reached yet."""

    tensors: Parameters  # each [R, ...]
    filled: NDArray[np.bool_]  # [R]
    frames: NDArray[np.int64]  # [R]
    episodes: NDArray[np.int64]  # [R]

    @classmethod
    def empty(cls, learner: Learner) -> _OpenSnapshot:
        tensors = {name: _unknown(x) for name, x in learner.network.state.items()}
        counts = np.zeros_like(learner.frames)
        return cls(tensors, counts.astype(np.bool_), counts.copy(), counts.copy())

    @classmethod
    def restored(cls, learner: Learner, tensors: Parameters, counters: dict[str, list[int]]) -> _OpenSnapshot:
        """Make it from a checkpoint; raise ValueError if it does not fit the learner."""
        snapshot = cls.empty(learner)
        wrong = defect(tensors, layout_of(snapshot.tensors))
        if wrong:
            raise ValueError(f"in a snapshot, {wrong}")
        for name in ("filled", "frames", "episodes"):
            getattr(snapshot, name)[:] = counters[name]
        return snapshot._replace(tensors=tensors)

    @torch.no_grad()
    def freeze(self, learner: Learner, arrived: NDArray[np.bool_]) -> None:
        new = np.flatnonzero(arrived & ~self.filled)
        for name, tensor in self.tensors.items():
            tensor[new] = learner.best.state[name][new].to(tensor.device)
        self.frames[new] = learner.frames[new]
        self.episodes[new] = learner.episodes[new]
        self.filled[new] = True

    def counters(self) -> dict[str, Any]:
        return {"frames": self.frames.tolist(), "episodes": self.episodes.tolist()}


def in_half(parameters: Parameters) -> Parameters:
    """Weights rounded to fp16; raise InputError if they are too large for it."""
    rounded = {name: x.half() if x.is_floating_point() else x for name, x in parameters.items()}
    for name, x in rounded.items():
        if not bool(x.isfinite().all()):
            raise InputError(
                f"The parameter {name} has entries up to {parameters[name].abs().max():g}, which fp16 cannot hold; "
                "expected saved_weights fp32."
            )
    return rounded


class Checkpoints:
    """Saves and restores the state of a learner and of its open snapshots."""

    def __init__(self, run: RunDirectory, learner: Learner, snapshots: SnapshotWriter, every: int) -> None:
        self._run = run
        self._learner = learner
        self._snapshots = snapshots
        self._every = every
        self.saved_at = 0

    def resume(self) -> bool:
        """Restore the newest checkpoint; return False if there is none."""
        saved = self._run.load_checkpoint()
        if saved is not None:
            self._load(*saved)
        self.saved_at = self._learner.updates
        self._run.rewind_metrics(self.saved_at)
        return saved is not None

    def _load(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        try:
            self._learner.load_state(tensors, values["learner"])
            self._snapshots.load_state(self._learner, tensors, values["snapshots"])
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise InputError(
                f"The checkpoint in {self._run.path} does not fit its configuration: {told(error)}."
            ) from error

    @property
    def due(self) -> bool:
        return self._learner.rounds % self._every == 0

    def save(self) -> None:
        self._learner.check_parameters()
        learner_tensors, learner_values = self._learner.state()
        snapshot_tensors, snapshot_values = self._snapshots.state()
        values = {"learner": learner_values, "snapshots": snapshot_values}
        kept = 1 if self._learner.done else KEPT_CHECKPOINTS  # earlier ones are large if they contain a replay buffer
        self._run.save_checkpoint(self._learner.updates, {**learner_tensors, **snapshot_tensors}, values, kept)
        self.saved_at = self._learner.updates

    def stop(self) -> NoReturn:
        """Save a checkpoint, and raise Interrupted."""
        self.save()
        raise Interrupted(f"Stopped after {self._learner.updates} updates; the same command with --resume continues.")


def _unknown(x: Tensor) -> Tensor:
    """Make a tensor of the same shape, filled with NaN, or with 0 if its type has no NaN."""
    return torch.full_like(x, torch.nan if x.is_floating_point() else 0).detach()

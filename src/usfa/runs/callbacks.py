"""Callbacks: objects that watch a training and can stop it. TensorBoard and Weights & Biases are two of them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from usfa.errors import InputError
from usfa.learning import Learner, Update
from usfa.records import to_json
from usfa.runs.config import TrainConfig
from usfa.runs.directory import RunDirectory

__all__ = ["Callback", "TensorBoard", "Training", "WeightsAndBiases", "check_callbacks", "score_means"]


@dataclass
class Training:
    """A running training, as callbacks see it. Do not change it; to end it, call :meth:`stop`."""

    run: RunDirectory
    config: TrainConfig
    learner: Learner
    update: Update | None = None
    """Outcome of the last round: losses, and Σφ of the episodes that ended."""
    metrics: dict[str, Any] | None = None
    """The line of metrics.jsonl that the last round wrote; None in rounds that write none."""
    milestone: int | None = None
    """Time of the last complete snapshot, in the unit of the budget."""
    snapshot_scores: dict[int, pd.DataFrame] = field(default_factory=dict)
    """Scores of the snapshots between the first and the last, by milestone, if tasks are drawn from a distribution."""
    scores: pd.DataFrame | None = None
    """The scores of all snapshots; None until the run is finished."""
    reason: str | None = None
    """Reason to stop, if a callback has given one."""

    @property
    def frames(self) -> int:
        """Environment steps so far, mean over seeds."""
        return round(float(self.learner.frames.mean()))

    def stop(self, reason: str = "a callback asked for it") -> None:
        """Stop after this round. `usfa.train` then returns; `existing="resume"` continues the run."""
        self.reason = reason


class Callback:
    """Watches a training. Derive from it and override what you need; pass it as `train(…, callbacks=[Own()])`."""

    def on_round(self, training: Training) -> None:
        """Called after every round of updates."""

    def on_snapshot(self, training: Training) -> None:
        """Called when all seeds have reached a milestone and the snapshot is on disk; first before training."""

    def on_end(self, training: Training) -> None:
        """Called once at the end, also if training was stopped, interrupted or failed; then `scores` is None."""


def check_callbacks(callbacks: Sequence[Callback]) -> tuple[Callback, ...]:
    if isinstance(callbacks, Callback) or not isinstance(callbacks, Sequence):
        raise InputError(f"callbacks is {callbacks!r}; expected a list of callbacks.")
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise InputError(f"A callback is {callback!r}; expected an object derived from usfa.Callback.")
    return tuple(callbacks)


# --- loggers ---


def metric_values(metrics: dict[str, Any]) -> dict[str, float]:
    """The numbers of a line of metrics.jsonl by name, for loggers."""
    values = {name: metrics[name] for name in ("loss", "gradient", "episodes", "updates", "score") if name in metrics}
    return values | {f"return/{task}": value for task, value in (metrics["returns"] or {}).items()}


def score_means(scores: pd.DataFrame) -> list[tuple[int, str, float]]:
    """(frames, name, mean score over seeds and tasks) of every snapshot, candidate set, rule and set of tasks."""
    keys = ["snapshot", "candidates", "rule", "task_set"]
    groups = scores.groupby(keys, sort=False)[["frames", "score"]].mean().reset_index()
    return [
        (round(row.frames), f"score/{row.task_set}, C = {row.candidates}, {row.rule}", float(row.score))
        for row in groups.itertuples()
    ]


class TensorBoard(Callback):
    """Logs metrics and scores over frames for TensorBoard, in RUN/tensorboard (extra tensorboard)."""

    def __init__(self) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError(
                f"TensorBoard cannot be imported ({error}); install it with pip install 'usfa[tensorboard]'."
            ) from error
        self._make = SummaryWriter
        self._writer: Any = None

    def _open(self, training: Training) -> Any:
        if self._writer is None:  # after a resume, later points of the interrupted process are hidden
            folder = str(training.run.path / "tensorboard")
            self._writer = self._make(folder, purge_step=training.frames)
        return self._writer

    def on_snapshot(self, training: Training) -> None:
        self._open(training)

    def on_round(self, training: Training) -> None:
        if training.metrics is not None:
            for name, value in metric_values(training.metrics).items():
                self._open(training).add_scalar(name, value, training.frames)

    def on_end(self, training: Training) -> None:
        writer = self._open(training)
        for frames, name, value in [] if training.scores is None else score_means(training.scores):
            writer.add_scalar(name, value, frames)
        writer.close()
        self._writer = None
        training.run.claim_folder("tensorboard")


class WeightsAndBiases(Callback):
    """Logs metrics and scores to Weights & Biases (extra wandb); a resumed run continues the same one.

    Args:
        project: name of the project.
        arguments: further arguments of `wandb.init`, such as entity, group or mode="offline".
    """

    def __init__(self, project: str = "usfa", **arguments: Any) -> None:
        try:
            import wandb
        except ImportError as error:
            raise InputError(
                f"wandb cannot be imported ({error}); install it with pip install 'usfa[wandb]'."
            ) from error
        self._wandb: Any = wandb
        self._arguments = {"project": project, **arguments}
        self._log: Any = None

    def _open(self, training: Training) -> Any:
        if self._log is None:
            folder = training.run.path / "wandb"
            folder.mkdir(exist_ok=True)
            known = folder / "id.txt"
            if not known.exists():
                known.write_text(secrets.token_hex(4))  # as long as wandb's own ids
            self._log = self._wandb.init(
                dir=str(training.run.path),
                id=known.read_text(),
                resume="allow",
                config=to_json(training.config),
                **{"name": training.run.path.name, **self._arguments},
            )
        return self._log

    def on_round(self, training: Training) -> None:
        if training.metrics is not None:
            self._open(training).log({"frames": training.frames, **metric_values(training.metrics)})

    def on_end(self, training: Training) -> None:
        log = self._open(training)
        by_frames: dict[int, dict[str, float]] = {}
        for frames, name, value in [] if training.scores is None else score_means(training.scores):
            by_frames.setdefault(frames, {})[name] = value
        for frames, values in by_frames.items():
            log.log({"frames": frames, **values})
        log.finish(exit_code=0 if training.scores is not None or training.reason is not None else 1)
        self._log = None
        _remove_links_and_empty_folders(training.run.path / "wandb")
        training.run.claim_folder("wandb")


def _remove_links_and_empty_folders(folder: Path) -> None:
    """Leave only files, which a manifest can list; a run directory that holds anything else cannot be overwritten."""
    for path in sorted(folder.rglob("*"), reverse=True):  # contents come before their folder
        if path.is_symlink():
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()

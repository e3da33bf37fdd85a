"""When a run is saved, and how it is found again."""

from __future__ import annotations

from typing import NoReturn

from usfa.errors import Interrupted
from usfa.runs.directory import KEPT_CHECKPOINTS, RunDirectory
from usfa.runs.snapshots import SnapshotWriter
from usfa.learning import Improver

__all__ = ["Checkpoints"]


class Checkpoints:
    """The saved states of a learner and its snapshots in a run directory."""

    def __init__(self, run: RunDirectory, learner: Improver, snapshots: SnapshotWriter, every: int) -> None:
        self._run = run
        self._learner = learner
        self._snapshots = snapshots
        self._every = every
        self.saved_at = 0

    def resume(self) -> bool:
        """Go on from the newest state; False if there is none."""
        saved = self._run.load_checkpoint()
        if saved is not None:
            tensors, values = saved
            self._learner.load_state(tensors, values["learner"])
            self._snapshots.load_state(tensors, values["snapshots"])
        self.saved_at = self._learner.updates
        self._run.rewind_metrics(self.saved_at)
        return saved is not None

    @property
    def due(self) -> bool:
        return self._learner.rounds % self._every == 0

    def save(self) -> None:
        self._learner.check_parameters()
        learner_tensors, learner_values = self._learner.state()
        snapshot_tensors, snapshot_values = self._snapshots.state()
        values = {"learner": learner_values, "snapshots": snapshot_values}
        kept = 1 if self._learner.done else KEPT_CHECKPOINTS  # earlier ones may be large, with all their past
        self._run.save_checkpoint(self._learner.updates, {**learner_tensors, **snapshot_tensors}, values, kept)
        self.saved_at = self._learner.updates

    def stop(self) -> NoReturn:
        """Save because the user wants to stop, and say so."""
        # Saving may restart episodes, and an undisturbed run would not: then the last checkpoint is the one to resume.
        if self._learner.saves_exactly:
            self.save()
        raise Interrupted(
            f"Stopped after {self._learner.updates} updates; the same command with --resume goes on from update "
            f"{self.saved_at}."
        )

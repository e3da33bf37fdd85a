"""How the traffic between actors and learner goes: what is logged, and shown beside the progress bar."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np

from usfa.cluster.ledger import Account
from usfa.cluster.parcel import Delivery

__all__ = ["Traffic"]


class Traffic:
    """What happened since the last report."""

    def __init__(self, actors: int) -> None:
        self._actors = actors
        self.note = ""
        self._clear()

    def _clear(self) -> None:
        self._started = time.perf_counter()
        self.waited = 0.0  # seconds in which the learner had nothing to do
        self._learning: list[float] = []
        self._publishing: list[float] = []
        self._acting: list[float] = []
        self._staleness: list[int] = []
        self._bytes: list[int] = []
        self._frames: Counter[int] = Counter()  # by actor

    def add(self, delivery: Delivery, staleness: int, learning: float, publishing: float) -> None:
        """A trajectory was learned from, and new weights and a request were handed out, in so many seconds."""
        self._learning.append(learning)
        self._publishing.append(publishing)
        self._acting.append(delivery.seconds)
        self._staleness.append(staleness)
        self._bytes.append(delivery.nbytes)
        self._frames[delivery.life.actor] += int(delivery.frames.sum())

    def report(self, account: Account, queue: int) -> dict[str, Any]:
        """The means since the last report, and where the account stands; fits into JSON."""
        elapsed = time.perf_counter() - self._started
        per_actor = [self._frames[actor] / elapsed for actor in range(self._actors)]
        line = {
            "frames_per_second": sum(per_actor),
            "actors": per_actor,
            "staleness": _mean(self._staleness),
            "stalest": max(self._staleness, default=0),
            "queue": queue,
            "waiting": self.waited / elapsed,
            "seconds_to_act": _mean(self._acting),
            "seconds_to_learn": _mean(self._learning),
            "seconds_to_publish": _mean(self._publishing),
            "bytes": _mean(self._bytes),
            "restarts": account.restarts,
            "trajectories": dict(account.trajectories),
        }
        self.note = _note(line, account)
        self._clear()
        return line


def _mean(values: list[Any]) -> float:
    return float(np.mean(values)) if values else 0.0


def _note(line: dict[str, Any], account: Account) -> str:
    slowest, fastest = min(line["actors"]), max(line["actors"])
    return (
        f"actors {slowest:,.0f} to {fastest:,.0f} frames/s, staleness {line['staleness']:.1f}, queue {line['queue']}, "
        f"restarts {line['restarts']}, dropped {account.dropped}"
    )

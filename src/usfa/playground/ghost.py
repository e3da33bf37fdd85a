"""The oracle's pace: what a policy that sees the true state collects in the same layout, with the same tasks."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

import numpy as np
from numpy.typing import NDArray

from usfa.environments.room import RoomRules
from usfa.environments.room.batch import RoomBatch
from usfa.environments.room.oracle import Oracle

__all__ = ["Ghost", "Oracles"]


class Oracles:
    """An oracle for each set of rules, made in the background."""

    def __init__(self, workers: ThreadPoolExecutor) -> None:
        self._workers = workers
        self._made: dict[RoomRules, Future[Oracle]] = {}

    def get(self, rules: RoomRules) -> Oracle | None:
        """None while it is being made."""
        if rules not in self._made:
            self._made[rules] = self._workers.submit(_warm_oracle, rules)
        future = self._made[rules]
        return future.result() if future.done() else None


@cache
def _warm_oracle(rules: RoomRules) -> Oracle:
    """Ready to act: its tables take a second, the first compilation ten."""
    oracle = Oracle(rules)
    oracle.act(RoomBatch(1, rules, image_size=8).world, np.ones(rules.types))  # compiles
    return oracle


class Ghost:
    """A room that the oracle walks through while the agent walks through its own. It is not drawn."""

    def __init__(self, oracle: Oracle, seed: int) -> None:
        self._oracle = oracle
        self._room = RoomBatch(1, oracle.rules, seeds=[seed], image_size=8)
        self.returned = 0.0
        self.collected = np.zeros(oracle.rules.types)

    def act(self, w: NDArray[np.float64]) -> None:
        self._room.move(self._oracle.act(self._room.world, w))
        self.returned += float(self._room.phi[0] @ w)
        self.collected += self._room.phi[0]

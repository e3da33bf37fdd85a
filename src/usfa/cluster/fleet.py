"""Actors on Ray. Ray starts, places, watches and ends the processes, and carries what they send."""

from __future__ import annotations

import importlib
import re
import time
from typing import Any

from usfa.cluster.collector import Collector, Job
from usfa.cluster.learner import Arrival
from usfa.cluster.ledger import Life
from usfa.cluster.parcel import Weights
from usfa.errors import InputError

__all__ = ["RayFleet"]

PATIENCE_SECONDS = 600.0  # without any trajectory; nodes that are only now being started need minutes
LISTEN_SECONDS = 1.0  # between two looks at Ctrl-C


class RayFleet:
    """One Ray actor for each number. Requests are made with the newest weights, and answered in shared memory.

    Ray has to be connected already, see :func:`usfa.cluster.connection.connected`.
    """

    def __init__(self, cpus_per_actor: float) -> None:
        self._ray: Any = importlib.import_module("ray")  # only now: it reads its settings when it is imported
        # A trajectory is never made twice: what dies with an actor is counted as lost, and another asked for.
        self._remote = self._ray.remote(num_cpus=cpus_per_actor, max_restarts=0, max_task_retries=0)(Collector)
        self._handles: dict[int, Any] = {}
        self._requests: dict[Any, tuple[Life, int]] = {}  # by reference to the answer, the oldest first
        self._weights: Any = None

    def start(self, job: Job, life: Life) -> None:
        before = self._handles.get(life.actor)
        if before is not None:
            self._ray.kill(before)
        handle = self._handles[life.actor] = self._remote.remote(job, life)
        self._requests[handle.greet.remote()] = (life, 0)

    def publish(self, weights: Weights) -> None:
        self._weights = self._ray.put(weights)

    def ask(self, life: Life, sequence: int) -> None:
        answer = self._handles[life.actor].collect.remote(self._weights)
        self._requests[answer] = (life, sequence)

    def next(self) -> Arrival:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            answers, _ = self._ray.wait(list(self._requests), num_returns=1, timeout=LISTEN_SECONDS)
            if answers:
                return self._received(answers[0])
        raise InputError(
            f"No trajectory came for {PATIENCE_SECONDS:.0f} seconds from {len(self._handles)} actors; expected nodes "
            "with free CPUs (`ray status` shows them)."
        )

    def _received(self, answer: Any) -> Arrival:
        life, sequence = self._requests.pop(answer)
        errors = self._ray.exceptions
        try:
            content = self._ray.get(answer, timeout=PATIENCE_SECONDS)
        except (errors.RayActorError, errors.ObjectLostError, errors.OutOfMemoryError, errors.GetTimeoutError) as error:
            return Arrival(life, sequence, fate="lost", why=_cause(error))
        except errors.RayTaskError as error:
            if not isinstance(error.cause, InputError):
                raise
            return Arrival(life, sequence, fate="poisoned", why=str(error.cause).rstrip("."))
        return Arrival(life, sequence, content) if sequence else Arrival(life, sequence, greeting=content)

    @property
    def ready(self) -> int:
        answers = [answer for answer, (_, sequence) in self._requests.items() if sequence]
        if not answers:
            return 0
        return len(self._ray.wait(answers, num_returns=len(answers), timeout=0, fetch_local=False)[0])

    def close(self) -> None:
        for handle in self._handles.values():
            self._ray.kill(handle)
        self._handles.clear()
        self._requests.clear()


def _cause(error: Exception) -> str:
    """What Ray's long message says in short: the exception behind it, or the first sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)]
    died = [line.partition(". ")[0] for line in lines if "died" in line or "dead" in line]
    return (raised[-1:] or died[-1:] or lines[:1] or [type(error).__name__])[0].rstrip(".")[:300]

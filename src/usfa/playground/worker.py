"""Heat maps are made in a process of their own, one at a time, so that nobody's frames wait for them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

import msgspec

from usfa.playground.heatmaps import HeatmapRequest
from usfa.playground.protocol import Failure, Note, ShownHeatmap

__all__ = ["HeatmapWorker"]

_answers = msgspec.json.Decoder(ShownHeatmap | Failure)


@dataclass(eq=False)
class _Job:
    owner: object
    request: HeatmapRequest
    tell: Callable[[Note], None]
    stopped: bool = False


class HeatmapWorker:
    """A queue with at most one living job per owner, a thread that minds it, and the process that does the work.

    The process (:mod:`usfa.playground.workshop`) starts with the first job, and again if it dies.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards everything below
        self._jobs: list[_Job] = []
        self._at_work: _Job | None = None
        self._process: subprocess.Popen[str] | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="heat maps", daemon=True)
        self._thread.start()

    def submit(self, owner: object, request: HeatmapRequest, tell: Callable[[Note], None]) -> None:
        """Make this map; the owner's earlier one is stopped."""
        self.stop(owner)
        tell(request.empty("Waiting for the worker."))
        with self._changed:
            self._jobs.append(_Job(owner, request, tell))
            self._changed.notify()

    def stop(self, owner: object) -> None:
        with self._changed:
            self._jobs = [job for job in self._jobs if job.owner is not owner]
            if self._at_work is not None and self._at_work.owner is owner and not self._at_work.stopped:
                self._at_work.stopped = True
                self._say("stop")

    def close(self) -> None:
        """End process and thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            if self._process is not None:
                self._process.kill()
        self._thread.join(timeout=10)

    def _say(self, line: str) -> None:
        try:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
        except OSError:  # it has died; the thread will notice
            return

    # --- the thread ---

    def _run(self) -> None:
        while (job := self._next()) is not None:
            alive = self._make(job)
            with self._changed:
                self._at_work = None
                if not alive:
                    self._bury()
            if not alive and not job.stopped and not self._closed:
                job.tell(Failure("The process that makes heat maps has died; ask for the map again."))
        with self._changed:
            self._bury()

    def _next(self) -> _Job | None:
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            if self._closed:
                return None
            self._at_work = self._jobs.pop(0)
            return self._at_work

    def _make(self, job: _Job) -> bool:
        """Pass on what the process answers; False if it died over it."""
        with self._changed:
            answers = self._started()
            self._say(msgspec.json.encode(job.request).decode())
        for line in answers:
            if line == "done\n":
                return True
            if not job.stopped:
                job.tell(_answers.decode(line))
        return False

    def _started(self) -> IO[str]:
        if self._process is None:
            command = [sys.executable, "-m", "usfa.playground.workshop"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        assert self._process.stdout is not None
        return self._process.stdout

    def _bury(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()

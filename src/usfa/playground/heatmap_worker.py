"""Heat maps are computed one at a time in a process of low priority, so that they do not delay frames.

The process reads requests from stdin and writes partial maps to stdout, one line of JSON each. A line that is not a
request stops the current map.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

import msgspec
import torch

from usfa.agents import TrainedAgent
from usfa.errors import InputError
from usfa.playground.heatmaps import HeatmapRequest, heatmap
from usfa.playground.protocol import ErrorMessage, Heatmap, ServerMessage, encode
from usfa.registry import search_working_directory
from usfa.runs import load

__all__ = ["HeatmapWorker", "run_process"]

# -P: modules in the working directory are found only if a trusted agent names them, as on the command line.
_COMMAND = [sys.executable, "-P", "-c", "from usfa.playground.heatmap_worker import run_process; run_process()"]
_REPORT_SECONDS = 0.3
_requests = msgspec.json.Decoder(HeatmapRequest)
_replies = msgspec.json.Decoder(Heatmap | ErrorMessage)


@dataclass(eq=False)
class _Job:
    owner: object
    request: HeatmapRequest
    send: Callable[[ServerMessage], None]
    stopped: bool = False


class HeatmapWorker:
    """A queue with at most one job per owner, a thread that empties it, and the process that computes.

    The process starts with the first job, and again if it dies.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards everything below
        self._jobs: list[_Job] = []
        self._current: _Job | None = None
        self._process: subprocess.Popen[str] | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="heat maps", daemon=True)
        self._thread.start()

    def submit(self, owner: object, request: HeatmapRequest, send: Callable[[ServerMessage], None]) -> None:
        """Compute a map, in place of the owner's earlier one; partial maps and errors go to `send`."""
        self.stop(owner)
        send(request.empty("Waiting for the worker."))
        with self._changed:
            self._jobs.append(_Job(owner, request, send))
            self._changed.notify()

    def stop(self, owner: object) -> None:
        with self._changed:
            self._jobs = [job for job in self._jobs if job.owner is not owner]
            if self._current is not None and self._current.owner is owner and not self._current.stopped:
                self._current.stopped = True
                self._write("stop")

    def close(self) -> None:
        """End the process and the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            if self._process is not None:
                self._process.kill()
        self._thread.join(timeout=10)

    def _write(self, line: str) -> None:
        try:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
        except OSError:  # the process has died; the thread notices the end of its output
            return

    # --- the thread ---

    def _run(self) -> None:
        while (job := self._next()) is not None:
            alive = self._compute(job)
            with self._changed:
                self._current = None
                if not alive:
                    self._end_process()
            if not alive and not job.stopped and not self._closed:
                job.send(ErrorMessage("The process that computes heat maps has died; start the map again."))
        with self._changed:
            self._end_process()

    def _next(self) -> _Job | None:
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            if self._closed:
                return None
            self._current = self._jobs.pop(0)
            return self._current

    def _compute(self, job: _Job) -> bool:
        """Forward the replies of the process; False if it died."""
        with self._changed:
            replies = self._started()
            self._write(msgspec.json.encode(job.request).decode())
        for line in replies:
            if line == "done\n":
                return True
            if not job.stopped:
                job.send(_replies.decode(line))
        return False

    def _started(self) -> IO[str]:
        if self._process is None:
            self._process = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        assert self._process.stdout is not None
        return self._process.stdout

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()


# --- the process ---


def run_process() -> None:
    """Serve requests until stdin ends."""
    if hasattr(os, "nice"):
        os.nice(10)
    torch.set_num_threads(1)
    search_working_directory()
    # Only replies go to stdout: anything that libraries print there goes to stderr.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read_lines, args=(lines,), daemon=True).start()
    agents: dict[str, TrainedAgent] = {}
    while line := lines.get():
        try:
            request = _requests.decode(line)
        except msgspec.MsgspecError:  # a stop that came too late
            continue
        if request.agent not in agents:
            agents[request.agent] = load(request.agent, trust=request.trust)
        _report(request, agents[request.agent], lines, replies)
        print("done", file=replies)


def _read_lines(lines: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    lines.put("")


def _report(request: HeatmapRequest, agent: TrainedAgent, lines: queue.SimpleQueue[str], replies: IO[str]) -> None:
    """Write the map as it grows, until it is complete or another line arrives."""
    reported = 0.0
    try:
        for partial in heatmap(request, agent):
            if not lines.empty():
                return
            if partial.progress == 1 or time.monotonic() - reported > _REPORT_SECONDS:
                print(encode(request.message(partial)), file=replies)
                reported = time.monotonic()
    except InputError as error:
        print(encode(ErrorMessage(str(error))), file=replies)

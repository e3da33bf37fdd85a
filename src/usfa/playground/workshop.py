"""The process that makes heat maps: requests on stdin, maps on stdout, a line of JSON each. Started by the worker.

A line that is not a request stops the map in the making.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable

import msgspec
import torch

from usfa.agents import TrainedAgent
from usfa.errors import InputError
from usfa.playground.heatmaps import HeatmapRequest, heatmap
from usfa.playground.protocol import Failure, encode
from usfa.runs import load

__all__ = ["main"]

_TELL_EVERY = 0.3  # seconds
_decoder = msgspec.json.Decoder(HeatmapRequest)


def main() -> None:
    if hasattr(os, "nice"):
        os.nice(10)
    torch.set_num_threads(1)
    # Libraries that greet on stdout shall not disturb the conversation.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    agents: dict[str, TrainedAgent] = {}
    while line := lines.get():
        try:
            request = _decoder.decode(line)
        except msgspec.MsgspecError:  # a stop that came too late
            continue
        if request.agent not in agents:
            agents[request.agent] = load(request.agent)
        _make(request, agents[request.agent], lines.empty, lambda text: print(text, file=answers))
        print("done", file=answers)


def _listen(lines: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    lines.put("")


def _make(
    request: HeatmapRequest, agent: TrainedAgent, undisturbed: Callable[[], bool], answer: Callable[[str], None]
) -> None:
    told = 0.0
    try:
        for partial in heatmap(request, agent):
            if not undisturbed():
                return
            if partial.progress == 1 or time.monotonic() - told > _TELL_EVERY:
                answer(encode(request.shown(partial)))
                told = time.monotonic()
    except InputError as error:
        answer(encode(Failure(str(error))))


if __name__ == "__main__":
    main()

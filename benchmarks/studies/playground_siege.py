"""Stress test of the playground: the visitors of two hours within minutes, among them hostile ones.

    python benchmarks/studies/playground_siege.py [--seconds 120] [--agent trip]

The server is `usfa play` in a process of its own, with as many sessions as there are visitors in the siege. Busy
visitors set tasks, read everything, leave after a few seconds and come back. The others take a place and never read, or
hold connections without a request; both come back as soon as they are dropped. Meanwhile further visitors ask for a
place, one after another, as the page does. Prints the server's memory over time, and how long these visitors waited.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.typing import Origin

VISIT_SECONDS, PAGE_RETRY_SECONDS = 5.0, 8.0
WANTED_WAIT, WANTED_GROWTH = 30.0, 1.1
SETUP_SECONDS = 60.0  # of waiting for the first frame
LOST = (OSError, ConnectionClosed, InvalidHandshake, TimeoutError, asyncio.IncompleteReadError)


class Siege:
    """All visitors of one server; each is a coroutine that runs until it is cancelled."""

    def __init__(self, url: str, agent: str) -> None:
        self.origin, self.agent = url.rstrip("/"), agent
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 0
        self.counts: Counter[str] = Counter()
        self.waits: list[float] = []

    async def busy(self, rng: random.Random) -> None:
        while True:
            with suppress(*LOST):
                async with self._socket() as socket:
                    await self._first_frame(socket)
                    self.counts["busy visits"] += 1
                    until = time.monotonic() + rng.uniform(0.5, 1.5) * VISIT_SECONDS
                    while time.monotonic() < until:
                        task = [round(rng.uniform(-1, 1), 2) for _ in range(self.features)]
                        await socket.send(json.dumps({"type": "task", "w": task}))
                        for _ in range(5):
                            await asyncio.wait_for(socket.recv(), 20)
            await asyncio.sleep(0.5)

    async def deaf(self) -> None:
        """Take a place with the bare protocol, send, and never read."""
        while True:
            with suppress(*LOST):
                reader, writer = await asyncio.open_connection(self.host, self.port, limit=2048)
                lines = (
                    *("GET /socket HTTP/1.1", f"Host: {self.host}:{self.port}", f"Origin: {self.origin}"),
                    *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
                    *("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", ""),
                )
                writer.write("\r\n".join(lines).encode())
                await reader.readuntil(b"\r\n\r\n")
                self.counts["deaf visits"] += 1
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                setup = {"type": "setup", "players": [{"agent": self.agent}], "picture_size": 512, "speed": 4}
                writer.write(_masked(json.dumps(setup)))
                while not writer.is_closing():
                    await asyncio.sleep(1)
                    writer.write(_masked(json.dumps({"type": "ping", "id": 1})))
                    await writer.drain()
                self.counts["deaf visitors dropped"] += 1
            await asyncio.sleep(0.1)

    async def half_open(self) -> None:
        while True:
            with suppress(*LOST):
                reader, writer = await asyncio.open_connection(self.host, self.port)
                writer.write(b"GET / HTTP/1.1\r\nHost: ")
                self.counts["half-open connections"] += 1
                await reader.read()  # until the server ends it
                writer.close()
            await asyncio.sleep(0.5)

    async def one_more(self) -> None:
        """Visitors, one after another, that ask for a place, retry as often as the page does, and leave."""
        while True:
            arrived = time.monotonic()
            while True:
                try:
                    async with self._socket() as socket:
                        await asyncio.wait_for(socket.recv(), SETUP_SECONDS)
                        self.waits.append(time.monotonic() - arrived)
                        await self._first_frame(socket)
                        break
                except LOST:
                    await asyncio.sleep(PAGE_RETRY_SECONDS)
            await asyncio.sleep(1)

    def _socket(self) -> connect:
        address = f"ws://{self.host}:{self.port}/socket"
        return connect(address, origin=Origin(self.origin), compression=None, open_timeout=20, close_timeout=1)

    async def _first_frame(self, socket: ClientConnection) -> None:
        await socket.send(json.dumps({"type": "setup", "players": [{"agent": self.agent}], "picture_size": 128}))
        while not isinstance(received := await asyncio.wait_for(socket.recv(), SETUP_SECONDS), bytes):
            message = json.loads(received)
            if message["type"] == "session":
                self.features = len(message["task"])


def _masked(text: str) -> bytes:
    """A text frame of a client, up to 65,535 bytes; the mask is zero."""
    payload = text.encode()
    size = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2, "big")
    return b"\x81" + size + bytes(4) + payload


def memory_of(process: int) -> float:
    """Resident memory in MB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


async def run(siege: Siege, process: int, given: argparse.Namespace) -> list[float]:
    """Start all visitors; return the memory of the server at the end of each tenth of the time."""
    work = [siege.busy(random.Random(number)) for number in range(given.busy)]
    work += [siege.deaf() for _ in range(given.deaf)]
    work += [siege.half_open() for _ in range(given.half_open)]
    tasks = [asyncio.create_task(one) for one in (*work, siege.one_more())]
    memory = []
    for _ in range(10):
        await asyncio.sleep(given.seconds / 10)
        memory.append(memory_of(process))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--agent", default="trip", help="shipped, or a directory")
    parser.add_argument("--busy", type=int, default=8)
    parser.add_argument("--deaf", type=int, default=8)
    parser.add_argument("--half-open", type=int, default=300)
    given = parser.parse_args()
    sessions = str(given.busy + given.deaf)
    words = [sys.executable, "-m", "usfa", "play", given.agent, "--port", "0", "--no-browser", "--sessions", sessions]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None
            siege = Siege(found[0], given.agent)
            memory = asyncio.run(run(siege, process.pid, given))
        finally:
            process.terminate()
        lines = len(process.stderr.read().splitlines())
    print("memory of the server in MB:", *(f"{size:.0f}" for size in memory))
    growth, longest = max(memory[3:]) / memory[2], max(siege.waits, default=float("inf"))
    print(f"growth after the first three tenths: {growth:.3f} (wanted: below {WANTED_GROWTH})")
    print(f"{len(siege.waits)} more visitors, longest wait for a place: {longest:.1f} s (wanted: below {WANTED_WAIT})")
    print(", ".join(f"{count} {name}" for name, count in sorted(siege.counts.items())), f"and {lines} lines in the log")
    sys.exit(growth > WANTED_GROWTH or longest > WANTED_WAIT)


if __name__ == "__main__":
    main()

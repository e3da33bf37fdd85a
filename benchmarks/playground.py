"""Speed of the playground: pictures per second, delay until a new task is acted on, and eight visitors at once.

    python benchmarks/playground.py [AGENT] [--seconds 5] [--browser]

The server is `usfa play` in a process of its own; visitors are sockets that discard what they read. --browser measures
the same for one visitor in a page, in Chromium with Playwright, from choosing a task to the answer.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

WANTED_RATE, WANTED_MILLISECONDS, WANTED_RATE_OF_EIGHT = 25, 100, 10
TASKS = ([1.0, 1.0, -1.0, 0.0], [-1.0, 0.0, 1.0, 1.0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agent", nargs="?", default="room", help="for the room, shipped or a directory")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--browser", action="store_true")
    arguments = parser.parse_args()
    with server(arguments.agent) as url:
        warm_up(url)
        for view in (84, 336):
            rate = visit(url, arguments.seconds, view)
            print(f"one visitor, {view}×{view}: {rate:5.1f} pictures/s (wanted: at least {WANTED_RATE})")
        waits = [1000 * wait for wait in latencies(url, 40)]
        print(
            f"new task to the action for it: median {statistics.median(waits):.0f} ms, longest {max(waits):.0f} ms "
            f"(wanted: below {WANTED_MILLISECONDS})"
        )
        rates = visitors(url, 8, arguments.seconds)
        print(f"eight visitors: {min(rates):5.1f} pictures/s for the slowest (wanted: at least {WANTED_RATE_OF_EIGHT})")
        if arguments.browser:
            in_browser(url, arguments.seconds)


@contextmanager
def server(agent: str) -> Iterator[str]:
    """The address of a playground on a free port."""
    command = [sys.executable, "-m", "usfa", "play", agent, "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    try:
        if found is None:
            raise SystemExit("The server did not start.")
        yield found[0]
    finally:
        process.terminate()
        process.wait()


@contextmanager
def visitor(url: str, view: int = 336) -> Iterator[ClientConnection]:
    """A socket to a session that has begun."""
    address = url.replace("http", "ws") + "socket"
    for _ in range(100):
        try:
            socket = connect(address, origin=Origin(url.rstrip("/")), compression=None, max_size=None)
            break
        except OSError:  # not listening yet
            time.sleep(0.1)
    with socket:
        agents = json.loads(socket.recv())["agents"]
        say(socket, type="setup", players=[{"agent": agents[0]["name"]}], task=TASKS[0], picture_size=view)
        next_frame(socket)
        yield socket


def say(socket: ClientConnection, **message: Any) -> None:
    socket.send(json.dumps(message))


def next_frame(socket: ClientConnection) -> dict[str, Any]:
    """The next frame; messages are dropped."""
    while True:
        message = socket.recv(120)
        if isinstance(message, bytes):
            frame: dict[str, Any] = json.loads(message[4 : 4 + int.from_bytes(message[:4], "little")])
            return frame


def warm_up(url: str) -> None:
    """Wait until everything is compiled and the oracle is ready."""
    with visitor(url) as socket:
        deadline = time.monotonic() + 120
        while "oracle" not in next_frame(socket) and time.monotonic() < deadline:
            pass


def visit(url: str, seconds: float, view: int = 336) -> float:
    """Pictures per second at speed 1."""
    with visitor(url, view) as socket:
        started, pictures = time.monotonic(), 0
        while time.monotonic() - started < seconds:
            pictures += "picture" in next_frame(socket)["players"][0]
        return pictures / (time.monotonic() - started)


def latencies(url: str, count: int) -> list[float]:
    """Seconds from sending a task to the decision for it."""
    waits = []
    with visitor(url) as socket:
        for number in range(1, count + 1):
            time.sleep(0.05 + 0.037 * (number % 7))  # at varying times between two decisions
            task, started = TASKS[number % 2], time.monotonic()
            say(socket, type="task", w=task)
            while (frame := next_frame(socket))["task"] != task or "decision" not in frame["players"][0]:
                pass
            waits.append(time.monotonic() - started)
    return waits


def visitors(url: str, count: int, seconds: float) -> list[float]:
    """Pictures per second of each of several simultaneous visitors."""
    rates: list[float] = []
    threads = [threading.Thread(target=lambda: rates.append(visit(url, seconds))) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return rates


def in_browser(url: str, seconds: float) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(url)
        page.wait_for_selector("body[data-ready]")
        page.wait_for_timeout(1000 * seconds)
        rate, waits = float(page.evaluate("() => document.body.dataset.fps")), []
        for number in range(20):
            page.locator("#presets button").nth(number % 4).click()
            page.wait_for_timeout(250)
            waits.append(float(page.evaluate("() => document.body.dataset.latency")))
        browser.close()
    print(f"in the page: {rate:.1f} pictures/s, new task to its action: median {statistics.median(waits):.0f} ms")


if __name__ == "__main__":
    main()

"""Progress on the terminal, and a Ctrl-C that waits for a good moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

__all__ = ["ProgressBar", "interruptible", "progress_bar"]


class ProgressBar:
    """One bar: where we are, how fast, how long still, and one word on how it goes."""

    def __init__(self, progress: Progress, total: float | None, label: str) -> None:
        self._progress = progress
        self._task = progress.add_task(label, total=total, note="")

    def update(self, completed: float, note: str = "") -> None:
        self._progress.update(self._task, completed=completed, note=note)

    def advance(self, steps: float) -> None:
        self._progress.advance(self._task, steps)


class _Speed(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("")
        return Text(f"{speed:,.0f} {self.unit}/s" if speed >= 10 else f"{speed:.1f} {self.unit}/s")


@contextmanager
def progress_bar(
    label: str, total: float | None, unit: str, console: Console | None, stays: bool = True
) -> Iterator[ProgressBar]:
    """A bar on the console; without one, a silent bar.

    Args:
        label: what is going on.
        total: what there is to do; None if nobody knows.
        unit: of the total.
        console: where to show it.
        stays: whether it is still to be seen when all is done.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn("{task.percentage:>3.0f}%"),
        _Speed(unit),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        TextColumn("{task.fields[note]}"),
    )
    silent = console is None or not (stays or console.is_terminal)
    with Progress(*columns, console=console, disable=silent, transient=not stays, speed_estimate_period=60) as progress:
        yield ProgressBar(progress, total, label)


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets, so that work can stop between two steps; a second one interrupts."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    previous = {number: signal.signal(number, on_interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield pressed
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

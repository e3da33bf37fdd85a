"""Progress bars, and interruption by Ctrl-C between two steps."""

from __future__ import annotations

import importlib.util
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from usfa.errors import InputError

__all__ = ["AUTO", "Display", "ProgressBar", "interruptible", "progress_bar", "shown_on"]

AUTO: Literal["auto"] = "auto"
Display = Console | Literal["auto"] | None
"""Where progress is shown: a console, nowhere (None), or "auto", in a terminal or a notebook."""

LINE_EVERY = 60.0
"""Seconds between two lines if the console is a file."""


def shown_on(display: Display) -> Console | None:
    """The console of a display. "auto" is stderr in a terminal, or the cell of a notebook; otherwise there is none."""
    if isinstance(display, Console | None):
        return display
    if display != AUTO:
        raise InputError(f"console is {display!r}; expected a rich.console.Console, 'auto', or None.")
    console = Console(stderr=True)
    if console.is_jupyter and importlib.util.find_spec("ipywidgets") is None:
        return Console(stderr=True, force_jupyter=False, force_terminal=False)  # lines instead of a bar
    return console if console.is_terminal or console.is_jupyter else None


class ProgressBar:
    """A bar with the share done, the speed, the remaining time and a note.

    If the console is a file, such as the log of a long run, a line with the same content is written every minute.
    """

    def __init__(self, progress: Progress, total: float | None, label: str, unit: str) -> None:
        self._progress = progress
        self._unit = unit
        self._task = progress.add_task(label, total=total, note="")
        self._to_file = not (progress.disable or progress.console.is_terminal)
        self._line_at = progress.get_time() + LINE_EVERY

    @property
    def begun(self) -> bool:
        return self._progress.tasks[self._task].completed > 0

    def update(self, completed: float, note: str = "") -> None:
        self._progress.update(self._task, completed=completed, note=note)
        self._write_line()

    def advance(self, steps: float) -> None:
        self._progress.advance(self._task, steps)
        self._write_line()

    def _write_line(self) -> None:
        if not self._to_file or self._progress.get_time() < self._line_at:
            return
        self._line_at = self._progress.get_time() + LINE_EVERY
        task = self._progress.tasks[self._task]
        share = "" if task.total is None else f"{task.percentage:.0f} %"
        left = "" if task.time_remaining is None else f"{timedelta(seconds=int(task.time_remaining))} left"
        line = ", ".join(filter(None, (share, _speed(task, self._unit), left, task.fields["note"])))
        self._progress.console.print(f"{task.description}: {line}", highlight=False, markup=False, soft_wrap=True)


class _Speed(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        return Text(_speed(task, self.unit))


def _speed(task: Task, unit: str) -> str:
    speed = task.finished_speed or task.speed
    if not speed:
        return ""
    return f"{speed:,.0f} {unit}/s" if speed >= 10 else f"{speed:.1f} {unit}/s"


@contextmanager
def progress_bar(
    label: str, total: float | None, unit: str, console: Console | None, stays: bool = True
) -> Iterator[ProgressBar]:
    """Show a progress bar.

    Args:
        label: a name for the work.
        total: the amount of work; None if it is unknown.
        unit: the unit of `total`.
        console: where to show the bar; None shows nothing.
        stays: whether the bar stays visible at the end.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn("{task.percentage:>3.0f}%"),
        _Speed(unit),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        TextColumn("{task.fields[note]}", markup=False),
    )
    silent = console is None or not (stays or console.is_terminal)
    with Progress(*columns, console=console, disable=silent, transient=not stays, speed_estimate_period=60) as progress:
        bar = ProgressBar(progress, total, label, unit)
        try:
            yield bar
        except InputError:
            progress.live.transient |= not bar.begun  # hide a bar that has not begun, and show only the error
            raise


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C or SIGTERM sets, so that work can stop between two steps.

    The second one raises KeyboardInterrupt.
    """
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

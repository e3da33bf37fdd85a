"""When a session's next decision is due."""

from __future__ import annotations

import math
from typing import Literal

__all__ = ["Clock", "Tick"]

Tick = Literal["decide", "arrive"]
_SMOOTH_BELOW = 20.0  # decisions per second; faster than this needs no pictures in between
_SOON = 1e-4  # seconds; what is due within them is due now


class Clock:
    """Decides at the multiples of its period, so that sessions of one pace think together.

    A smooth clock ticks twice per decision: on the way, and on arrival.
    """

    def __init__(self, rate: float, speed: float, paused: bool) -> None:
        self.rate, self.speed, self.paused = rate, speed, paused
        self._next = 0.0
        self._arrival: float | None = None
        self._once = False

    @property
    def period(self) -> float:
        """Seconds from one decision to the next."""
        return 1 / (self.rate * self.speed)

    def once(self) -> None:
        """One decision although the clock is paused."""
        self.paused, self._once = True, True

    def hold(self, now: float, seconds: float) -> None:
        """No decision before so many seconds have passed."""
        self._next = max(self._next, now + seconds)

    def tick(self, now: float, smooth: bool = False) -> Tick | None:
        """What is due now, if anything."""
        if self._arrival is not None:
            if now < self._arrival - _SOON:
                return None
            self._arrival = None
            return "arrive"
        if self._once:
            self._once = False
            return "decide"
        if self.paused or now < self._next - _SOON:
            return None
        self._next = (math.floor(now / self.period + 0.01) + 1) * self.period
        if smooth and 1 / self.period <= _SMOOTH_BELOW:
            self._arrival = now + self.period / 2
        return "decide"

    @property
    def on_the_way(self) -> bool:
        """Whether the last decision is still being walked."""
        return self._arrival is not None

    def due(self) -> float | None:
        """The time of the next tick; None if it waits for a visitor."""
        if self._arrival is not None:
            return self._arrival
        if self._once:
            return 0.0
        return None if self.paused else self._next

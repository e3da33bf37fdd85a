"""What one visitor may cost the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from usfa.errors import InputError

__all__ = ["Allowance", "Limits"]


@dataclass(frozen=True)
class Limits:
    """The playground's limits; messages also have a largest size, in the protocol."""

    sessions: int = 16
    """Visitors at the same time."""
    messages_per_second: float = 60.0
    """Of one visitor, over a while."""
    burst: int = 120
    """Messages at once that are still read."""
    idle_seconds: float = 150.0
    """A visitor whose page has not said anything for so long is gone: it speaks every few seconds."""

    def __post_init__(self) -> None:
        for name in ("sessions", "messages_per_second", "burst", "idle_seconds"):
            if not getattr(self, name) > 0:
                raise InputError(f"The limit {name} is {getattr(self, name)}; expected a number above 0.")


class Allowance:
    """A bucket of tokens that fills with time: every message takes one, and without one it is not read."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._tokens, self._then = float(burst), clock()

    def take(self) -> bool:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._then) * self._per_second)
        self._then = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

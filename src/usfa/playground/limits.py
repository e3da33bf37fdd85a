"""Limits on the use of a playground, and rate limiters."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, fields

from usfa.errors import InputError

__all__ = ["Limits", "LogLimit", "TokenBucket"]


@dataclass(frozen=True)
class Limits:
    """Limits on the use of a playground; messages also have a maximum size, see the protocol."""

    sessions: int = 16
    """Pages connected at the same time."""
    waiting_seconds: float = 10.0
    """A page that finds no free session waits in line for this time; at most as many wait as there are sessions."""
    messages_per_second: float = 60.0
    """Sustained rate per page."""
    burst: int = 120
    """Messages per page that may arrive at once."""
    idle_seconds: float = 150.0
    """Close a connection without messages for this time; an open page sends one every few seconds."""
    connections: int = 256
    """Connections at the same time, before any token is checked. Another one drops the oldest without a request."""
    request_seconds: float = 10.0
    """Close a connection that has not sent a complete request for this time."""
    unread_seconds: float = 15.0
    """Close a connection that has not read what was sent to it, or not answered a ping, for this time."""
    pings_per_second: float = 10.0
    """Sustained rate of ping frames per page, which browsers do not send; more of them end the connection."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise InputError(f"The limit {field.name} is {getattr(self, field.name)}; expected a number above 0.")


class TokenBucket:
    """Rate limit: a bucket that fills with time, from which every message takes one token."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._tokens, self._filled_at = float(burst), clock()

    def take(self) -> bool:
        """Take a token; False if there is none."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class LogLimit(logging.Filter):
    """Limits the lines in the log, which malformed requests could fill; the next line says how many were left out."""

    def __init__(self, bucket: TokenBucket) -> None:
        super().__init__()
        self._bucket, self._missing = bucket, 0

    def filter(self, record: logging.LogRecord) -> bool:
        if not self._bucket.take():
            self._missing += 1
            return False
        if self._missing:
            record.msg, record.args = f"{record.getMessage()} ({self._missing} lines before this one left out)", ()
            self._missing = 0
        return True

"""Limits on connections, below the application, where no token is checked yet.

uvicorn waits without limit for the rest of a request and for a peer that does not read, even to close the connection.
These protocols abort such connections instead, which frees their memory and their places at once.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from usfa.playground.limits import Limits, TokenBucket

__all__ = ["HttpConnection", "SocketConnection"]

_MOST_FRAGMENTS = 64  # of one message; browsers send one


class _Deadline:
    """Aborts a connection unless it is cancelled in time."""

    def __init__(self, transport: asyncio.Transport, seconds: float) -> None:
        self._transport, self._seconds = transport, seconds
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start, unless it has started already."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._transport.abort)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _DropsDeaf(asyncio.Protocol):
    """Aborts a connection whose peer does not read."""

    _unread: _Deadline

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unread.cancel()
        super().connection_lost(exc)


class HttpConnection(_DropsDeaf, H11Protocol):
    """An HTTP connection, from which every socket is upgraded. The first argument is ours, the others are uvicorn's."""

    def __init__(self, limits: Limits, /, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._limits = limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # so that anything unsent counts as unread
        self._request = _Deadline(transport, self._limits.request_seconds)
        self._unread = _Deadline(transport, self._limits.unread_seconds)
        self._request.start()
        self.opened_at = time.monotonic()
        if len(self.connections) > self._limits.connections:
            self._drop_one()

    @property
    def waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _drop_one(self) -> None:
        """Drop the oldest connection without a request: visitors send one at once, attackers may not."""
        idle = [other for other in self.connections if isinstance(other, HttpConnection) and other.waiting]
        min(idle, key=lambda other: other.opened_at).transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.waiting:
            self._request.cancel()

    def on_response_complete(self) -> None:
        self._request.start()  # for the rest of this request, and the next one
        super().on_response_complete()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._request.cancel()
        self._unread.cancel()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._request.cancel()
        super().connection_lost(exc)


class SocketConnection(_DropsDeaf, WebSocketsSansIOProtocol):
    """The socket of a page. The first argument is ours, the others are uvicorn's."""

    def __init__(self, limits: Limits, /, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._limits = limits
        self._pings = TokenBucket(limits.pings_per_second, max(2, round(2 * limits.pings_per_second)))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._unread = _Deadline(self.transport, self._limits.unread_seconds)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()

    def handle_ping(self) -> None:
        if self._pings.take():
            super().handle_ping()
        else:
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        super().handle_cont(event)
        if len(self.frames) > _MOST_FRAGMENTS:  # empty fragments pass the limit on size
            self.transport.abort()

"""What waits to be sent to a visitor: all notes in their order, and of the moments only the newest."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from usfa.playground.protocol import Note, encode

__all__ = ["Mailbox", "Overflow"]

_MOST_NOTES = 256


class Overflow(Exception):
    """The visitor asks and does not read the answers."""


class Mailbox:
    """Filled from any thread, emptied by the visitor's writer. A slow connection sees fewer moments, not older ones."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._notes: deque[str] = deque()
        self._moment: bytes | None = None
        self._fleeting = False
        self._filled = asyncio.Event()

    def note(self, note: Note) -> None:
        self._hand_over(self._put_note, encode(note))

    def moment(self, packed: bytes, *, fleeting: bool) -> None:
        self._hand_over(self._put_moment, packed, fleeting)

    def _hand_over(self, put: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(put, *arguments)
        except RuntimeError:  # the loop has ended: nobody is there to read
            return

    def _put_note(self, text: str) -> None:
        self._notes.append(text)
        self._filled.set()

    def _put_moment(self, packed: bytes, fleeting: bool) -> None:
        if fleeting and self._moment is not None and not self._fleeting:
            return
        self._moment, self._fleeting = packed, fleeting
        self._filled.set()

    async def next(self) -> str | bytes:
        """What to send next."""
        while True:
            if len(self._notes) > _MOST_NOTES:
                raise Overflow
            if self._notes:
                return self._notes.popleft()
            if self._moment is not None:
                moment, self._moment = self._moment, None
                return moment
            self._filled.clear()
            await self._filled.wait()

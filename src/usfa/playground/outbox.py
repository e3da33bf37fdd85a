"""Messages to one page: JSON messages, which all arrive in order, and frames, of which only the newest is sent.

A frame is everything that the page shows of one instant, pictures included, in one binary message:

4 bytes    length of the JSON that follows, little-endian
JSON       a Frame; each picture is given by its offset in the rest
the rest   JPEGs and PNGs, one after the other
"""

from __future__ import annotations

import asyncio
import io
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from usfa.playground.protocol import ServerMessage, SessionInfo, encode

__all__ = ["DecisionFrame", "Frame", "Outbox", "Overflow", "PictureInfo", "Pixels", "PlayerFrame", "pack", "shrunk"]

Pixels = NDArray[np.uint8]  # [height, width, 3]
_LOSSLESS_BELOW = 128  # pixels: the page enlarges smaller pictures, so every pixel of them is visible
_JPEG_QUALITY = 88
_MAX_MESSAGES = 256


class PictureInfo(msgspec.Struct, frozen=True):
    """A picture in the rest of the message."""

    start: int
    length: int
    type: str
    width: int
    height: int


class DecisionFrame(msgspec.Struct, frozen=True):
    """An action and the values behind it, see :class:`usfa.playground.player.PlayerDecision`."""

    action: int
    q: list[float]  # null where illegal
    trusted: int
    improved: bool
    values: list[float]
    psi: list[float] | None


class PlayerFrame(msgspec.Struct, frozen=True, omit_defaults=True):
    """A player at one instant. Between two decisions only step, position and picture are set."""

    step: int
    over: bool = False
    collected: list[float] | None = None  # Σφ of the episode
    returned: float | None = None  # Σφ·w of the episode, with the task at each step
    improved: int = 0  # steps of the episode that improved on the trusted policy; the others followed it
    decision: DecisionFrame | None = None
    position: dict[str, Any] | None = None  # in the room or in the MDP
    picture: PictureInfo | None = None


class Frame(msgspec.Struct, frozen=True, omit_defaults=True):
    """All players of a session at one instant."""

    seed: int
    task: list[float]
    players: list[PlayerFrame]
    oracle: float | None = None  # the oracle's return in the same layout; in an MDP, the optimal return
    oracle_collected: list[float] | None = None  # Σφ of the oracle's episode


def pack(frame: Frame, pictures: Sequence[Pixels | None]) -> bytes:
    """Encode a frame; `pictures` has one entry for each player."""
    rest = bytearray()
    players = []
    for player, picture in zip(frame.players, pictures, strict=True):
        players.append(player if picture is None else msgspec.structs.replace(player, picture=_append(rest, picture)))
    header = msgspec.json.encode(msgspec.structs.replace(frame, players=players))
    return len(header).to_bytes(4, "little") + header + rest


def _append(rest: bytearray, picture: Pixels) -> PictureInfo:
    start, (height, width) = len(rest), picture.shape[:2]
    lossless = max(height, width) < _LOSSLESS_BELOW
    encoded = io.BytesIO()
    if lossless:
        Image.fromarray(picture).save(encoded, "PNG", compress_level=1)
    else:
        Image.fromarray(picture).save(encoded, "JPEG", quality=_JPEG_QUALITY, subsampling=0)
    rest += encoded.getbuffer()
    return PictureInfo(start, len(rest) - start, "image/png" if lossless else "image/jpeg", width, height)


def shrunk(picture: Pixels, size: int) -> Pixels:
    """The picture, scaled down to at most `size` pixels in height and width."""
    height, width = picture.shape[:2]
    scale = size / max(height, width)
    if scale >= 1:
        return picture
    smaller = Image.fromarray(picture).resize((max(1, round(width * scale)), max(1, round(height * scale))))
    return np.asarray(smaller)


class Overflow(Exception):
    """The page sends requests without reading the replies."""


class Outbox:
    """Filled from any thread, emptied by the connection. A slow connection gets fewer frames, never older ones."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._messages: deque[str] = deque()
        self._frame: bytes | None = None
        self._frame_is_intermediate = False
        self._filled = asyncio.Event()

    def send(self, message: ServerMessage) -> None:
        self._schedule(self._put_message, encode(message), isinstance(message, SessionInfo))

    def show(self, packed: bytes, *, intermediate: bool) -> None:
        """Replace the unsent frame, except that an intermediate frame does not replace a full one."""
        self._schedule(self._put_frame, packed, intermediate)

    def _schedule(self, put: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(put, *arguments)
        except RuntimeError:  # the loop has ended: the message has no reader
            return

    def _put_message(self, text: str, new_session: bool) -> None:
        if new_session:
            self._frame = None  # it shows the players of the previous setup
        if len(self._messages) <= _MAX_MESSAGES:  # one more than allowed is enough to notice
            self._messages.append(text)
        self._filled.set()

    def _put_frame(self, packed: bytes, intermediate: bool) -> None:
        if intermediate and self._frame is not None and not self._frame_is_intermediate:
            return
        self._frame, self._frame_is_intermediate = packed, intermediate
        self._filled.set()

    async def next(self) -> str | bytes:
        """Wait for the next message or frame."""
        while True:
            if len(self._messages) > _MAX_MESSAGES:
                raise Overflow
            if self._messages:
                return self._messages.popleft()
            if self._frame is not None:
                frame, self._frame = self._frame, None
                return frame
            self._filled.clear()
            await self._filled.wait()

"""Moments on the wire: all that is shown of one instant, pictures included, in one binary message.

4 bytes    length of the JSON that follows, little-endian
JSON       a Moment; each picture is named by its place in the rest
the rest   JPEGs and PNGs, one after the other
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["Moment", "Pixels", "PlayerMoment", "Shown", "ThoughtMoment", "pack", "shrunk"]

Pixels = NDArray[np.uint8]  # [height, width, 3]
_EXACT_BELOW = 128  # pixels: smaller pictures are shown enlarged, so that every one of them counts
_QUALITY = 88


class Shown(msgspec.Struct, frozen=True):
    """A picture in the rest of the message."""

    start: int
    length: int
    type: str
    width: int
    height: int


class ThoughtMoment(msgspec.Struct, frozen=True):
    """Why the action was chosen, see :class:`usfa.playground.thoughts.Thought`."""

    action: int
    q: list[float]  # null where illegal
    trusted: int
    improved: bool
    values: list[float]
    psi: list[float] | None


class PlayerMoment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A player at one instant. Between two decisions only the picture and the place are new."""

    step: int
    over: bool = False
    collected: list[float] | None = None  # Σφ of the episode
    returned: float | None = None  # Σφ·w of the episode, with the task as it was at each step
    improved: int = 0  # steps of the episode that improved on the trusted policy; the others followed it
    thought: ThoughtMoment | None = None
    place: dict[str, Any] | None = None  # in the room or in the MDP
    picture: Shown | None = None


class Moment(msgspec.Struct, frozen=True, omit_defaults=True):
    """All players of a session at one instant."""

    seed: int
    task: list[float]
    players: list[PlayerMoment]
    oracle: float | None = None  # its return in the same layout; of an MDP, the best return there is
    oracle_collected: list[float] | None = None  # Σφ of its episode


def pack(moment: Moment, pictures: Sequence[Pixels | None]) -> bytes:
    """The message; `pictures` has one for each player, or None."""
    rest = bytearray()
    players = []
    for player, picture in zip(moment.players, pictures, strict=True):
        players.append(player if picture is None else msgspec.structs.replace(player, picture=_append(rest, picture)))
    header = msgspec.json.encode(msgspec.structs.replace(moment, players=players))
    return len(header).to_bytes(4, "little") + header + rest


def _append(rest: bytearray, picture: Pixels) -> Shown:
    start, (height, width) = len(rest), picture.shape[:2]
    exact = max(height, width) < _EXACT_BELOW
    encoded = io.BytesIO()
    if exact:
        Image.fromarray(picture).save(encoded, "PNG", compress_level=1)
    else:
        Image.fromarray(picture).save(encoded, "JPEG", quality=_QUALITY, subsampling=0)
    rest += encoded.getbuffer()
    return Shown(start, len(rest) - start, "image/png" if exact else "image/jpeg", width, height)


def shrunk(picture: Pixels, size: int) -> Pixels:
    """The picture, at most so many pixels high and wide."""
    height, width = picture.shape[:2]
    scale = size / max(height, width)
    if scale >= 1:
        return picture
    smaller = Image.fromarray(picture).resize((max(1, round(width * scale)), max(1, round(height * scale))))
    return np.asarray(smaller)

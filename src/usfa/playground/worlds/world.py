"""What a world is to a player: something to act in, to look at, and to draw a map of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from usfa.environments.room import RoomRules
from usfa.playground.frames import Pixels
from usfa.playground.protocol import FeatureCard, PresetGroup
from usfa.tasks import format_task

__all__ = ["Happening", "Pixels", "World", "WorldKind", "feature_cards", "preset_group"]

WorldKind = Literal["room", "mdp", "picture"]
# Okabe and Ito's, as in the figures.
_PALETTE = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A7A7A", "#B8A800")


class Happening(NamedTuple):
    """What a step brought."""

    phi: NDArray[np.float64]  # [D]
    over: bool  # the episode ended with it


class World(Protocol):
    """One environment, in the middle of an episode or at its end."""

    kind: WorldKind
    smooth: bool  # whether it can be drawn between two decisions
    features: list[FeatureCard]
    actions: list[str]
    presets: list[PresetGroup]
    rate: float  # decisions per second at speed 1
    moment: int  # steps that a mark of good or bad is about

    @property
    def rules(self) -> RoomRules | None:
        """Of a room, for its oracle."""
        ...

    @property
    def observation(self) -> NDArray[Any]:
        """Encoded for the agent."""
        ...

    @property
    def legal(self) -> NDArray[np.bool_]:
        """Which actions exist now, [A]."""
        ...

    def reset(self, seed: int) -> None: ...

    def step(self, action: int) -> Happening: ...

    def plan(self) -> dict[str, Any]:
        """What does not change about the map, JSON-ready; empty if there is none."""
        ...

    def place(self, share: float = 1.0) -> dict[str, Any] | None:
        """Where everything is now, on that map; a share of the way from the last step for what is in between."""
        ...

    def picture(self, size: int, share: float = 1.0) -> Pixels | None:
        """What a person sees, up to so many pixels; a share as in :meth:`place`."""
        ...

    def eyes(self) -> Pixels | None:
        """What the agent sees, in its own pixels; None if those are no picture."""
        ...

    def close(self) -> None: ...


def feature_cards(count: int, names: Sequence[str] | None = None) -> list[FeatureCard]:
    """Cards without pictures; φ1, φ2, … where there are no names."""
    called = [f"φ{index + 1}" for index in range(count)] if names is None else names
    return [FeatureCard(name, _PALETTE[index % len(_PALETTE)]) for index, name in enumerate(called)]


def preset_group(name: str, tasks: NDArray[np.float64]) -> PresetGroup:
    return PresetGroup(name, [(format_task(w), w.tolist()) for w in tasks])

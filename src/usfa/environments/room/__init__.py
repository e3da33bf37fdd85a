"""The first-person room: rules, batch, Gymnasium environment, and policies that use the true state.

Modules that need the compiler are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from usfa.environments.room.objects import OBJECTS, ObjectType
from usfa.environments.room.rules import ACTIONS, Action, RoomRules

if TYPE_CHECKING:
    from usfa.environments.room.env import Room, RoomBatch
    from usfa.environments.room.oracle import Oracle, random_policy

__all__ = ["ACTIONS", "OBJECTS", "Action", "ObjectType", "Oracle", "Room", "RoomBatch", "RoomRules", "random_policy"]

_COMPILED = {"Oracle": "oracle", "Room": "env", "RoomBatch": "env", "random_policy": "oracle"}


def __getattr__(name: str) -> Any:
    if name not in _COMPILED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_COMPILED[name]}"), name)

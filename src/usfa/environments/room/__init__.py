"""The first-person room: its rules, B of them at once, one as a Gymnasium environment, and policies that see all.

What needs the compiler is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from usfa.environments.room.rules import ACTIONS, OBJECTS, Action, ObjectType, RoomRules

if TYPE_CHECKING:
    from usfa.environments.room.batch import RoomBatch
    from usfa.environments.room.env import Room
    from usfa.environments.room.oracle import Oracle, random_policy

__all__ = ["ACTIONS", "OBJECTS", "Action", "ObjectType", "Oracle", "Room", "RoomBatch", "RoomRules", "random_policy"]

_COMPILED = {"Oracle": "oracle", "Room": "env", "RoomBatch": "batch", "random_policy": "oracle"}


def __getattr__(name: str) -> Any:
    if name not in _COMPILED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_COMPILED[name]}"), name)

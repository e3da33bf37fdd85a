"""Environments by name: ours, and any that Gymnasium knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from usfa.environments.one_state import OneState
from usfa.environments.trip import Trip
from usfa.errors import InputError, unknown_name

__all__ = ["ENVIRONMENTS", "make"]


@dataclass(frozen=True)
class _Entry:
    create: Callable[..., gym.Env[Any, Any]]
    about: str


def _doom_room(**arguments: Any) -> gym.Env[Any, Any]:
    from usfa.environments.doom import DoomRoom  # only who asks for it waits for it

    return DoomRoom(**arguments)


ENVIRONMENTS: dict[str, _Entry] = {
    "trip": _Entry(Trip, "Trip MDP (Section 4.1): coffee and food, 2 states, D=2; arguments places, exploration_cost"),
    "one-state": _Entry(OneState, "one-state MDP (Appendix A): stay or leave, D=1; argument gamma"),
    "room-doom": _Entry(
        _doom_room, "first-person room on ViZDoom (extra doom), D=4; arguments image_size and the fields of RoomRules"
    ),
}
"""The environments that come with the library, by the name that the command line uses."""


def make(name: str, **arguments: Any) -> gym.Env[Any, Any]:
    """An environment by our name ("trip") or by its Gymnasium id ("deep-sea-treasure-v0", "module:Env-v0")."""
    if name in ENVIRONMENTS:
        create: Callable[..., gym.Env[Any, Any]] = ENVIRONMENTS[name].create
    elif name in gym.registry or ":" in name:
        create = _from_gymnasium(name)
    else:
        raise unknown_name("environment", name, [*ENVIRONMENTS, *gym.registry])
    try:
        return create(**arguments)
    except (TypeError, gym.error.Error, ImportError) as error:
        raise InputError(f"Environment {name!r} cannot be made with {arguments}: {error}") from error


def _from_gymnasium(name: str) -> Callable[..., gym.Env[Any, Any]]:
    # Gymnasium's checker rejects vector rewards; our own check of φ happens where the batch is made.
    return lambda **arguments: gym.make(name, disable_env_checker=True, **arguments)

"""What can be played in: the room, finite MDPs, and everything that renders pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from usfa.agents import TrainedAgent
from usfa.environments import TabularEnv, check_trusted, make
from usfa.errors import InputError
from usfa.evaluation import exact_mdp
from usfa.playground.worlds.mdp import MdpWorld
from usfa.playground.worlds.picture import DoomWorld, PictureWorld
from usfa.playground.worlds.room import RoomWorld
from usfa.playground.worlds.world import Happening, World

__all__ = ["DoomWorld", "Happening", "MdpWorld", "PictureWorld", "RoomWorld", "World", "make_world"]


def make_world(agent: TrainedAgent, environment: str | None = None, trust: bool = False) -> World:
    """The world that an agent was trained in, or another that looks the same to it.

    Args:
        agent: who will act in it.
        environment: a name, in place of the one in the agent's file.
        trust: whether that file may name a module to import, for the environment or for φ.
    """
    check_trusted(agent.file.environment if environment is None else None, trust, agent.file.phi)
    name = agent.file.environment if environment is None else environment
    world = _make(name, agent.file.phi, agent.file.environment_arguments)
    _check_fits(agent, world)
    return world


def _make(name: str, phi: str, arguments: Mapping[str, Any]) -> World:
    if name == "room" and phi == "reward":
        return RoomWorld(arguments)
    if name == "room-doom" and phi == "reward":
        return DoomWorld(make(name, **arguments, render_mode="rgb_array", positions=True))
    plain = make(name, phi, **arguments)
    inner = plain.unwrapped
    if isinstance(inner, TabularEnv) and exact_mdp(plain) is not None:
        return MdpWorld(inner)
    plain.close()
    return PictureWorld(make(name, phi, **arguments, render_mode="rgb_array"))


def _check_fits(agent: TrainedAgent, world: World) -> None:
    spec = agent.file.spec
    found = (world.observation.shape, len(world.actions), len(world.features))
    expected = (spec.observation.shape, spec.actions, spec.features)
    if found != expected:
        raise InputError(
            f"The environment has observations {found[0]}, {found[1]} actions and {found[2]} features; the agent "
            f"expected {expected[0]}, {expected[1]} and {expected[2]}."
        )

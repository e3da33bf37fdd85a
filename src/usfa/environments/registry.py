"""Environments by name: ours, and any that Gymnasium knows."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym

from usfa.environments.batch import Batch, Environment, EnvironmentBatch
from usfa.errors import InputError, unknown_name

__all__ = ["ENVIRONMENTS", "EnvironmentSource", "check_trusted", "make", "source"]


@dataclass(frozen=True)
class _Entry:
    where: str  # "module:class" below usfa.environments, imported when it is made
    about: str
    batch: str | None = None  # "module:function" for many of them that are faster together

    @property
    def create(self) -> Callable[..., Environment]:
        created: Callable[..., Environment] = _imported(self.where)
        return created

    @property
    def create_batch(self) -> Callable[..., Batch] | None:
        return _imported(self.batch) if self.batch else None


def _imported(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(f"usfa.environments.{module}"), name)


ENVIRONMENTS: dict[str, _Entry] = {
    "trip": _Entry(
        "trip:Trip", "Trip MDP (Section 4.1): coffee and food, 2 states, D=2; arguments places, exploration_cost"
    ),
    "one-state": _Entry("one_state:OneState", "one-state MDP (Appendix A): stay or leave, D=1; argument gamma"),
    "room": _Entry(
        "room:Room",
        "first-person room (Section 4.2): TVs, balls, hats and balloons, 84×84 pixels, D=4; arguments image_size, "
        "types, objects_per_type, side, layout, respawn, decisions, frame_stack",
        batch="room.batch:room_batch",
    ),
    "room-doom": _Entry(
        "doom:DoomRoom",
        "the same room on ViZDoom (extra doom), D=4; arguments image_size and those of the room",
    ),
}
"""The environments that come with the library, by the name that the command line uses."""


@dataclass(frozen=True)
class EnvironmentSource:
    """Where an agent acts: one environment to look at, or as many as wanted, stepped together."""

    create: Callable[[], Environment]
    create_batch: Callable[[Sequence[int], float], Batch] | None = None
    """From a seed per environment and γ; None steps a list of single ones."""

    def one(self) -> Environment:
        return self.create()

    def batch(self, seeds: Sequence[int], gamma: float) -> Batch:
        if self.create_batch is not None:
            return self.create_batch(seeds, gamma)
        return EnvironmentBatch([self.create() for _ in seeds], gamma, seeds)


def source(name: str, **arguments: Any) -> EnvironmentSource:
    """Environments by name, as in :func:`make`."""
    together = ENVIRONMENTS[name].create_batch if name in ENVIRONMENTS else None

    def create_batch(seeds: Sequence[int], gamma: float) -> Batch:
        assert together is not None
        with _explained(name, arguments):
            return together(seeds, gamma, **arguments)

    return EnvironmentSource(partial(make, name, **arguments), None if together is None else create_batch)


def make(name: str, **arguments: Any) -> Environment:
    """An environment by our name ("trip") or by its Gymnasium id ("mo_gymnasium:deep-sea-treasure-v0")."""
    if name in ENVIRONMENTS:
        create = ENVIRONMENTS[name].create
    elif name in gym.registry or ":" in name:
        create = _from_gymnasium(name)
    else:
        near = difflib.get_close_matches(name, gym.registry, n=1)
        raise unknown_name("environment", name, [*ENVIRONMENTS, *near])
    with _explained(name, arguments):
        return create(**arguments)


@contextmanager
def _explained(name: str, arguments: Mapping[str, Any]) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError, AssertionError, ImportError, gym.error.Error) as error:
        raise InputError(f"Environment {name!r} cannot be made with {dict(arguments)}: {error}") from error


def check_trusted(name: str, trust: bool) -> None:
    """Refuse to import a module because a file from somebody else names it.

    "module:Env-v0" makes Gymnasium import the module, which runs its code. Modules that the user has imported are fine.
    """
    module, colon, _ = name.partition(":")
    if colon and not trust and module not in sys.modules:
        raise InputError(
            f"The file names the environment {name!r}, which would import and run the module {module!r}; "
            "import it first or say trust (--trust) if you know it."
        )


def _from_gymnasium(name: str) -> Callable[..., Environment]:
    # Gymnasium's checker rejects vector rewards; our own check of φ happens where the batch is made.
    return lambda **arguments: gym.make(name, disable_env_checker=True, **arguments)

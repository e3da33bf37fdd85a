"""Environments by name: built-in ones, those of Gymnasium and MO-Gymnasium, and the user's own."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from usfa.environments.batch import Batch, Environment, EnvironmentBatch, close_environment
from usfa.environments.learned import LEARNED, FrozenPhi, LearnedBatch, with_rewards
from usfa.environments.minecart import SeededOre, is_minecart
from usfa.environments.rewards import RewardsOfTasks, RewardVector, rewards_of
from usfa.environments.vector_reward import PhiSource, learned_phi, with_phi
from usfa.errors import InputError, similar_name, told, unknown_name
from usfa.registry import import_module
from usfa.tasks import parse_task

__all__ = [
    "ENVIRONMENTS",
    "EnvironmentSource",
    "check_trusted",
    "make",
    "register",
    "rewarded",
    "similar_environments",
    "source",
]


@dataclass(frozen=True)
class _Entry:
    where: str  # "module:class" below usfa.environments, imported on first use
    about: str
    batch: str | None = None  # "module:function" that makes a faster batch

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
        "tabular:Trip", "Trip MDP (Section 4.1): coffee and food, 2 states, D=2; arguments places, exploration_cost"
    ),
    "one-state": _Entry("tabular:OneState", "one-state MDP (Appendix A): stay or leave, D=1; argument gamma"),
    "room": _Entry(
        "room:Room",
        "first-person room (Section 4.2): TVs, balls, hats and balloons, 84×84 pixels, D=4; arguments image_size, "
        "types, objects_per_type, side, layout, respawn, decisions, frame_stack, field_of_view",
        batch="room.env:room_batch",
    ),
    "room-doom": _Entry(
        "doom:DoomRoom",
        "the same room on ViZDoom (extra doom), D=4; arguments image_size, field_of_view and those of the room",
    ),
}
"""The built-in environments by their name on the command line."""


_REGISTERED: dict[str, Callable[..., Environment]] = {}


def register(name: str, environment: Callable[..., Environment] | Environment) -> None:
    """Register a class, a function, or an instance to copy, under a name for configurations in this process."""
    if not isinstance(name, str) or ":" in name or name in ENVIRONMENTS:
        raise InputError(f"The environment cannot be registered as {name!r}; expected a new name without a colon.")
    if not (callable(environment) or isinstance(environment, gym.Env)):
        raise InputError(f"The environment is {environment!r}; expected a class, a function, or a gymnasium.Env.")
    _REGISTERED[name] = partial(_copy, environment) if isinstance(environment, gym.Env) else environment


@dataclass(frozen=True)
class EnvironmentSource:
    """Makes environments: a single one, or a batch."""

    create: Callable[[], Environment]
    create_batch: Callable[[Sequence[int], float], Batch] | None = None
    """Makes a batch from seeds, one per environment, and γ; if None, a batch is a list of single environments."""

    def one(self) -> Environment:
        return self.create()

    @contextmanager
    def opened(self) -> Iterator[Environment]:
        """Make one and close it afterwards."""
        env = self.one()
        try:
            yield env
        finally:
            close_environment(env)

    def batch(self, seeds: Sequence[int], gamma: float) -> Batch:
        if self.create_batch is not None:
            return self.create_batch(seeds, gamma)
        return EnvironmentBatch([self.create() for _ in seeds], gamma, seeds)


def source(
    environment: str | Callable[..., Environment] | Environment, /, phi: PhiSource = "reward", **arguments: Any
) -> EnvironmentSource:
    """Make a source of environments from a name, as in :func:`make`, a class or function, or an instance to copy.

    Copies start with the same random generator: they differ only if `reset(seed=…)` seeds it, as it should.
    """
    learned = learned_phi(phi)
    if learned is not None:
        return _with_learned(source(environment, **arguments), learned)
    if isinstance(environment, gym.Env):
        if arguments:
            raise InputError(
                f"The environment {environment} is an instance with the arguments {arguments}; expected no arguments."
            )
        return EnvironmentSource(lambda: _prepared(_copy(environment), phi))
    if not isinstance(environment, str):
        return EnvironmentSource(lambda: _prepared(_created(environment, repr(environment), arguments), phi))
    if environment in _REGISTERED:  # keep the creator, because other processes do not know the name
        created = _REGISTERED[environment]
        return EnvironmentSource(lambda: _prepared(_created(created, repr(environment), arguments), phi))
    together = ENVIRONMENTS[environment].create_batch if environment in ENVIRONMENTS and phi == "reward" else None

    def create_batch(seeds: Sequence[int], gamma: float) -> Batch:
        assert together is not None
        with _explained(repr(environment), arguments):
            return together(seeds, gamma, **arguments)

    return EnvironmentSource(partial(make, environment, phi, **arguments), None if together is None else create_batch)


def _with_learned(inside: EnvironmentSource, phi: FrozenPhi) -> EnvironmentSource:
    """Environments whose φ is learned; φ is computed for a whole batch at once."""

    def create_batch(seeds: Sequence[int], gamma: float) -> Batch:
        together = (rewarded(inside, phi.rewards) if phi.rewards else inside).create_batch
        if together is not None:
            return LearnedBatch(together(seeds, gamma), phi)
        envs = [with_rewards(inside.create(), phi.rewards) for _ in seeds]
        return LearnedBatch(EnvironmentBatch(envs, gamma, seeds), phi)

    return EnvironmentSource(lambda: with_phi(inside.create(), phi), create_batch)


def rewarded(inside: EnvironmentSource, texts: Sequence[str]) -> EnvironmentSource:
    """Environments whose reward is the vector of several scalar rewards, see :class:`Reward`."""
    rewards = rewards_of(texts)
    tasks = [reward.w for reward in rewards if reward.w is not None]

    def create_batch(seeds: Sequence[int], gamma: float) -> Batch:
        assert inside.create_batch is not None
        batch = inside.create_batch(seeds, gamma)
        w = np.stack([parse_task(task, batch.features) for task in tasks])
        return RewardsOfTasks(batch, w)

    together = inside.create_batch is not None and len(tasks) == len(rewards)
    return EnvironmentSource(lambda: RewardVector(inside.create(), rewards), create_batch if together else None)


def make(name: str, /, phi: PhiSource = "reward", **arguments: Any) -> Environment:
    """Make an environment by name.

    Args:
        name: a built-in one ("trip"), or a registered one, see :func:`register`; an id of Gymnasium or MO-Gymnasium
            ("minecart-v0"), if need be with the module that registers it ("own_module:Own-v0"); or a class of your own
            ("own_module:Own") or a function that makes one. Modules are imported.
        phi: source of φ: "reward", "info", "module:function" or a function, see :class:`VectorReward`.
        arguments: arguments of the environment.
    """
    if not isinstance(name, str):
        raise InputError(f"The environment is {name!r}; expected its name, such as 'trip' or 'own_module:Own'.")
    return _prepared(_created(_creator(name), repr(name), arguments), phi)


def _prepared(env: Environment, phi: PhiSource) -> Environment:
    """The environment with φ as its reward, and with all its randomness from its seed."""
    return with_phi(SeededOre(env) if is_minecart(env) else env, phi)


def _creator(name: str) -> Callable[..., Environment]:
    if name in ENVIRONMENTS:
        return ENVIRONMENTS[name].create
    if name in _REGISTERED:
        return _REGISTERED[name]
    if ":" in name:
        return _from_module(name)
    if name not in gym.registry:
        _register_mo_gymnasium(name)
    if name not in gym.registry:
        raise _unknown(name)
    return _from_gymnasium(name)


def _unknown(name: str) -> InputError:
    similar = similar_environments(name)
    if re.search(r"-v\d+$", name) and not similar and not _has_mo_gymnasium():
        return InputError(
            f"Unknown environment {name!r}: if it is one of MO-Gymnasium, install that with pip install 'usfa[mo]'."
        )
    return unknown_name("environment", name, [*ENVIRONMENTS, *similar])


def similar_environments(name: str) -> list[str]:
    """The id of Gymnasium or MO-Gymnasium closest to a name, if any."""
    with suppress(InputError):  # a broken MO-Gymnasium should not hide the hint
        _register_mo_gymnasium(name)
    similar = similar_name(name, gym.registry)
    return [] if similar is None else [similar]


def _from_module(name: str) -> Callable[..., Environment]:
    """Find a class "module:Class", a function that makes environments, or an id that the module registers."""
    module, _, inside = name.partition(":")
    found = import_module(module, f"the environment {name!r}")
    thing = getattr(found, inside, None)
    if thing is None and inside.isidentifier() and inside not in gym.registry:
        own = [key for key, value in vars(found).items() if _is_environment(value) and value.__module__ == module]
        hint = f"; expected one of {', '.join(own)}" if own else " and no environment of its own"
        raise InputError(f"The module {module!r} has no {inside!r}{hint}.")
    if thing is None:
        return _from_gymnasium(name)
    if not _is_environment(thing) and (isinstance(thing, type) or not callable(thing)):
        raise InputError(
            f"{name!r} is {thing!r}; expected a class derived from gymnasium.Env, or a function that makes one."
        )
    created: Callable[..., Environment] = thing
    return created


def _is_environment(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, gym.Env)


def _register_mo_gymnasium(name: str) -> None:
    """Import MO-Gymnasium, which registers its ids."""
    if _has_mo_gymnasium():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other packages
            import_module("mo_gymnasium", f"the environment {name!r}")


def _has_mo_gymnasium() -> bool:
    return importlib.util.find_spec("mo_gymnasium") is not None


def _from_gymnasium(name: str) -> Callable[..., Environment]:
    # Gymnasium's checker rejects vector rewards; the batch checks φ.
    return partial(gym.make, name, disable_env_checker=True)


def _created(create: Callable[..., Environment], name: str, arguments: Mapping[str, Any]) -> Environment:
    with _explained(name, arguments), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered by casting")  # of bounds; harmless
        env = create(**arguments)
    if not isinstance(env, gym.Env):
        raise InputError(f"Environment {name} is {env!r}; expected a gymnasium.Env.")
    return env


@contextmanager
def _explained(name: str, arguments: Mapping[str, Any]) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # the environment is the user's code and may raise anything
        raise InputError(f"Environment {name} cannot be made with {dict(arguments)}: {told(error)}.") from error


def _copy(env: Environment) -> Environment:
    try:
        return copy.deepcopy(env)
    except Exception as error:  # the environment is the user's code and may raise anything
        raise InputError(
            f"The environment {env} cannot be copied: {told(error)}; expected a function that makes a new one."
        ) from error


def check_trusted(name: str | None, trust: bool, phi: str = "reward") -> None:
    """Raise InputError if a file, which may come from anyone, would run code that the user has not chosen.

    "module:Env-v0" and "module:Class" import the module, which runs its code. Environment classes in modules that the
    user has imported are allowed. Functions are not, neither for the environment nor for φ, because they would be
    called with arguments from the file.

    Args:
        name: name of the environment; None if it does not come from the file.
        trust: allow everything.
        phi: source of φ.
    """
    module, colon, inside = (name or "").partition(":")
    if colon and not trust and module not in sys.modules:
        raise InputError(
            f"The file names the environment {name!r}, which would import and run the module {module!r}; "
            "import it first or set trust (--trust) if you know it."
        )
    thing = getattr(sys.modules.get(module), inside, None) if colon else None
    if thing is not None and not _is_environment(thing) and not trust:
        raise InputError(
            f"The file names the function {name!r} for its environment, which would be run; set trust (--trust) if "
            "you know it."
        )
    if ":" in phi and not phi.startswith(LEARNED) and not trust:
        raise InputError(
            f"The file names the function {phi!r} for φ, which would be run; set trust (--trust) if you know it."
        )

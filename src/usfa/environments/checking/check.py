"""One call: what is wrong with this environment?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any

import gymnasium as gym
from rich.console import Console

from usfa.environments.batch import Environment
from usfa.environments.checking.declared import declared
from usfa.environments.checking.findings import Finding, collect
from usfa.environments.checking.playing import play
from usfa.environments.checking.repeating import independence, resuming, seeding
from usfa.environments.registry import source
from usfa.environments.vector_reward import PhiSource, with_phi
from usfa.errors import InputError
from usfa.progress import ProgressBar, progress_bar

__all__ = ["check_environment"]


def check_environment(
    environment: str | Callable[..., Environment] | Environment,
    /,
    phi: PhiSource = "reward",
    *,
    arguments: Mapping[str, Any] | None = None,
    steps: int = 1000,
    seed: int = 0,
    console: Console | None = None,
) -> list[Finding]:
    """Act in an environment at random and tell what an agent would stumble over, the worst first.

    No error means that `usfa train` will run. InputError if the environment cannot be made at all.

    Args:
        environment: a name, as for :func:`usfa.environments.make`; a class or function that makes one; or one that is
            there, which is left open.
        phi: where φ comes from: "reward", "info", "module:function" or a function.
        arguments: of the environment.
        steps: how many random steps to look at.
        seed: of the environment and the actions.
        console: where to show progress, as long as it lasts.
    """
    if steps < 1 or seed < 0:
        raise InputError(f"steps is {steps} and seed {seed}; expected at least 1, and 0 or more.")
    with ExitStack() as stack:
        bar = stack.enter_context(progress_bar("random steps", steps, "steps", console, stays=False))
        if isinstance(environment, gym.Env):
            return collect(_everything(with_phi(environment, phi), None, steps, seed, bar))
        made = source(environment, phi, **(arguments or {}))
        env, another = (stack.enter_context(closing(made.one())) for _ in range(2))
        return collect(_everything(env, another, steps, seed, bar))


def _everything(
    env: Environment, another: Environment | None, steps: int, seed: int, bar: ProgressBar
) -> Iterator[Finding]:
    spaces = yield from declared(env)
    yield from play(env, spaces, steps, seed, bar)
    walk = yield from seeding(env, spaces.actions, seed)
    if walk is None:
        return  # what cannot be repeated cannot be compared
    if another is None or (yield from independence(env, another, spaces.actions, seed, walk)):
        yield from resuming(env, another or env, spaces.actions, seed)

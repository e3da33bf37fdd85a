"""What an environment says about itself, before it is stepped."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from usfa.environments.batch import Environment
from usfa.environments.checking.findings import Broken, Finding, error, note
from usfa.environments.spaces import ObservationSpec, action_count, feature_count
from usfa.errors import InputError, told

__all__ = ["Declared", "declared"]


@dataclass(frozen=True)
class Declared:
    """The spaces that steps are compared with."""

    observation_space: gym.Space[Any]
    observation: ObservationSpec
    actions: int
    reward_space: gym.spaces.Box | None  # None if there is none that fits


def declared(env: Environment) -> Generator[Finding, None, Declared]:
    """Looks at the three spaces; returns them if an agent can act."""
    observation, actions = _observation(env), _actions(env)
    space = env.get_wrapper_attr("reward_space") if env.has_wrapper_attr("reward_space") else None
    try:
        features = feature_count(env)
    except InputError:
        yield error(
            "reward-space",
            f"reward_space is {space}: set self.reward_space = gymnasium.spaces.Box(low, high, (D,)) and return φ as "
            'the reward, or say where φ is: phi="info" for info["vector_reward"], or a function of the transition.',
        )
        return Declared(env.observation_space, observation, actions, None)
    yield note(
        "spaces", f"Observations: {observation.describe()}; A = {actions} actions, D = {features} features of φ."
    )
    return Declared(env.observation_space, observation, actions, space)


def _observation(env: Environment) -> ObservationSpec:
    space = getattr(env, "observation_space", None)
    if not isinstance(space, gym.Space):
        raise Broken("observation-space", f"observation_space is {space!r}; set it to a space of gymnasium.spaces.")
    try:
        return ObservationSpec.of(space)
    except InputError as problem:
        raise Broken("observation-space", str(problem)) from problem


def _actions(env: Environment) -> int:
    space = getattr(env, "action_space", None)
    if not isinstance(space, gym.Space):
        raise Broken("action-space", f"action_space is {space!r}; set it to gymnasium.spaces.Discrete(A).")
    try:
        return action_count(env)
    except InputError as problem:
        raise Broken(
            "action-space",
            f"{told(problem)}: choose some actions and number them with gymnasium.wrappers.TransformAction.",
        ) from problem

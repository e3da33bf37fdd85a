"""Names of the features φ of an environment, for figures and pages."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from usfa.environments.learned import LearnedReward
from usfa.environments.spaces import feature_count
from usfa.environments.vector_reward import VectorReward

__all__ = ["feature_names"]

_TREASURE = ("treasure", "time")
_MINECART = ("ore 1", "ore 2", "fuel")
_RUNNER = ("speed", "control cost")
_JUMPER = ("speed", "height", "control cost")
_MO_GYMNASIUM: dict[str, tuple[str, ...]] = {
    "breakable-bottles": ("time", "bottles", "potential"),
    "deep-sea-treasure": _TREASURE,
    "deep-sea-treasure-concave": _TREASURE,
    "deep-sea-treasure-mirrored": _TREASURE,
    "fishwood": ("wood", "fish"),
    "four-room": ("blue square", "green triangle", "red circle"),
    "fruit-tree": ("protein", "carbs", "fats", "vitamins", "minerals", "water"),
    "minecart": _MINECART,
    "minecart-deterministic": _MINECART,
    "minecart-rgb": _MINECART,
    "mo-halfcheetah": _RUNNER,
    "mo-highway": ("speed", "right lane", "collision"),
    "mo-highway-fast": ("speed", "right lane", "collision"),
    "mo-hopper": _JUMPER,
    "mo-humanoid": _RUNNER,
    "mo-lunar-lander": ("landing", "shaping", "main engine", "side engine"),
    "mo-reacher": ("target 1", "target 2", "target 3", "target 4"),
    "mo-swimmer": _RUNNER,
    "mo-walker2d": _RUNNER,
    "resource-gathering": ("survival", "gold", "diamond"),
}
"""Objectives of MO-Gymnasium's environments, by name without version; MO-Gymnasium itself has no names for them."""


def feature_names(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    """A name for each feature: the environment's own `feature_names`, MO-Gymnasium's objectives, or φ1, φ2, …

    If a function of the user computes φ, the features are φ1, φ2, …, because they are not those of the environment.
    """
    if isinstance(env, LearnedReward):
        return env.phi.feature_names
    count = feature_count(env)
    inner: Any = env.unwrapped
    spec = env.spec.id.rpartition("-v")[0] if env.spec is not None else ""
    names = tuple(str(name) for name in getattr(inner, "feature_names", _MO_GYMNASIUM.get(spec, ())))
    own_phi = isinstance(env, VectorReward) and env.computes_phi
    return names if len(names) == count and not own_phi else tuple(f"φ{index + 1}" for index in range(count))

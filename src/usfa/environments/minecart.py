"""The minecart of MO-Gymnasium, with ore drawn from its own random generator."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

__all__ = ["SeededOre", "is_minecart"]


class SeededOre(gym.Wrapper[Any, Any, Any, Any]):
    """Draws ore from the environment's generator, not from NumPy's global one, so that a seed determines an episode.

    The pictures of minecart-rgb-v0 still depend on the global one: it turns every mine by a random angle, once.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        minecart: Any = self.unwrapped
        for mine in minecart.mines:
            for ore in mine.distributions:
                ore.random_state = minecart.np_random
        return observation, info


def is_minecart(env: gym.Env[Any, Any]) -> bool:
    """Whether an environment is MO-Gymnasium's minecart, perhaps in wrappers."""
    return type(env.unwrapped).__module__.startswith("mo_gymnasium.envs.minecart")

"""The minecart of MO-Gymnasium, with ore drawn from its own random generator."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

__all__ = ["SeededOre", "draws_ore"]


class SeededOre(gym.Wrapper[Any, Any, Any, Any]):
    """Draws ore from the environment's generator, not from NumPy's global one, so that a seed determines an episode."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        minecart: Any = self.unwrapped
        for mine in minecart.mines:
            for ore in mine.distributions:
                ore.random_state = minecart.np_random
        return observation, info


def draws_ore(env: gym.Env[Any, Any]) -> bool:
    """Whether an environment is a minecart."""
    return env.spec is not None and env.spec.id.startswith("minecart-")

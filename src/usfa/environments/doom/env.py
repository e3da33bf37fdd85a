"""The room on ViZDoom: a real 3D engine behind the same spaces, actions and features."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from usfa.environments.doom.engine import Camera, Engine
from usfa.environments.room.rules import ACTIONS, OBJECTS, RoomRules
from usfa.errors import InputError

__all__ = ["DoomRoom"]

Image = NDArray[np.uint8]  # [height, width, 3]


class DoomRoom(gym.Env[Image, np.int64]):
    """One large room in first person, moved and drawn by Doom.

    ## Observation
    An image of shape [height, width, 3], uint8, 80 degrees wide.

    ## Actions
    Discrete; `action_names` says what they do. What an action means in metres and degrees stands in the rules; how
    exactly Doom follows them, in :mod:`usfa.environments.doom.scenario`.

    ## Reward
    The vector φ of shape [D] (`reward_space`): how many objects of each type were collected on this transition.

    ## Episode
    Agent and objects start at random places. The episode is truncated after `decisions` steps and never terminates.

    Args:
        image_size: a number for a square, or (height, width).
        render_mode: None or "rgb_array".
        positions: whether `info` holds "agent", [x, y, heading], and "objects", a row [type, x, y] for each of them,
            in metres and radians, counter-clockwise from the x axis. It costs a little time.
        rules: the room; or give its fields by name, see :class:`~usfa.environments.room.RoomRules`.
    """

    def __init__(
        self,
        image_size: int | tuple[int, int] = 84,
        *,
        render_mode: str | None = None,
        positions: bool = False,
        rules: RoomRules | None = None,
        **fields: Any,
    ) -> None:
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 15}
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InputError(f"render_mode is {render_mode!r}; expected None or 'rgb_array'.")
        self.render_mode = render_mode
        if rules is not None and fields:
            raise InputError(f"The rules came whole and in parts ({', '.join(fields)}); expected one or the other.")
        self.rules = rules or RoomRules(**fields)
        height, width = image_size if isinstance(image_size, tuple) else (image_size, image_size)
        self._engine = Engine(self.rules, Camera(height, width), positions=positions)
        self._positions = positions
        self.action_names = tuple(action.name for action in ACTIONS)
        self.step_limit = self.rules.decisions
        self.object_names = tuple(kind.name for kind in OBJECTS[: self.rules.types])
        self.action_space = gym.spaces.Discrete(len(ACTIONS))
        self.observation_space = gym.spaces.Box(0, 255, (height, width, 3), np.uint8)
        self.reward_space = gym.spaces.Box(0, self.rules.most_per_step, (self.rules.types,), np.float32)
        self._collected = np.zeros(self.rules.types, np.int64)  # so far in this episode
        self._left = 0  # decisions of this episode
        self._image: Image | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Image, dict[str, Any]]:
        super().reset(seed=seed)
        if not self._engine.close.alive:
            raise InputError("The Doom room is closed; expected a new one to be made.")
        self._engine.start(int(self.np_random.integers(2**31)))
        *collected, placed = self._engine.counters()
        if placed < 1 + self.rules.objects:
            raise InputError(
                f"Only {placed} of the agent and {self.rules.objects} objects found a place; expected a larger room, "
                "fewer objects or a smaller clearance."
            )
        self._collected[:] = collected
        self._left = self.rules.decisions
        self._image = self._engine.image()
        return self._image.copy(), self._info()

    def step(self, action: int | np.int64) -> tuple[Image, NDArray[np.float32], bool, bool, dict[str, Any]]:
        if action not in self.action_space:
            raise InputError(f"Action {action!r} does not exist; expected 0 to {len(ACTIONS) - 1}.")
        if not self._left:
            raise InputError("There is no episode to step; expected a call of reset() first.")
        self._engine.act(ACTIONS[int(action)])
        collected = self._engine.counters()[:-1]
        phi = (collected - self._collected).astype(np.float32)
        self._collected[:] = collected
        self._left -= 1
        self._image = self._engine.image()
        return self._image.copy(), phi, False, self._left == 0, self._info()

    def render(self) -> Image | None:
        """The present observation; nothing without a render mode."""
        if not self.render_mode:
            return None
        if self._image is None:
            raise InputError("There is nothing to show; expected a call of reset() first.")
        return self._image.copy()

    def close(self) -> None:
        """End the Doom process and delete its files; a second call does nothing."""
        self._engine.close()
        self._left = 0

    def _info(self) -> dict[str, Any]:
        return {"agent": self._engine.agent(), "objects": self._engine.objects()} if self._positions else {}

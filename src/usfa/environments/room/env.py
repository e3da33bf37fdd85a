"""One room as a Gymnasium environment with vector reward: a batch of one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from usfa.environments.room.batch import RoomBatch
from usfa.environments.room.rules import OBJECTS, RoomRules
from usfa.errors import InputError

__all__ = ["Room"]

Image = NDArray[np.uint8]


class Room(gym.Env[Image, np.int64]):
    """A square room with objects of D types, seen in first person; walking over an object collects it.

    ## Observation
    Box uint8 [image_size, image_size, 3 · frame_stack]: what the agent sees, the newest frame last.

    ## Actions
    Discrete(8), named in `action_names`: forward, backward, strafe left and right, turn left and right, forward while
    turning left and right. Each is held for four frames of 1/60 s.

    ## Reward
    φ of shape [D], as in MO-Gymnasium (`reward_space`): how many objects of each type, named in `object_names`, were
    collected on this transition.

    ## Episode
    Ends by truncation after `decisions` steps (one minute), never by termination.

    Args:
        image_size: height and width of the observation in pixels.
        frame_stack: frames in an observation.
        render_mode: "rgb_array", or nothing.
        render_size: height and width of what :meth:`render` shows.
        rules: the room; or give its fields by name (`types=2, side=8.0, layout="..."`), see :class:`RoomRules`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012  Gymnasium's own way

    def __init__(
        self,
        image_size: int = 84,
        frame_stack: int = 1,
        render_mode: str | None = None,
        render_size: int = 336,
        rules: RoomRules | None = None,
        **fields: Any,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise InputError(f"render_mode is {render_mode!r}; expected 'rgb_array' or None.")
        if rules is not None and fields:
            raise InputError(f"The rules came whole and in parts ({', '.join(fields)}); expected one or the other.")
        if not 8 <= render_size <= 2048:
            raise InputError(f"render_size is {render_size}; expected 8 to 2048.")
        self.rules = rules or RoomRules(**fields)
        self.render_mode, self.render_size = render_mode, render_size
        self._batch = RoomBatch(1, self.rules, image_size=image_size, frame_stack=frame_stack)
        self._ready = False
        self.action_names = self._batch.action_names
        self.step_limit = self.rules.decisions
        self.object_names = tuple(kind.name for kind in OBJECTS[: self.rules.types])
        self.observation_space = gym.spaces.Box(0, 255, self._batch.observation.shape[1:], np.uint8)
        self.action_space = gym.spaces.Discrete(self._batch.actions)
        most = float(self.rules.most_per_step)
        self.reward_space = gym.spaces.Box(0.0, most, (self.rules.types,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Image, dict[str, Any]]:
        super().reset(seed=seed)
        self._batch.reset([int(self.np_random.integers(2**63))])
        self._ready = True
        return self._batch.observation[0].copy(), {}

    def step(self, action: int | np.int64) -> tuple[Image, NDArray[np.float32], bool, bool, dict[str, Any]]:
        if not self._ready:
            raise InputError("The episode has not begun, or is over; call reset first.")
        step = self._batch.step(np.array([action]))
        self._ready = not step.ended[0]
        return self._batch.observation[0].copy(), step.phi[0].copy(), False, bool(step.ended[0]), {}

    def render(self) -> Image | None:
        """The present view, larger than the observation; nothing without a render mode."""
        return self._batch.render(self.render_size)[0] if self.render_mode == "rgb_array" else None

    def get_state(self) -> dict[str, Any]:
        """Everything the next step depends on, JSON-ready, for exact resume."""
        return {**self._batch.state(), "ready": self._ready, "rng": self.np_random.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`get_state` was taken."""
        self._batch.load_state(state)
        self._ready = state["ready"]
        self.np_random.bit_generator.state = state["rng"]

"""B rooms stepped and drawn in one call, written into arrays that are made once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usfa.environments.batch import Step
from usfa.environments.room.drawing import draw, make_camera
from usfa.environments.room.rules import ACTIONS, RoomRules
from usfa.environments.room.textures import textures
from usfa.environments.room.world import World, advance, make_outcome, make_plan, make_world, start
from usfa.errors import InputError

__all__ = ["RoomBatch", "room_batch"]


class RoomBatch:
    """Rooms with the seams and statistics of :class:`usfa.environments.EnvironmentBatch`, hundreds of times faster.

    `observation`, `first`, `phi` and the arrays of the :class:`Step` are written in place: copy what has to outlive
    the next step. Episodes end by truncation only: `observation` then is the last of the episode, and the next step is
    a seam that only resets.

    Args:
        size: B.
        rules: of every room.
        seeds: one per room, as in :meth:`reset`; by default 0 to B - 1.
        image_size: H = W in pixels.
        frame_stack: how many of the latest frames an observation holds, newest last along the channels.
        gamma: γ, the discount that a :class:`Step` reports.
    """

    observation: NDArray[np.uint8]  # [B, H, W, 3 · frame_stack]
    legal: NDArray[np.bool_]  # [B, A]
    first: NDArray[np.bool_]  # [B]
    phi: NDArray[np.float32]  # [B, D]  of the last step
    saves_exactly = True
    action_names = tuple(action.name for action in ACTIONS)

    def __init__(
        self,
        size: int,
        rules: RoomRules | None = None,
        *,
        seeds: Sequence[int] | None = None,
        image_size: int = 84,
        frame_stack: int = 1,
        gamma: float = 0.99,
    ) -> None:
        for name, value, most in (
            ("size", size, 100_000),
            ("image_size", image_size, 2048),
            ("frame_stack", frame_stack, 64),
        ):
            least = 8 if name == "image_size" else 1
            if not least <= value <= most:
                raise InputError(f"{name} is {value}; expected {least} to {most}.")
        if not 0 < gamma <= 1:
            raise InputError(f"gamma is {gamma}; expected a number above 0, at most 1.")
        self.rules = rules = rules or RoomRules()
        self.features, self.actions = rules.types, len(ACTIONS)
        self.gamma = gamma
        self._plan = make_plan(rules)
        self.world: World = make_world(rules, size)
        self._camera, self._textures = make_camera(image_size, image_size, self.rules.objects), textures()
        self._frame = np.zeros((size, image_size, image_size, 3), np.uint8)
        stacked = (size, image_size, image_size, 3 * frame_stack)
        self.observation = self._frame if frame_stack == 1 else np.zeros(stacked, np.uint8)
        self.legal = np.ones((size, self.actions), np.bool_)
        self._outcome = make_outcome(size, rules.types)
        self.first, self.phi = self._outcome.first, self._outcome.phi
        outcome = self._outcome
        self._step = Step(
            outcome.phi, np.full(size, gamma, np.float32), outcome.real, outcome.episode_phi, outcome.ended
        )
        self.reset(range(size) if seeds is None else seeds)

    def __len__(self) -> int:
        return len(self.observation)

    def reset(self, seeds: Sequence[int]) -> NDArray[np.uint8]:
        """Begin an episode in each room, from its own seed; the observation is returned and kept."""
        if len(seeds) != len(self):
            raise InputError(f"{len(self)} rooms came with {len(seeds)} seeds; expected as many.")
        start(self.world, self._plan, seeds)
        self.first[:] = True
        self.phi[:] = 0.0
        self._show()
        return self.observation

    def step(self, action: ArrayLike) -> Step:
        """One decision in each room: action [B]."""
        self.move(action)
        self._show()
        return self._step

    def move(self, action: ArrayLike) -> None:
        """A step that is not drawn, for policies that do not look."""
        if np.asarray(action).dtype.kind not in "iu":
            raise InputError(f"The actions are {action!r}; expected whole numbers.")
        actions = np.ascontiguousarray(action, np.int64)
        if actions.shape != (len(self),):
            raise InputError(f"The actions have shape {actions.shape}; expected ({len(self)},), one per room.")
        if not advance(self.world, self._plan, actions, self._outcome):
            wrong = next(int(a) for a in actions if not 0 <= a < self.actions)
            names = ", ".join(f"{number} ({name})" for number, name in enumerate(self.action_names))
            raise InputError(f"Action {wrong} is unknown; expected one of {names}.")

    def render(self, image_size: int) -> NDArray[np.uint8]:
        """The present views at another size, [B, image_size, image_size, 3], in a new array."""
        if not 8 <= image_size <= 2048:
            raise InputError(f"image_size is {image_size}; expected 8 to 2048.")
        images = np.empty((len(self), image_size, image_size, 3), np.uint8)
        draw(self.world, self._plan, make_camera(image_size, image_size, self.rules.objects), self._textures, images)
        return images

    def _show(self) -> None:
        draw(self.world, self._plan, self._camera, self._textures, self._frame)
        if self.observation is self._frame:
            return
        self.observation[..., :-3] = self.observation[..., 3:]
        self.observation[..., -3:] = self._frame
        for room in np.flatnonzero(self.first):  # nothing came before: the first frame stands for it
            self.observation[room] = np.tile(self._frame[room], self.observation.shape[-1] // 3)

    def close(self) -> None:
        """Nothing to do: a room holds nothing but its arrays."""

    def state(self) -> dict[str, Any]:
        """Everything that the future depends on, JSON-ready."""
        state = {name: array.tolist() for name, array in self.world._asdict().items()}
        state["first"] = self.first.tolist()
        if self.observation is not self._frame:
            state["frames"] = self.observation.tolist()
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on exactly where :meth:`state` was taken."""
        for name, array in self.world._asdict().items():
            array[:] = np.array(state[name], array.dtype)
        self.first[:] = state["first"]
        self._show()
        if self.observation is not self._frame:
            self.observation[:] = state["frames"]


def room_batch(
    seeds: Sequence[int], gamma: float, image_size: int = 84, frame_stack: int = 1, **fields: Any
) -> RoomBatch:
    """Rooms by the arguments of :class:`usfa.environments.room.Room`, of which those for rendering have no effect."""
    for name in ("render_mode", "render_size"):
        fields.pop(name, None)
    return RoomBatch(
        len(seeds), RoomRules(**fields), seeds=seeds, image_size=image_size, frame_stack=frame_stack, gamma=gamma
    )

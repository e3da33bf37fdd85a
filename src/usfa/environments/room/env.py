"""The room as a batch that is stepped and drawn in one call, and as a single Gymnasium environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from usfa.environments.batch import Step
from usfa.environments.room.drawing import Camera, draw, make_camera
from usfa.environments.room.objects import OBJECTS
from usfa.environments.room.rules import ACTIONS, FIELD_OF_VIEW, RoomRules, check_field_of_view, given_rules
from usfa.environments.room.textures import textures
from usfa.environments.room.world import World, advance, make_outcome, make_plan, make_world, start
from usfa.errors import InputError

__all__ = ["Room", "RoomBatch", "room_batch"]

Image = NDArray[np.uint8]


class RoomBatch:
    """B rooms stepped together, hundreds of times faster than :class:`usfa.environments.EnvironmentBatch`.

    `observation`, `first`, `phi` and the arrays of the :class:`Step` are written in place: copy them to keep
    them beyond the next step. Episodes end by truncation only: `observation` is then the last of the episode, and the
    next step is a seam that only resets.

    Args:
        size: B.
        rules: rules of every room.
        seeds: one per room, as in :meth:`reset`; by default 0 to B - 1.
        image_size: H = W in pixels.
        frame_stack: number of latest frames in an observation, newest last along the channels.
        field_of_view: horizontal and vertical field of view in degrees (images are square), 20 to 150.
        gamma: γ, the discount of a :class:`Step`.
    """

    observation: NDArray[np.uint8]  # [B, H, W, 3 · frame_stack]
    legal: NDArray[np.bool_]  # [B, A]
    first: NDArray[np.bool_]  # [B]
    phi: NDArray[np.float32]  # [B, D]  of the last step
    action_names = tuple(action.name for action in ACTIONS)

    def __init__(
        self,
        size: int,
        rules: RoomRules | None = None,
        *,
        seeds: Sequence[int] | None = None,
        image_size: int = 84,
        frame_stack: int = 1,
        field_of_view: float = FIELD_OF_VIEW,
        gamma: float = 0.99,
    ) -> None:
        _check_range("size", size, 1, 100_000)
        _check_range("image_size", image_size, 8, 2048)
        _check_range("frame_stack", frame_stack, 1, 64)
        check_field_of_view(field_of_view)
        if not 0 < gamma <= 1:
            raise InputError(f"gamma is {gamma}; expected a number above 0, at most 1.")
        self.rules = rules = rules or RoomRules()
        self.features, self.actions = rules.types, len(ACTIONS)
        self.gamma = gamma
        self._plan = make_plan(rules)
        self.world: World = make_world(rules, size)
        self.field_of_view = field_of_view
        self._camera, self._textures = self.camera(image_size), textures()
        self._frame = np.zeros((size, image_size, image_size, 3), np.uint8)
        stacked = (size, image_size, image_size, 3 * frame_stack)
        self.observation = self._frame if frame_stack == 1 else np.zeros(stacked, np.uint8)
        self.legal = np.ones((size, self.actions), np.bool_)
        self._outcome = make_outcome(size, rules.types)
        phi, self.first, real, ended, episode_phi = self._outcome
        self.phi, discount = phi, np.full(size, gamma, np.float32)
        no_reward = np.full(size, np.nan, np.float32)
        self._step = Step(phi, discount, real, episode_phi, ended, no_reward)
        self.reset(range(size) if seeds is None else seeds)

    def __len__(self) -> int:
        return len(self.observation)

    @property
    def next_observation(self) -> NDArray[np.uint8]:
        """The observation after the last step; no episode terminates, so it is the present one."""
        return self.observation

    def reset(self, seeds: Sequence[int]) -> NDArray[np.uint8]:
        """Begin an episode in each room from its own seed; return the observation."""
        if len(seeds) != len(self):
            raise InputError(f"{len(self)} rooms have {len(seeds)} seeds; expected one per room.")
        start(self.world, self._plan, seeds)
        self.first[:] = True
        self.phi[:] = 0.0
        self._show()
        return self.observation

    def step(self, action: ArrayLike) -> Step:
        """Take one decision in each room; action is [B]."""
        self.move(action)
        self._show()
        return self._step

    def move(self, action: ArrayLike) -> None:
        """Step without drawing, for policies that do not use the image."""
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
        """Draw the present views at another size, [B, image_size, image_size, 3]."""
        _check_range("image_size", image_size, 8, 2048)
        images = np.empty((len(self), image_size, image_size, 3), np.uint8)
        draw(self.world, self._plan, self.camera(image_size), self._textures, images)
        return images

    def camera(self, image_size: int) -> Camera:
        """A camera for images of another size with the same field of view."""
        return make_camera(image_size, image_size, self.rules.objects, self.field_of_view)

    def _show(self) -> None:
        draw(self.world, self._plan, self._camera, self._textures, self._frame)
        if self.observation is self._frame:
            return
        self.observation[..., :-3] = self.observation[..., 3:]
        self.observation[..., -3:] = self._frame
        for room in np.flatnonzero(self.first):  # the first frame also fills the places of earlier ones
            self.observation[room] = np.tile(self._frame[room], self.observation.shape[-1] // 3)

    def close(self) -> None:
        """Do nothing: a room holds only arrays."""

    def state(self) -> dict[str, Any]:
        """Return everything the next step depends on, JSON-ready."""
        state = {name: array.tolist() for name, array in self.world._asdict().items()}
        state["first"] = self.first.tolist()
        if self.observation is not self._frame:
            state["frames"] = self.observation.tolist()
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from the state that :meth:`state` returned."""
        for name, array in self.world._asdict().items():
            array[:] = np.array(state[name], array.dtype)
        self.first[:] = state["first"]
        self._show()
        if self.observation is not self._frame:
            self.observation[:] = state["frames"]


def room_batch(
    seeds: Sequence[int],
    gamma: float,
    image_size: int = 84,
    frame_stack: int = 1,
    field_of_view: float = FIELD_OF_VIEW,
    **fields: Any,
) -> RoomBatch:
    """Make a batch from the arguments of :class:`Room`; those for rendering have no effect."""
    for name in ("render_mode", "render_size"):
        fields.pop(name, None)
    return RoomBatch(
        len(seeds),
        RoomRules(**fields),
        seeds=seeds,
        image_size=image_size,
        frame_stack=frame_stack,
        field_of_view=field_of_view,
        gamma=gamma,
    )


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InputError(f"{name} is {value}; expected {least} to {most}.")


class Room(gym.Env[Image, np.int64]):
    """A square room with objects of D types, seen in first person; walking over an object collects it.

    ## Observation
    Box uint8 [image_size, image_size, 3 · frame_stack]: the first-person view, the newest frame last.

    ## Actions
    Discrete(8), named in `action_names`: forward, backward, strafe left and right, turn left and right, forward while
    turning left and right. Each is held for four frames of 1/60 s.

    ## Reward
    φ of shape [D], as in MO-Gymnasium (`reward_space`): numbers of objects collected on this transition of each type
    in `feature_names`.

    ## Episode
    Ends by truncation after `decisions` steps (one minute), never by termination.

    Args:
        image_size: height and width of the observation in pixels.
        frame_stack: frames in an observation.
        render_mode: "rgb_array" or None.
        render_size: height and width of the image that :meth:`render` returns.
        field_of_view: horizontal and vertical field of view in degrees (images are square), 20 to 150.
        rules: the room; or give its fields by name (`types=2, side=8.0, layout="..."`), see :class:`RoomRules`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012  as in Gymnasium

    def __init__(
        self,
        image_size: int = 84,
        frame_stack: int = 1,
        render_mode: str | None = None,
        render_size: int = 336,
        field_of_view: float = FIELD_OF_VIEW,
        rules: RoomRules | None = None,
        **fields: Any,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise InputError(f"render_mode is {render_mode!r}; expected 'rgb_array' or None.")
        _check_range("render_size", render_size, 8, 2048)
        self.rules = given_rules(rules, fields)
        self.render_mode, self.render_size = render_mode, render_size
        self.field_of_view = field_of_view
        self._batch = RoomBatch(
            1, self.rules, image_size=image_size, frame_stack=frame_stack, field_of_view=field_of_view
        )
        self._ready = False
        self.action_names = self._batch.action_names
        self.step_limit = self.rules.decisions
        self.feature_names = tuple(kind.name for kind in OBJECTS[: self.rules.types])
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
        """Return the present view at render_size, or None without a render mode."""
        return self._batch.render(self.render_size)[0] if self.render_mode == "rgb_array" else None

    def get_state(self) -> dict[str, Any]:
        """Return everything the next step depends on, JSON-ready, for exact resume."""
        return {**self._batch.state(), "ready": self._ready, "rng": self.np_random.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from the state that :meth:`get_state` returned."""
        self._batch.load_state(state)
        self._ready = state["ready"]
        self.np_random.bit_generator.state = state["rng"]

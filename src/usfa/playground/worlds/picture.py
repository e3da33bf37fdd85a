"""Any environment that renders pictures; the Doom room tells its map as well."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from usfa.environments import Environment, ObservationSpec, action_count, feature_count
from usfa.environments.batch import failing_in
from usfa.environments.room import RoomRules
from usfa.errors import InputError
from usfa.playground.frames import shrunk
from usfa.playground.protocol import PresetGroup
from usfa.playground.worlds.room import object_cards, room_plan, room_presets
from usfa.playground.worlds.world import Happening, Pixels, WorldKind, feature_cards

__all__ = ["DoomWorld", "PictureWorld"]


class PictureWorld:
    """A Gymnasium environment with vector reward, made with render_mode "rgb_array"."""

    kind: WorldKind = "picture"
    smooth = False
    moment = 5
    rules: RoomRules | None = None

    def __init__(self, env: Environment) -> None:
        self._env = env
        inner: Any = env.unwrapped
        self.features = feature_cards(feature_count(env))
        self.actions = list(getattr(inner, "action_names", [f"action {index}" for index in range(action_count(env))]))
        self.presets: list[PresetGroup] = []
        self.rate = float(np.clip(env.metadata.get("render_fps") or 10, 2, 15))
        self._spec = ObservationSpec.of(env.observation_space)
        self.reset(0)

    def reset(self, seed: int) -> None:
        with failing_in("reset", self._env):
            self._arrive(*self._env.reset(seed=seed))

    def step(self, action: int) -> Happening:
        with failing_in("step", self._env):
            observation, phi, terminated, truncated, info = self._env.step(action)
            self._arrive(observation, info)
        return Happening(np.array(phi, np.float64), bool(terminated or truncated))

    def _arrive(self, observation: object, info: dict[str, Any]) -> None:
        self.observation: NDArray[Any] = self._spec.encode(observation)
        self.legal: NDArray[np.bool_] = np.array(info.get("action_mask", np.ones(len(self.actions))), np.bool_)
        self._info = info

    def plan(self) -> dict[str, Any]:
        return {}

    def place(self, share: float = 1.0) -> dict[str, Any] | None:
        return None

    def picture(self, size: int, share: float = 1.0) -> Pixels:
        picture: Any = self._env.render()
        if not isinstance(picture, np.ndarray):
            raise InputError(f"The environment {self._env} does not render pictures; expected render_mode 'rgb_array'.")
        return shrunk(np.ascontiguousarray(picture[..., :3], np.uint8), size)

    def eyes(self) -> Pixels | None:
        shape = self.observation.shape
        return self.observation[..., -3:].copy() if len(shape) == 3 and shape[2] % 3 == 0 else None

    def close(self) -> None:
        self._env.close()


class DoomWorld(PictureWorld):
    """The room on ViZDoom, made with `positions`."""

    kind: WorldKind = "room"
    moment = 15

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        inner: Any = env.unwrapped
        rules: RoomRules = inner.rules
        self.rules, self._plan = rules, room_plan(rules)
        self.features, self.presets = object_cards(rules.types), room_presets(rules.types)

    def plan(self) -> dict[str, Any]:
        return self._plan

    def place(self, share: float = 1.0) -> dict[str, Any]:
        objects = [[int(kind), round(float(x), 2), round(float(y), 2)] for kind, x, y in self._info["objects"]]
        return {"pose": np.round(self._info["agent"], 3).tolist(), "objects": objects}

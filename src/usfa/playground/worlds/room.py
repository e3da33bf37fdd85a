"""The first-person room: a smooth view at any size, and its map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usfa.environments.room import ACTIONS, OBJECTS, RoomRules
from usfa.environments.room.batch import RoomBatch
from usfa.environments.room.drawing import Camera, draw, make_camera
from usfa.environments.room.layout import wall_cells
from usfa.environments.room.rules import split_arguments
from usfa.environments.room.textures import textures
from usfa.environments.room.world import make_plan
from usfa.playground.protocol import FeatureCard, PresetGroup
from usfa.playground.worlds.world import Happening, Pixels, WorldKind, preset_group
from usfa.tasks import task_set

__all__ = ["RoomWorld", "object_cards", "room_plan", "room_presets"]


class RoomWorld:
    """A batch of one room. Between two decisions it can be drawn at every point of the way."""

    kind: WorldKind = "room"
    smooth = True
    rate = 15.0
    moment = 15

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.rules, camera = split_arguments(arguments, "The agent's environment_arguments")
        self.features, self.presets = object_cards(self.rules.types), room_presets(self.rules.types)
        self.actions = [action.name for action in ACTIONS]
        self._batch = RoomBatch(1, self.rules, **camera)
        self._plan = make_plan(self.rules)
        self._camera: tuple[int, Camera] | None = None
        self._previous_pose = self._batch.world.pose.copy()

    @property
    def observation(self) -> NDArray[np.uint8]:
        return self._batch.observation[0]

    @property
    def legal(self) -> NDArray[np.bool_]:
        return self._batch.legal[0]

    def reset(self, seed: int) -> None:
        self._batch.reset([seed])
        self._previous_pose = self._batch.world.pose.copy()

    def step(self, action: int) -> Happening:
        self._previous_pose = self._batch.world.pose.copy()
        step = self._batch.step(np.array([action]))
        return Happening(step.phi[0].astype(np.float64), bool(step.ended[0]))

    def plan(self) -> dict[str, Any]:
        return room_plan(self.rules)

    def place(self, share: float = 1.0) -> dict[str, Any]:
        world = self._batch.world
        kinds, alive = self._plan.types, world.alive[0]
        spots = world.objects[0][alive].round(2).tolist()
        objects = [[int(kind), *spot] for kind, spot in zip(kinds[alive], spots, strict=True)]
        return {"pose": self._pose(share)[0].round(3).tolist(), "objects": objects}

    def picture(self, size: int, share: float = 1.0) -> Pixels:
        if self._camera is None or self._camera[0] != size:
            self._camera = (size, make_camera(size, size, self.rules.objects))
        image = np.empty((1, size, size, 3), np.uint8)
        draw(self._batch.world._replace(pose=self._pose(share)), self._plan, self._camera[1], textures(), image)
        return image[0]

    def _pose(self, share: float) -> NDArray[np.float64]:
        pose = self._batch.world.pose
        way = pose - self._previous_pose
        way[:, 2] = (way[:, 2] + np.pi) % (2 * np.pi) - np.pi
        return pose - (1 - share) * way

    def eyes(self) -> Pixels:
        return self.observation[..., -3:].copy()

    def close(self) -> None:
        self._batch.close()


def room_plan(rules: RoomRules) -> dict[str, Any]:
    """The floor: its side in metres, and which cells are wall, rows from the south."""
    return {"side": rules.side, "walls": wall_cells(rules).astype(int).tolist(), "decisions": rules.decisions}


def object_cards(types: int) -> list[FeatureCard]:
    return [
        FeatureCard(kind.name, "#{:02x}{:02x}{:02x}".format(*kind.colour), f"objects/{kind.name}.png")
        for kind in OBJECTS[:types]
    ]


def room_presets(types: int) -> list[PresetGroup]:
    """The paper's tasks."""
    names = {"Easy M′, Appendix D": "room-easy", "Hard M′, Appendix D": "room-hard"}
    return [preset_group(name, task_set(tasks)) for name, tasks in names.items()] if types == 4 else []

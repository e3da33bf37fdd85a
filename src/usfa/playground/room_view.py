"""The first-person room: its picture at any size, its map, and the oracle's return in the same layout."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usfa.environments import Environment
from usfa.environments.room import ACTIONS, OBJECTS, RoomRules
from usfa.environments.room.drawing import Camera, draw
from usfa.environments.room.env import RoomBatch
from usfa.environments.room.oracle import Oracle
from usfa.environments.room.rules import split_arguments, wall_cells
from usfa.environments.room.textures import textures
from usfa.environments.room.world import make_plan
from usfa.playground.outbox import Pixels
from usfa.playground.protocol import FeatureInfo, PresetGroup
from usfa.playground.views import EnvironmentView, RenderedView, StepResult, ViewKind, preset_group
from usfa.tasks import task_set

__all__ = ["DoomView", "OracleRun", "Oracles", "RoomView"]


class RoomView(EnvironmentView):
    """A batch of one room; between two decisions it is drawn at an interpolated pose."""

    kind: ViewKind = "room"
    smooth = True
    rate = 15.0
    rating_steps = 15

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        rules, camera = split_arguments(arguments, "The agent's environment_arguments")
        self._batch = RoomBatch(1, rules, **camera)
        self.rules, self._plan = rules, _room_plan(rules, self._batch.field_of_view)
        self.features, self.presets = _object_infos(rules.types), _room_presets(rules.types)
        self.actions = [action.name for action in ACTIONS]
        self.observation, self.legal = self._batch.observation[0], self._batch.legal[0]  # updated in place
        self._object_plan = make_plan(rules)
        self._camera: tuple[int, Camera] | None = None
        self._previous_pose = self._batch.world.pose.copy()

    def reset(self, seed: int) -> None:
        self._batch.reset([seed])
        self._previous_pose = self._batch.world.pose.copy()

    def step(self, action: int) -> StepResult:
        self._previous_pose = self._batch.world.pose.copy()
        step = self._batch.step(np.array([action]))
        return StepResult(step.phi[0].astype(np.float64), bool(step.ended[0]))

    def plan(self) -> dict[str, Any]:
        return self._plan

    def position(self, share: float = 1.0) -> dict[str, Any]:
        world = self._batch.world
        kinds, alive = self._object_plan.types, world.alive[0]
        spots = world.objects[0][alive].round(2).tolist()
        objects = [[int(kind), *spot] for kind, spot in zip(kinds[alive], spots, strict=True)]
        return {"pose": self._pose(share)[0].round(3).tolist(), "objects": objects}

    def picture(self, size: int, share: float = 1.0) -> Pixels:
        if self._camera is None or self._camera[0] != size:
            self._camera = (size, self._batch.camera(size))
        image = np.empty((1, size, size, 3), np.uint8)
        draw(self._batch.world._replace(pose=self._pose(share)), self._object_plan, self._camera[1], textures(), image)
        return image[0]

    def _pose(self, share: float) -> NDArray[np.float64]:
        pose = self._batch.world.pose
        change = pose - self._previous_pose
        change[:, 2] = (change[:, 2] + np.pi) % (2 * np.pi) - np.pi  # the shorter turn
        return pose - (1 - share) * change

    def observation_picture(self) -> Pixels:
        return self.observation[..., -3:].copy()

    def close(self) -> None:
        self._batch.close()


class DoomView(RenderedView):
    """The room on ViZDoom, made with `positions`."""

    kind: ViewKind = "room"
    rating_steps = 15

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        inner: Any = env.unwrapped
        rules: RoomRules = inner.rules
        self.rules, self._plan = rules, _room_plan(rules, inner.field_of_view)
        self.features, self.presets = _object_infos(rules.types), _room_presets(rules.types)

    def plan(self) -> dict[str, Any]:
        return self._plan

    def position(self, share: float = 1.0) -> dict[str, Any]:
        objects = [[int(kind), round(float(x), 2), round(float(y), 2)] for kind, x, y in self._info["objects"]]
        return {"pose": np.round(self._info["agent"], 3).tolist(), "objects": objects}


def _room_plan(rules: RoomRules, field_of_view: float) -> dict[str, Any]:
    """Side of the room in metres, wall cells in rows from the south, decisions per episode, and degrees in view."""
    walls = wall_cells(rules).astype(int).tolist()
    return {"side": rules.side, "walls": walls, "decisions": rules.decisions, "view": field_of_view}


def _object_infos(types: int) -> list[FeatureInfo]:
    return [
        FeatureInfo(kind.name, "#{:02x}{:02x}{:02x}".format(*kind.colour), f"objects/{kind.name}.png")
        for kind in OBJECTS[:types]
    ]


def _room_presets(types: int) -> list[PresetGroup]:
    """Tasks of the paper."""
    names = {"Easy M′, Appendix D": "room-easy", "Hard M′, Appendix D": "room-hard"}
    return [preset_group(name, task_set(tasks)) for name, tasks in names.items()] if types == 4 else []


class Oracles:
    """One oracle per set of rules, made in the background."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self._executor = executor
        self._futures: dict[RoomRules, Future[Oracle]] = {}

    def get(self, rules: RoomRules) -> Oracle | None:
        """The oracle; None while it is being made."""
        if rules not in self._futures:
            self._futures[rules] = self._executor.submit(_compiled_oracle, rules)
        future = self._futures[rules]
        return future.result() if future.done() else None


@cache
def _compiled_oracle(rules: RoomRules) -> Oracle:
    """An oracle that acts without delay: its tables take one second to make, its compilation ten."""
    oracle = Oracle(rules)
    oracle.act(RoomBatch(1, rules, image_size=8).world, np.ones(rules.types))  # compiles
    return oracle


class OracleRun:
    """The oracle's own episode in a layout, with the tasks of the player's episode. It is not drawn."""

    def __init__(self, oracle: Oracle, seed: int) -> None:
        self._oracle = oracle
        self._room = RoomBatch(1, oracle.rules, seeds=[seed], image_size=8)
        self.returned = 0.0
        self.collected = np.zeros(oracle.rules.types)

    def step(self, w: NDArray[np.float64]) -> None:
        self._room.move(self._oracle.act(self._room.world, w))
        self.returned += float(self._room.phi[0] @ w)
        self.collected += self._room.phi[0]

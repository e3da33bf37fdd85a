"""The room on ViZDoom: a 3D engine with the spaces, actions and features of the embedded room."""

from __future__ import annotations

import importlib
import math
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from usfa.environments.doom.scenario import MAP, TICS, UNITS, counter_slots, object_type, write_scenario
from usfa.environments.room.objects import OBJECTS
from usfa.environments.room.rules import ACTIONS, FIELD_OF_VIEW, Action, RoomRules, check_field_of_view, given_rules
from usfa.errors import InputError

if TYPE_CHECKING:
    import vizdoom

__all__ = ["Camera", "DoomRoom", "Engine"]

Image = NDArray[np.uint8]  # [height, width, 3]

_WIDEST_VIEW = 170  # degrees; the most that Doom can draw
_USUAL_VIEW, _VIEW_PER_TIC = 90, 7  # degrees at the start of an episode, and how fast they change
_SCREENS = ((120, 160), (150, 200), (192, 256), (240, 320), (300, 400), (384, 512), (480, 640), (600, 800))
_START_TICS = 14  # until agent and objects have their places, as in ViZDoom's own scenarios
_FULL_MOVE = 50.0  # input of full thrust
_YAW_STEPS = 65536 / 360  # Doom's steps of turning, per degree
# Without these sections, Doom writes them itself and creates a directory where the program runs.
_CONFIGURATION = "\n".join(f"[{game}.AutoExec]" for game in ("Doom", "Heretic", "Hexen", "Strife", "Chex"))


@dataclass(frozen=True)
class Camera:
    """Image of [height, width], cut from the middle of one of Doom's screens."""

    height: int
    width: int
    field_of_view: float = FIELD_OF_VIEW  # degrees, of the image's width

    def __post_init__(self) -> None:
        check_field_of_view(self.field_of_view)
        tallest, widest = _SCREENS[-1]
        if not 8 <= self.height <= tallest or not 8 <= self.width <= widest:
            raise InputError(f"image_size is {self.height} by {self.width}; expected 8 by 8 to {tallest} by {widest}.")
        if self.screen_view > _WIDEST_VIEW:
            raise InputError(
                f"image_size is {self.height} by {self.width} and field_of_view {self.field_of_view:g}; expected a "
                "wider image, or a smaller field_of_view."
            )

    @property
    def screen(self) -> tuple[int, int]:
        """Height and width of the smallest screen that holds the image."""
        return next((rows, columns) for rows, columns in _SCREENS if rows >= self.height and columns >= self.width)

    @property
    def scale(self) -> int:
        """Pixels of the screen per pixel of the image, along each axis."""
        rows, columns = self.screen
        return min(rows // self.height, columns // self.width)

    @property
    def screen_view(self) -> int:
        """Horizontal field of view of the whole screen, in whole degrees, so that the image spans `field_of_view`."""
        share = self.width * self.scale / self.screen[1]
        return round(math.degrees(2 * math.atan(math.tan(math.radians(self.field_of_view) / 2) / share)))

    def image(self, screen: Image) -> Image:
        """Cut the image out of a screen, as a copy."""
        rows, columns = self.height * self.scale, self.width * self.scale
        top, left = (self.screen[0] - rows) // 2, (self.screen[1] - columns) // 2
        middle = screen[top : top + rows, left : left + columns]
        if self.scale == 1:
            return middle.copy()
        steps = range(self.scale)
        parts = [middle[i :: self.scale, j :: self.scale] for i in steps for j in steps]
        light: NDArray[np.uint32] = np.stack(parts).sum(axis=0, dtype=np.uint32)
        return ((light + len(parts) // 2) // len(parts)).astype(np.uint8)


class Engine:
    """A Doom process that runs until :meth:`close`, or until the object is garbage collected."""

    def __init__(self, rules: RoomRules, camera: Camera, *, positions: bool) -> None:
        self._vizdoom = _vizdoom()
        self.rules = rules
        self.camera = camera
        self._directory = Path(tempfile.mkdtemp(prefix="usfa-doom-"))
        self._game = self._vizdoom.DoomGame()
        self.close = weakref.finalize(self, _stop, self._game, self._directory)
        self._write_files()
        self._configure(positions)
        self._game.init()

    def start(self, seed: int) -> None:
        """Begin an episode; all its random numbers follow from the seed."""
        self._game.set_seed(seed)
        self._game.new_episode()
        # Every episode starts with the usual field of view, which changes step by step.
        self._game.send_game_command(f"fov {self.camera.screen_view}")
        self._game.set_action([0.0, 0.0, 0.0])
        self._game.advance_action(1 + math.ceil(abs(self.camera.screen_view - _USUAL_VIEW) / _VIEW_PER_TIC))
        self._state = self._game.get_state()

    def act(self, action: Action) -> None:
        """Hold an action for one decision."""
        turn = -action.turn * math.degrees(self.rules.turn) / TICS  # positive is to the right
        # Doom rounds down to its steps; the half makes left and right turns equal.
        steps = (round(turn * _YAW_STEPS) + 0.5) / _YAW_STEPS if turn else 0.0
        self._game.set_action([_FULL_MOVE * action.forward, _FULL_MOVE * action.strafe, steps])
        self._game.advance_action(TICS)
        self._state = self._game.get_state()

    def image(self) -> Image:
        return self.camera.image(self._state.screen_buffer)

    def counters(self) -> NDArray[np.int64]:
        """Objects of each type collected so far, and the number of placements, [D+1]."""
        return self._state.game_variables[3:].astype(np.int64)

    def agent(self) -> NDArray[np.float64]:
        """Pose of the agent, [x, y, heading], in metres and radians."""
        x, y, angle = self._state.game_variables[:3]
        return np.array([x / UNITS, y / UNITS, math.radians(angle)])

    def objects(self) -> NDArray[np.float64]:
        """Type, x and y of each object that is left, [K, 3], sorted by type in a stable order."""
        known = [
            (object_type(thing.name), thing.id, thing.position_x, thing.position_y) for thing in self._state.objects
        ]
        rows = sorted(row for row in known if row[0] is not None)
        return np.array([(kind, x / UNITS, y / UNITS) for kind, _, x, y in rows], np.float64).reshape(-1, 3)

    def _write_files(self) -> None:
        write_scenario(self.rules, self._directory / "room.pk3")
        (self._directory / "doom.ini").write_text(_CONFIGURATION, "utf-8")

    def _configure(self, positions: bool) -> None:
        vzd, game = self._vizdoom, self._game
        game.set_doom_game_path(str(Path(vzd.__file__).parent / "freedoom2.wad"))
        game.set_doom_scenario_path(str(self._directory / "room.pk3"))
        game.set_doom_config_path(str(self._directory / "doom.ini"))
        game.set_doom_map(MAP)
        game.set_mode(vzd.Mode.PLAYER)
        game.set_window_visible(False)
        game.set_episode_start_time(_START_TICS)
        game.set_episode_timeout(0)
        rows, columns = self.camera.screen
        game.set_screen_resolution(getattr(vzd.ScreenResolution, f"RES_{columns}X{rows}"))
        game.set_screen_format(vzd.ScreenFormat.RGB24)
        for switch in (game.set_render_hud, game.set_render_weapon, game.set_render_crosshair, game.set_render_decals):
            switch(False)
        for switch in (game.set_render_particles, game.set_render_messages, game.set_render_corpses):
            switch(False)
        game.set_objects_info_enabled(positions)
        game.set_available_buttons(
            [
                vzd.Button.MOVE_FORWARD_BACKWARD_DELTA,
                vzd.Button.MOVE_LEFT_RIGHT_DELTA,
                vzd.Button.TURN_LEFT_RIGHT_DELTA,
            ]
        )
        pose = [vzd.GameVariable.POSITION_X, vzd.GameVariable.POSITION_Y, vzd.GameVariable.ANGLE]
        game.set_available_game_variables(
            pose + [getattr(vzd.GameVariable, f"AMMO{slot}") for slot in counter_slots(self.rules)]
        )
        game.add_game_args("+movebob 0 +gl_cachenodes 0")


def _stop(game: vizdoom.DoomGame, directory: Path) -> None:
    game.close()
    shutil.rmtree(directory, ignore_errors=True)


def _vizdoom() -> Any:
    try:
        return importlib.import_module("vizdoom")
    except ImportError as error:
        raise InputError("The Doom room needs ViZDoom; install it with pip install 'usfa[doom]'.") from error


class DoomRoom(gym.Env[Image, np.int64]):
    """The room in first person, moved and drawn by Doom.

    ## Observation
    An image of shape [height, width, 3], uint8, `field_of_view` degrees wide.

    ## Actions
    Discrete, named in `action_names`. The rules set their metres and degrees, which Doom follows closely, see
    :mod:`usfa.environments.doom.scenario`.

    ## Reward
    The vector φ of shape [D] (`reward_space`): numbers of objects of each type collected on this transition.

    ## Episode
    Agent and objects start at random places. The episode is truncated after `decisions` steps and never terminates.

    Args:
        image_size: a number for a square, or (height, width).
        render_mode: None or "rgb_array".
        positions: whether `info` holds "agent", [x, y, heading], and "objects", a row [type, x, y] for each of them,
            in metres and radians, counter-clockwise from the x axis; a little slower.
        field_of_view: horizontal field of view of the image in degrees, 20 to 150.
        rules: the room; or give its fields by name, see :class:`~usfa.environments.room.RoomRules`.
    """

    def __init__(
        self,
        image_size: int | tuple[int, int] = 84,
        *,
        render_mode: str | None = None,
        positions: bool = False,
        field_of_view: float = FIELD_OF_VIEW,
        rules: RoomRules | None = None,
        **fields: Any,
    ) -> None:
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 15}
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InputError(f"render_mode is {render_mode!r}; expected None or 'rgb_array'.")
        self.render_mode = render_mode
        self.rules = given_rules(rules, fields)
        height, width = image_size if isinstance(image_size, tuple) else (image_size, image_size)
        self.field_of_view = field_of_view
        self._engine = Engine(self.rules, Camera(height, width, field_of_view), positions=positions)
        self._positions = positions
        self.action_names = tuple(action.name for action in ACTIONS)
        self.step_limit = self.rules.decisions
        self.feature_names = tuple(kind.name for kind in OBJECTS[: self.rules.types])
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
        """Return the present observation, or None without a render mode."""
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

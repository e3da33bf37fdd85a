"""ViZDoom, started for one room: what goes in are inputs, what comes out are images and counters."""

from __future__ import annotations

import importlib
import math
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from usfa.environments.doom.scenario import MAP, TICS, UNITS, counter_slots, object_type, write_scenario
from usfa.environments.room.rules import FIELD_OF_VIEW, Action, RoomRules
from usfa.errors import InputError

if TYPE_CHECKING:
    import vizdoom

__all__ = ["Camera", "Engine"]

"""From the left to the right of the image."""
_WIDEST_VIEW = 170  # degrees that Doom can still draw
_USUAL_VIEW, _VIEW_PER_TIC = 90, 7  # with which an episode of Doom starts, and how fast it widens
_SCREENS = ((120, 160), (150, 200), (192, 256), (240, 320), (300, 400), (384, 512), (480, 640), (600, 800))
_START_TICS = 14  # by then agent and objects have found their places; ViZDoom's own scenarios wait as long
_FULL_MOVE = 50.0  # the input at which a player of Doom moves with full thrust
_YAW_STEPS = 65536 / 360  # Doom's steps of turning, per degree
# Doom writes the sections it misses in its configuration, and for these it makes a directory where the program runs.
_CONFIGURATION = "\n".join(f"[{game}.AutoExec]" for game in ("Doom", "Heretic", "Hexen", "Strife", "Chex"))


@dataclass(frozen=True)
class Camera:
    """An image of [height, width] from the middle of one of Doom's screens, which is faster than scaling all of it."""

    height: int
    width: int

    def __post_init__(self) -> None:
        tallest, widest = _SCREENS[-1]
        if not 8 <= self.height <= tallest or not 8 <= self.width <= widest:
            raise InputError(f"image_size is {self.height} by {self.width}; expected 8 by 8 to {tallest} by {widest}.")
        if self.screen_view > _WIDEST_VIEW:
            raise InputError(f"image_size is {self.height} by {self.width}; the Doom room needs it wider.")

    @property
    def screen(self) -> tuple[int, int]:
        """(height, width) of the smallest screen that holds the image."""
        return next((rows, columns) for rows, columns in _SCREENS if rows >= self.height and columns >= self.width)

    @property
    def scale(self) -> int:
        """Pixels of the screen per pixel of the image, along each axis."""
        rows, columns = self.screen
        return min(rows // self.height, columns // self.width)

    @property
    def screen_view(self) -> int:
        """Degrees from the left to the right of the screen, for the image to be as wide as it should."""
        share = self.width * self.scale / self.screen[1]
        return round(math.degrees(2 * math.atan(math.tan(FIELD_OF_VIEW / 2) / share)))

    def image(self, screen: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """[height, width, 3], a copy, from a screen."""
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
    """A Doom that runs until :meth:`close`, or until nobody refers to it any more."""

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
        """Begin an episode; everything random in it follows from the seed."""
        self._game.set_seed(seed)
        self._game.new_episode()
        # Doom forgets the field of view with every episode, and opens it again step by step.
        self._game.send_game_command(f"fov {self.camera.screen_view}")
        self._game.set_action([0.0, 0.0, 0.0])
        self._game.advance_action(1 + math.ceil(abs(self.camera.screen_view - _USUAL_VIEW) / _VIEW_PER_TIC))
        self._state = self._game.get_state()

    def act(self, action: Action) -> None:
        """Hold an action for one decision."""
        turn = -action.turn * math.degrees(self.rules.turn) / TICS  # Doom's input turns to the right
        # Doom rounds down to its steps: the half keeps left and right turns alike.
        steps = (round(turn * _YAW_STEPS) + 0.5) / _YAW_STEPS if turn else 0.0
        self._game.set_action([_FULL_MOVE * action.forward, _FULL_MOVE * action.strafe, steps])
        self._game.advance_action(TICS)
        self._state = self._game.get_state()

    def image(self) -> NDArray[np.uint8]:
        return self.camera.image(self._state.screen_buffer)

    def counters(self) -> NDArray[np.int64]:
        """[D+1]: objects collected so far of each type; how often someone found a place."""
        return self._state.game_variables[3:].astype(np.int64)

    def agent(self) -> NDArray[np.float64]:
        """[x, y, heading] in metres and radians."""
        x, y, angle = self._state.game_variables[:3]
        return np.array([x / UNITS, y / UNITS, math.radians(angle)])

    def objects(self) -> NDArray[np.float64]:
        """[K, 3]: type, x and y of each object that is left, by type; those of one type keep their order."""
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

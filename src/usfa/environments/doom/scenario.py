"""The room as a Doom scenario: map, actors and pictures, written into a PK3 (a zip file).

A metre is 64 of Doom's units. Doom draws heights a fifth taller than widths, so heights are divided by 1.2. A decision
is two of Doom's tics, 17.5 decisions per second instead of 15. Only the agent moves, so the clock does not matter:
metres and degrees per decision are those of the rules.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from usfa.environments.doom import pictures
from usfa.environments.room.objects import OBJECTS
from usfa.environments.room.rules import CEILING, EYE, RoomRules, free_places, wall_cells
from usfa.errors import InputError

__all__ = ["MAP", "TICS", "UNITS", "counter_slots", "decorate", "object_type", "textmap", "write_scenario"]

MAP = "MAP01"
TICS = 2
"""Doom's tics per decision."""
UNITS = 64.0
"""Doom's units of length per metre."""
_PLACED_SLOT = 9  # counts placements: the agent once, an object each time it appears
_TALL = 1.2  # height of a pixel of Doom relative to its width
_AGENT_HEIGHT = 1.2
_FULL_THRUST = 1.5625  # units per tic that Doom adds to a player's velocity at full input and ForwardMove 1
_MOST_UNITS_PER_TIC = 30.0  # Doom caps velocities here
_TRIES_PER_TIC = 1000
_FIRST_NUMBER = 20001  # of our first actor in maps
_WALL_TEXTURES = {"north": "WALLN", "east": "WALLE", "south": "WALLS", "west": "WALLW"}


def write_scenario(rules: RoomRules, path: Path) -> None:
    """Write the PK3; the same rules give the same bytes. InputError if the objects do not fit into the room."""
    free_places(rules, wall_cells(rules))
    files: dict[str, bytes] = {
        "DECORATE.txt": decorate(rules).encode(),
        "MAPINFO.txt": _MAPINFO.encode(),
        f"maps/{MAP}.wad": _wad(textmap(rules)),
        "PLAYPAL.lmp": pictures.palette().tobytes() * 14,  # 13 of them are tints of Doom, not used here
        "COLORMAP.lmp": pictures.colormap().tobytes(),
        "textures/ROOMFLOR.png": pictures.png(pictures.surface("floor")),
        "textures/ROOMCEIL.png": pictures.png(pictures.surface("ceiling")),
    }
    for side, name in _WALL_TEXTURES.items():
        files[f"textures/{name}.png"] = pictures.png(pictures.surface(side))
    for index in range(rules.types):
        files[f"sprites/{_sprite_name(index)}A0.png"] = pictures.png(pictures.sprite(index), standing=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def counter_slots(rules: RoomRules) -> list[int]:
    """Numbers of the AMMO variables: one per type, which counts collected objects; the last counts placements."""
    return [*range(1, rules.types + 1), _PLACED_SLOT]


def object_type(actor: str) -> int | None:
    """Index of the type of object that a Doom class implements; None for the agent."""
    return next((index for index in range(len(OBJECTS)) if _actor_name(index) == actor), None)


def _actor_name(index: int) -> str:
    return f"Room{OBJECTS[index].name.capitalize()}"


# --- the map ---


@dataclass(frozen=True)
class _Edge:
    """One side of a cell; the cell is on the right when going from start to end."""

    start: tuple[int, int]
    end: tuple[int, int]
    side: str
    beyond: tuple[int, int]


def textmap(rules: RoomRules) -> str:
    """The map in UDMF; Doom builds the nodes when it loads it.

    Walls inside the room are a second sector whose floor touches its ceiling, so that nothing fits there.
    """
    floor = ~wall_cells(rules)
    cell = rules.side * UNITS / len(floor)
    vertices: dict[tuple[int, int], int] = {}
    lines: list[str] = []
    sides: list[str] = []
    for edge, is_floor, wall_behind in _walls(floor):
        v1, v2 = (vertices.setdefault(corner, len(vertices)) for corner in (edge.start, edge.end))
        line = {"v1": v1, "v2": v2, "sidefront": len(sides), "blocking": "true"}
        part = "texturebottom" if wall_behind else "texturemiddle"
        look = {"offsetx": _offset(edge, cell), part: f'"{_WALL_TEXTURES[edge.side]}"'}
        sides.append(_block("sidedef", sector=0 if is_floor else 1, **look))
        if wall_behind:
            line |= {"sideback": len(sides), "twosided": "true"}
            sides.append(_block("sidedef", sector=1))
        lines.append(_block("linedef", **line))
    corners = [_block("vertex", x=x * cell, y=y * cell) for x, y in vertices]
    return "\n".join(['namespace = "zdoom";', *corners, *sides, *lines, *_sectors(), *_things(rules, floor), ""])


def _offset(edge: _Edge, cell: float) -> int:
    """Offset of an edge's texture at which bricks continue from cell to cell."""
    along = sum(edge.start) if edge.side in ("west", "north") else -sum(edge.start)
    return round(cell * along) % pictures.TILE


def _walls(floor: NDArray[np.bool_]) -> Iterator[tuple[_Edge, bool, bool]]:
    """Yield every edge that needs a line, whether its cell is floor, and whether an inner wall is behind it."""
    for (row, column), is_floor in np.ndenumerate(floor):
        for edge in _edges(row, column):
            if not all(0 <= index < len(floor) for index in edge.beyond):
                yield edge, bool(is_floor), False
            elif is_floor and not floor[edge.beyond]:
                yield edge, True, True


def _edges(row: int, column: int) -> list[_Edge]:
    south_west, south_east = (column, row), (column + 1, row)
    north_west, north_east = (column, row + 1), (column + 1, row + 1)
    return [
        _Edge(south_west, north_west, "west", (row, column - 1)),
        _Edge(north_west, north_east, "north", (row + 1, column)),
        _Edge(north_east, south_east, "east", (row, column + 1)),
        _Edge(south_east, south_west, "south", (row - 1, column)),
    ]


def _sectors() -> list[str]:
    top = _wall_units()
    look = {"texturefloor": '"ROOMFLOR"', "textureceiling": '"ROOMCEIL"', "lightlevel": 224}
    return [
        _block("sector", heightfloor=0, heightceiling=top, **look),
        _block("sector", heightfloor=top, heightceiling=top, **look),
    ]


def _things(rules: RoomRules, floor: NDArray[np.bool_]) -> list[str]:
    """Agent and objects, all in the middle of the first cell of floor; their actors move them to random places."""
    cell = rules.side * UNITS / len(floor)
    row, column = np.argwhere(floor)[0]
    skills = {f"skill{level}": "true" for level in range(1, 6)}
    where = {"x": float((column + 0.5) * cell), "y": float((row + 0.5) * cell), "single": "true", **skills}
    numbers = [1] + [_FIRST_NUMBER + index for index in range(rules.types) for _ in range(rules.objects_per_type)]
    return [_block("thing", type=number, **where) for number in numbers]


def _block(kind: str, **fields: object) -> str:
    return f"{kind} {{ {' '.join(f'{name} = {value};' for name, value in fields.items())} }}"


def _wall_units() -> int:
    return round(CEILING * UNITS / _TALL)


def _wad(text: str) -> bytes:
    lumps = [(MAP, b""), ("TEXTMAP", text.encode()), ("ENDMAP", b"")]
    body, directory = b"", b""
    for name, content in lumps:
        directory += struct.pack("<ii8s", 12 + len(body), len(content), name.encode())
        body += content
    return struct.pack("<4sii", b"PWAD", len(lumps), 12 + len(body)) + body + directory


_MAPINFO = f"""\
gameinfo {{ playerclasses = "RoomAgent" }}
map {MAP} "The room" {{ }}
"""


# --- the actors ---


def decorate(rules: RoomRules) -> str:
    """The actors in DECORATE.

    An object warps to random points until one is far enough from walls and from the agent, and becomes visible there.
    At every tic it checks whether the agent's centre is within reach; if so, it adds one to its type's ammo and
    searches for the next place. ViZDoom reads ammo by weapon slot, so each type has an unused weapon.

    The agent's velocity is set to 0 after every tic, so that it does not glide.
    """
    slots = counter_slots(rules)
    parts = [_WEAPON, *(_COUNTER.format(slot=slot) for slot in slots), _agent(rules, slots)]
    parts += [_object(rules, index) for index in range(rules.types)]
    return "\n".join(parts)


def _agent(rules: RoomRules, slots: list[int]) -> str:
    units_per_tic = rules.speed * UNITS / TICS
    if not 0 < units_per_tic <= _MOST_UNITS_PER_TIC:
        most = _MOST_UNITS_PER_TIC * TICS / UNITS
        raise InputError(f"speed is {rules.speed}; expected more than 0, at most {most} metres in the Doom room.")
    return _AGENT.format(
        radius=rules.agent_radius * UNITS,
        height=_AGENT_HEIGHT * UNITS / _TALL,
        eye=EYE * UNITS / _TALL,
        thrust=units_per_tic / _FULL_THRUST,
        slots="\n".join(f'    Player.WeaponSlot {slot}, "RoomCounter{slot}"' for slot in slots),
        search=_search(rules, "frandom(0, 360)", "WARPF_ABSOLUTEPOSITION | WARPF_ABSOLUTEANGLE"),
        placed=_PLACED_SLOT,
    )


def _object(rules: RoomRules, index: int) -> str:
    return _OBJECT.format(
        name=_actor_name(index),
        number=_FIRST_NUMBER + index,
        radius=rules.wall_distance * UNITS,
        y_scale=1 / _TALL,
        search=_search(rules, "0", "WARPF_ABSOLUTEPOSITION"),
        clearance=rules.clearance * UNITS,
        reach=rules.reach * UNITS,
        sprite=_sprite_name(index),
        slot=index + 1,
        placed=_PLACED_SLOT,
        after="Goto Place" if rules.respawn else "Stop",
    )


def _search(rules: RoomRules, angle: str, flags: str) -> str:
    low, high = rules.wall_distance * UNITS, (rules.side - rules.wall_distance) * UNITS
    return _SEARCH.format(low=low, high=high, angle=angle, flags=flags, tries=_TRIES_PER_TIC)


def _sprite_name(index: int) -> str:
    return f"RMO{index}"


_WEAPON = """\
ACTOR RoomWeapon : Weapon
{
    States
    {
    Ready:
        TNT1 A 1 A_WeaponReady
        Loop
    Select:
        TNT1 A 1 A_Raise
        Loop
    Deselect:
        TNT1 A 1 A_Lower
        Loop
    Fire:
        TNT1 A 1
        Goto Ready
    }
}
"""

_COUNTER = """\
ACTOR RoomCount{slot} : Ammo
{{
    Inventory.MaxAmount 1000000
}}

ACTOR RoomCounter{slot} : RoomWeapon
{{
    Weapon.AmmoType1 "RoomCount{slot}"
}}
"""

# A warp that does not fit continues with the next line. After many failures the search pauses for a tic, so that a room
# without any free place cannot stop the engine.
_SEARCH = """\
    Place:
        TNT1 A 0 A_SetUserVar("user_tries", 0)
    Try:
        TNT1 A 0 A_Warp(AAPTR_DEFAULT, frandom({low}, {high}), frandom({low}, {high}), 0, {angle}, {flags}, "Arrived")
    Again:
        TNT1 A 0 A_SetUserVar("user_tries", user_tries + 1)
        TNT1 A 0 A_JumpIf(user_tries < {tries}, "Try")
        TNT1 A 1
        Goto Place"""

# The first state of an actor is empty, because Doom skips its action.
_AGENT = """\
ACTOR RoomAgent : PlayerPawn
{{
    var int user_tries;
    Radius {radius}
    Height {height}
    Player.DisplayName "Agent"
    Player.ViewHeight {eye}
    Player.ForwardMove {thrust}, {thrust}
    Player.SideMove {thrust}, {thrust}
{slots}
    +INVULNERABLE
    +NOSKIN
    States
    {{
    Spawn:
        TNT1 A 0
{search}
    Arrived:
        TNT1 A 0 A_GiveInventory("RoomCount{placed}", 1)
    Walk:
        TNT1 A 1 A_Stop
        Loop
    }}
}}
"""

# The search starts a tic later, when the agent has its place.
_OBJECT = """\
ACTOR {name} {number}
{{
    var int user_tries;
    Radius {radius}
    Height 16
    YScale {y_scale}
    +NOBLOCKMAP
    +NOGRAVITY
    States
    {{
    Spawn:
        TNT1 A 2
{search}
    Arrived:
        TNT1 A 0 A_CheckRange({clearance}, "Appear", true)
        Goto Again
    Appear:
        TNT1 A 0 A_GiveInventory("RoomCount{placed}", 1, AAPTR_PLAYER1)
    Lie:
        {sprite} A 1 Bright
        {sprite} A 0 Bright A_CheckRange({reach}, "Lie", true)
        TNT1 A 0 A_GiveInventory("RoomCount{slot}", 1, AAPTR_PLAYER1)
        {after}
    }}
}}
"""

"""The scenario as text and bytes. A mistake in it would end the engine inside of its start, so it is read first."""

import io
import re
import struct
import zipfile
from collections import Counter

import matplotlib.image
import numpy as np
import pytest

from usfa.environments.doom import pictures, write_scenario
from usfa.environments.doom.scenario import counter_slots, decorate, object_type, textmap
from usfa.environments.room import rules as room_rules
from usfa.environments.room.objects import OBJECTS
from usfa.environments.room.rules import RoomRules
from usfa.environments.room.textures import BOXES, surface
from usfa.errors import InputError

PILLARS = """
.....
.#.#.
.....
.#.#.
.....
"""
VARIANTS = {
    "default": RoomRules(),
    "two types": RoomRules(types=2, objects_per_type=1),
    "eight types": RoomRules(types=8, objects_per_type=2, side=17.3),
    "pillars": RoomRules(layout=PILLARS),
    "walls all around": RoomRules(layout="####\n#..#\n#..#\n####", types=2),
    "no respawn": RoomRules(respawn=False, speed=0.1, clearance=0.0),
}
variants = pytest.mark.parametrize("rules", VARIANTS.values(), ids=VARIANTS)


def blocks(text):
    """(kind, fields) of every block of a UDMF map; nothing else may stand in it."""
    pattern = re.compile(r"(\w+) \{ ((?:\w+ = [^;{}]+; ?)*)\}\n")
    head, rest = text.split("\n", 1)
    assert head == 'namespace = "zdoom";'
    assert pattern.sub("", rest) == ""
    return [(kind, dict(re.findall(r"(\w+) = ([^;]+);", fields))) for kind, fields in pattern.findall(rest)]


def of_kind(text, kind):
    return [fields for found, fields in blocks(text) if found == kind]


def actors(text):
    """The text of every actor by its name."""
    return dict(re.findall(r"^ACTOR (\w+).*\n\{\n((?:.*\n)*?)\}\n", text, re.MULTILINE))


# --- the map ---


@variants
def test_every_index_of_the_map_exists(rules):
    text = textmap(rules)
    assert {kind for kind, _ in blocks(text)} == {"vertex", "linedef", "sidedef", "sector", "thing"}
    vertices, sides = of_kind(text, "vertex"), of_kind(text, "sidedef")
    for line in of_kind(text, "linedef"):
        assert {int(line["v1"]), int(line["v2"])} <= set(range(len(vertices)))
        assert ("sideback" in line) == (line.get("twosided") == "true")
    used = [int(line[end]) for line in of_kind(text, "linedef") for end in ("sidefront", "sideback") if end in line]
    assert sorted(used) == list(range(len(sides)))
    assert {int(side["sector"]) for side in sides} <= {0, 1}
    assert len(of_kind(text, "sector")) == 2


@variants
def test_walls_are_closed(rules):
    text = textmap(rules)
    ends = Counter(line[end] for line in of_kind(text, "linedef") for end in ("v1", "v2"))
    assert all(count % 2 == 0 for count in ends.values())


def test_the_floor_lies_to_the_right_of_its_walls():
    """Twice the area of what is to the right of the lines around the floor, by the shoelace formula."""
    for rules, area in ((RoomRules(), 100.0), (RoomRules(layout=PILLARS), 100.0 * 21 / 25)):
        text = textmap(rules)
        corners = [np.array([float(v["x"]), float(v["y"])]) / 64 for v in of_kind(text, "vertex")]
        doubled = 0.0
        for line in of_kind(text, "linedef"):
            (x0, y0), (x1, y1) = corners[int(line["v1"])], corners[int(line["v2"])]
            doubled += x1 * y0 - x0 * y1
        assert doubled / 2 == pytest.approx(area)


def test_things_are_the_agent_and_the_objects():
    counts = Counter(thing["type"] for thing in of_kind(textmap(RoomRules(types=3, objects_per_type=4)), "thing"))
    assert counts == {"1": 1, "20001": 4, "20002": 4, "20003": 4}


def test_the_agent_starts_on_floor():
    (thing, *_) = of_kind(textmap(RoomRules(layout="#.\n##")), "thing")
    assert (float(thing["x"]), float(thing["y"])) == (480.0, 480.0)  # north-east, in units of 1/64 m


# --- the actors ---


@variants
def test_braces_and_quotes_are_balanced(rules):
    text = decorate(rules)
    assert text.count("{") == text.count("}")
    assert text.count("(") == text.count(")")
    assert text.count('"') % 2 == 0
    assert "nan" not in text


@variants
def test_every_state_that_is_jumped_to_exists(rules):
    for name, text in actors(decorate(rules)).items():
        labels = set(re.findall(r"^ +(\w+):$", text, re.MULTILINE))
        wanted = set(re.findall(r"Goto (\w+)", text)) | set(
            re.findall(r'A_(?:Warp|JumpIf|CheckRange)\(.*"(\w+)"', text)
        )
        assert wanted <= labels, name


@variants
def test_every_line_has_the_form_of_decorate(rules):
    known = re.compile(
        r"ACTOR \w+( : \w+)?( \d+)?|[{}]|var int user_\w+;|States|\w+:"
        r"|(Radius|Height|YScale|Player\.ViewHeight|Inventory\.MaxAmount) [\d.]+"
        r'|(Player\.DisplayName|Weapon\.AmmoType1) "\w+"|Player\.WeaponSlot \d, "\w+"'
        r"|Player\.(Forward|Side)Move [\d.]+, [\d.]+|\+(INVULNERABLE|NOSKIN|NOBLOCKMAP|NOGRAVITY)"
        r"|(TNT1|RMO\d) A \d+( Bright)?( A_\w+(\(.*\))?)?|Goto \w+|Loop|Stop"
    )
    lines = [line.strip() for line in decorate(rules).splitlines() if line.strip()]
    assert [line for line in lines if not known.fullmatch(line)] == []


@variants
def test_every_class_that_is_named_is_defined(rules):
    text = decorate(rules)
    assert set(re.findall(r'"(Room\w+)"', text)) <= set(actors(text))
    parents = set(re.findall(r"ACTOR \w+ : (\w+)", text))
    assert parents <= set(actors(text)) | {"Ammo", "Weapon", "PlayerPawn"}


def test_the_engine_knows_every_function_and_constant():
    vizdoom = pytest.importorskip("vizdoom", reason="vizdoom is not installed")
    with zipfile.ZipFile(vizdoom.__file__.replace("__init__.py", "vizdoom.pk3")) as archive:
        native = "".join(archive.read(n).decode("latin-1") for n in archive.namelist() if n.startswith("actors/"))
    text = decorate(RoomRules(types=8))
    for function in set(re.findall(r"A_\w+", text)):
        assert re.search(rf"action native {function}\b", native), function
    for constant in set(re.findall(r"\b(?:AAPTR|WARPF)_\w+", text)):
        assert re.search(rf"Const Int {constant}\b", native), constant


def test_types_are_told_by_class():
    names = [name for name in actors(decorate(RoomRules(types=8))) if object_type(name) is not None]
    assert [object_type(name) for name in names] == list(range(8))
    assert object_type("RoomAgent") is None


def test_there_are_counters_for_all_types():
    """ViZDoom has AMMO0 to AMMO9."""
    slots = counter_slots(RoomRules(types=len(OBJECTS)))
    assert len(slots) == len(set(slots)) == len(OBJECTS) + 1
    assert set(slots) <= set(range(10))


# --- pictures and file ---


@variants
def test_the_archive_holds_what_map_and_actors_name(rules, tmp_path):
    write_scenario(rules, tmp_path / "room.pk3")
    with zipfile.ZipFile(tmp_path / "room.pk3") as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
    lumps = {name.split("/")[-1].split(".")[0] for name in names}
    textures = set(re.findall(r'texture\w+ = "(\w+)"', textmap(rules)))
    sprites = {f"{name}A0" for name in re.findall(r"RMO\d", decorate(rules))}
    assert len(sprites) == rules.types
    assert textures | sprites | {"DECORATE", "MAPINFO", "PLAYPAL", "COLORMAP", "MAP01"} <= lumps
    assert all(len(lump) <= 8 for lump in lumps)


def test_same_rules_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_scenario(RoomRules(layout=PILLARS), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("index", range(len(OBJECTS)), ids=[kind.name for kind in OBJECTS])
def test_sprites_have_the_size_height_and_colour_of_the_room(index):
    picture = pictures.sprite(index)
    width, low, high = 64 * BOXES[index]
    assert picture.shape[:2] == pytest.approx((high, width), abs=0.5)
    solid = picture[..., 3] > 0
    assert set(np.unique(picture[..., 3])) <= {0, 255}
    assert len(picture) - 1 - np.flatnonzero(solid.any(axis=1)).max() == pytest.approx(low, abs=5)
    assert 0.3 < solid[: round(high - low)].mean() <= 1
    reread = matplotlib.image.imread(io.BytesIO(pictures.png(picture, standing=True)))
    assert (reread * 255).round().astype(np.uint8).tolist() == picture.tolist()
    colour = np.array(OBJECTS[index].colour, float)
    direction = picture[solid][:, :3] @ colour / np.linalg.norm(colour)
    length = np.linalg.norm(picture[solid][:, :3].astype(float), axis=1)
    assert (direction > 0.97 * length).mean() > 0.3  # dark or light, but of the type's hue


@pytest.mark.parametrize("name", ["north", "east", "south", "west", "floor", "ceiling"])
def test_surfaces_are_those_of_the_room_in_the_palette(name):
    picture = pictures.surface(name)
    assert picture.shape == (128, 128, 3)
    assert (picture[::2, ::2] == surface(name)).all()
    palette = pictures.palette().astype(int)
    shades = np.unique(picture.reshape(-1, 3), axis=0).astype(int)
    assert np.abs(shades[:, None] - palette).max(axis=-1).min(axis=1).max() <= 12


def test_a_sprite_tells_its_origin():
    data = pictures.png(np.zeros((10, 6, 4), np.uint8), standing=True)
    place = data.index(b"grAb")
    assert struct.unpack(">ii", data[place + 4 : place + 12]) == (3, 10)
    assert data.index(b"IHDR") < place < data.index(b"IDAT")


def test_the_palette_holds_the_colours_of_the_rules():
    palette = pictures.palette()
    assert palette.shape == (256, 3)
    for kind in room_rules.OBJECTS:
        assert np.abs(palette.astype(int) - kind.colour).max(axis=1).min() <= 1
    colormap = pictures.colormap()
    assert colormap.shape == (34, 256)
    assert palette[colormap[0]].tolist() == palette.tolist()
    assert not palette[colormap[-1]].any()
    light = palette[colormap[:32]].astype(float).mean(axis=(1, 2))
    assert (np.diff(light) < 1).all()
    assert light[31] == pytest.approx(light[0] / 2, rel=0.1)


# --- bad input ---


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"speed": 1.5, "agent_radius": 0.5},
            r"^speed is 1\.5; expected more than 0, at most 0\.9375 metres in the Doom room\.$",
        ),
        ({"layout": ".#\n#."}, r"^The floor of the layout falls into parts"),
        ({"objects_per_type": 500}, r"^2000 objects do not fit"),
    ],
)
def test_rooms_that_cannot_be_written(arguments, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        write_scenario(RoomRules(**arguments), tmp_path / "room.pk3")
    assert not list(tmp_path.iterdir())

"""The room inside of the engine: determinism, φ, speeds, places, views, and what it leaves behind."""

import importlib
import itertools
import math
import os
import subprocess
import sys
import warnings
from hashlib import sha256
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from usfa.environments import EnvironmentBatch, action_count, feature_count, make
from usfa.environments.doom import DoomRoom, pictures, scenario
from usfa.environments.doom.env import Camera
from usfa.environments.room.objects import OBJECTS
from usfa.environments.room.rules import ACTIONS, RoomRules, wall_cells, wall_distance
from usfa.environments.room.textures import BOXES
from usfa.errors import InputError

pytest.importorskip("vizdoom", reason="vizdoom is not installed")

PILLARS = """
........
.##..#..
.#......
......#.
..#.....
......#.
.#..#...
........
"""


@pytest.fixture(scope="module")
def room():
    """The default room, with true positions in `info`."""
    env = DoomRoom(positions=True)
    yield env
    env.close()


def play(env, seed, steps, rng_seed=0):
    """(images, φ, infos) of the first steps of an episode with random actions, mostly forward."""
    shares = np.array([6, 1, 1, 1, 1, 1, 3, 3]) / 17
    actions = np.random.default_rng(rng_seed).choice(len(ACTIONS), size=steps, p=shares)
    image, info = env.reset(seed=seed)
    images, phis, infos = [image], [], [info]
    for action in actions:
        image, phi, terminated, _, info = env.step(action)
        assert not terminated
        images.append(image)
        phis.append(phi)
        infos.append(info)
    return np.array(images), np.array(phis), infos


# --- spaces and contract ---


def test_spaces(room):
    assert room.observation_space == gym.spaces.Box(0, 255, (84, 84, 3), np.uint8)
    assert room.action_space == gym.spaces.Discrete(8)
    assert room.action_names == tuple(action.name for action in ACTIONS)
    assert room.feature_names == ("tv", "ball", "hat", "balloon")
    assert room.reward_space.shape == (4,)
    assert (feature_count(room), action_count(room)) == (4, 8)
    image, _ = room.reset(seed=0)
    assert image in room.observation_space
    image, phi, *_ = room.step(0)
    assert image in room.observation_space
    assert phi in room.reward_space


def test_gymnasium_has_nothing_to_say():
    env = DoomRoom(render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*reward returned by")  # it knows numbers only, ours are vectors
        warnings.filterwarnings("ignore", message=".*(not registered|spec|unwrapped).*")
        check_env(env, skip_render_check=True, skip_close_check=True)
    env.close()


def test_what_is_shown_is_what_was_observed(room):
    env = DoomRoom(render_mode="rgb_array")
    with pytest.raises(InputError, match=r"^There is nothing to show; expected a call of reset\(\) first\.$"):
        env.render()
    image, _ = env.reset(seed=0)
    assert (env.render() == image).all()
    image, *_ = env.step(4)
    assert (env.render() == image).all()
    env.close()
    room.reset(seed=0)
    assert room.render() is None


def test_by_name():
    env = make("room-doom", types=2, image_size=(60, 80), decisions=5)
    assert isinstance(env, DoomRoom)
    assert env.observation_space.shape == (60, 80, 3)
    env.close()


def test_episodes_are_truncated_and_then_over(room):
    env = DoomRoom(decisions=3)
    with pytest.raises(InputError, match=r"^There is no episode to step; expected a call of reset\(\) first\.$"):
        env.step(0)
    env.reset(seed=0)
    assert [env.step(0)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
    with pytest.raises(InputError, match=r"^There is no episode to step"):
        env.step(0)
    env.reset()
    env.step(0)
    env.close()


def test_images_are_not_overwritten(room):
    image, _ = room.reset(seed=0)
    before = image.copy()
    for _ in range(5):
        room.step(4)
    assert (image == before).all()
    assert image.flags.c_contiguous


# --- determinism ---


def digest(images, phis):
    return sha256(images.tobytes() + phis.tobytes()).hexdigest()


def test_same_seed_same_pixels_here_and_in_other_engines(room):
    images, phis, _ = play(room, seed=7, steps=300)
    expected = digest(images, phis)
    play(room, seed=8, steps=20)
    again = play(room, seed=7, steps=300)
    assert digest(*again[:2]) == expected
    other = DoomRoom()
    assert digest(*play(other, seed=7, steps=300)[:2]) == expected
    other.close()
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_doom_room as t\n"
        "env = t.DoomRoom(); print(t.digest(*t.play(env, seed=7, steps=300)[:2])); env.close()"
    )
    said = subprocess.run([sys.executable, "-c", program, Path(__file__).parent], capture_output=True, check=True)
    assert said.stdout.decode().strip() == expected


def test_episodes_follow_from_the_first_seed(room):
    first, _ = room.reset(seed=3)
    second, _ = room.reset()
    assert (room.reset(seed=3)[0] == first).all()
    assert (room.reset()[0] == second).all()
    assert (first != second).any()


def test_seeds_differ(room):
    agents = {tuple(room.reset(seed=seed)[1]["agent"]) for seed in range(20)}
    assert len(agents) == 20


# --- φ, by the positions that the engine tells beside the counters ---


def collected_by_positions(before, after, types):
    """[D]: how many objects moved or vanished; with respawn, rows stay in place."""
    if len(before) == len(after):
        moved = (before != after).any(axis=1)
        return np.bincount(before[moved, 0].astype(int), minlength=types)
    return np.bincount(before[:, 0].astype(int), minlength=types) - np.bincount(
        after[:, 0].astype(int), minlength=types
    )


def towards_the_nearest(info):
    """The action that a collector of everything takes."""
    away = info["objects"][:, 1:] - info["agent"][:2]
    nearest = away[np.hypot(*away.T).argmin()]
    bearing = (math.atan2(nearest[1], nearest[0]) - info["agent"][2] + math.pi) % (2 * math.pi) - math.pi
    names = {-1: "turn right", 0: "forward", 1: "turn left"}
    return [action.name for action in ACTIONS].index(names[round(np.clip(2 * bearing, -1, 1))])


@pytest.mark.parametrize("respawn", [True, False])
def test_phi_is_what_left_its_place(respawn):
    env = DoomRoom(respawn=respawn, positions=True, types=8, objects_per_type=3)
    _, before = env.reset(seed=0)
    total = np.zeros(8, int)
    for _ in range(900):
        if not len(before["objects"]):
            break
        _, phi, _, _, after = env.step(towards_the_nearest(before))
        assert phi.tolist() == collected_by_positions(before["objects"], after["objects"], 8).tolist()
        total += phi.astype(int)
        before = after
    if respawn:
        assert len(before["objects"]) == 24
        assert total.sum() > 60
    else:
        assert total.tolist() == [3] * 8
    env.close()


def test_within_reach_and_only_there(room):
    """After every decision nothing lies within reach, and what was collected had come into reach on the way."""
    rules = room.rules
    for seed in range(3):
        _, _, infos = play(room, seed, 300, rng_seed=seed)
        for before, after in itertools.pairwise(infos):
            gone = (before["objects"] != after["objects"]).any(axis=1)
            assert np.hypot(*(after["objects"][:, 1:] - after["agent"][:2]).T).min() > rules.reach
            to_end = np.hypot(*(before["objects"][gone, 1:] - after["agent"][:2]).T)
            assert (to_end <= rules.reach + rules.speed / 2 + 0.01).all()
            appeared = np.hypot(*(after["objects"][gone, 1:] - after["agent"][:2]).T)
            assert (appeared >= rules.clearance - rules.speed / 2 - 0.01).all()


def test_a_batch_adds_up_the_features():
    class Vectors(gym.ObservationWrapper):
        observation_space = gym.spaces.Box(0, 255, (3,), np.float32)

        def observation(self, image):
            return image.mean(axis=(0, 1)).astype(np.float32)

    env = DoomRoom(decisions=30)
    batch = EnvironmentBatch([Vectors(env)], 0.9, [0])
    steps = [batch.step(np.array([0])) for _ in range(31)]
    assert [step.ended.item() for step in steps] == [False] * 29 + [True, False]
    assert not steps[-1].real.item()
    assert steps[29].episode_phi[0].tolist() == sum(step.phi[0] for step in steps[:30]).tolist()
    env.close()


# --- places ---


@pytest.mark.parametrize("arguments", [{}, {"layout": PILLARS}, {"side": 5.0, "types": 2}])
def test_nobody_is_in_a_wall(arguments):
    env = DoomRoom(positions=True, **arguments)
    walls, side = wall_cells(env.rules), env.rules.side
    for seed in range(12):
        _, _, infos = play(env, seed, 40, rng_seed=seed)
        objects = np.concatenate([info["objects"][:, 1:] for info in infos])
        agents = np.array([info["agent"][:2] for info in infos])
        assert wall_distance(walls, side, objects).min() >= env.rules.wall_distance - 1e-3
        inside = np.minimum(agents, side - agents).min()
        assert inside >= env.rules.agent_radius - 1e-3
        cells = (agents // (side / len(walls))).astype(int)
        assert not walls[cells[:, 1], cells[:, 0]].any()
        start = infos[0]
        assert np.hypot(*(start["objects"][:, 1:] - start["agent"][:2]).T).min() >= env.rules.clearance - 1e-3
    env.close()


def test_places_and_headings_fill_the_room(room):
    infos = [room.reset(seed=seed)[1] for seed in range(100)]
    objects = np.concatenate([info["objects"][:, 1:] for info in infos])
    agents = np.array([info["agent"] for info in infos])
    for points in (objects, agents[:, :2]):
        assert points.min() < 1.0
        assert points.max() > 9.0
        assert points.mean(axis=0) == pytest.approx([5, 5], abs=0.9)
    assert np.histogram(agents[:, 2], bins=4, range=(0, 2 * math.pi))[0].min() > 10


# --- speeds ---


@pytest.mark.parametrize(("speed", "turn"), [(0.25, math.radians(12)), (0.4, math.radians(5)), (0.1, 0.5)])
def test_metres_and_radians_per_decision_are_those_of_the_rules(speed, turn):
    """Within half a millimetre and a hundredth of a degree: Doom's own rounding of thrust and angles."""
    env = DoomRoom(positions=True, speed=speed, turn=turn, types=2, objects_per_type=1)
    for number, action in enumerate(ACTIONS):
        for seed in range(8):
            before = env.reset(seed=seed)[1]["agent"]
            if np.minimum(before[:2], 10 - before[:2]).min() < 4 * speed + 0.25:
                continue  # a wall could be in the way
            for _ in range(3):
                after = env.step(number)[-1]["agent"]
                turned = (after[2] - before[2] + math.pi) % (2 * math.pi) - math.pi
                assert turned == pytest.approx(action.turn * turn, abs=math.radians(0.01))
                # Turning comes first in each of the two tics.
                headings = before[2] + action.turn * turn * np.array([0.5, 1.0])
                forward = np.array([np.cos(headings), np.sin(headings)]).mean(axis=1) * action.forward
                aside = np.array([np.sin(headings), -np.cos(headings)]).mean(axis=1) * action.strafe
                assert after[:2] - before[:2] == pytest.approx(speed * (forward + aside), abs=5e-4)
                before = after
    env.close()


def test_the_agent_does_not_glide(room):
    room.reset(seed=0)
    for _ in range(3):
        moved = room.step(0)[-1]["agent"]
    assert (room.step(4)[-1]["agent"][:2] == moved[:2]).all()


def test_the_agent_slides_along_walls(room):
    """It walks against a wall at an angle: the wall stops it at its radius, and it goes on along the wall."""
    _, info = room.reset(seed=1)
    for _ in range(80):
        _, _, _, _, info = room.step(0)
        agent = info["agent"]
        if np.minimum(agent[:2], 10 - agent[:2]).min() < 0.26:
            break
    after = room.step(0)[-1]["agent"]
    assert np.minimum(after[:2], 10 - after[:2]).min() >= 0.25 - 1e-3
    assert np.hypot(*(after[:2] - agent[:2])) > 0.01


# --- views ---


@pytest.mark.parametrize("field_of_view", [80, 110])
def test_objects_are_seen_where_they_are(field_of_view):
    """The column in which a ball is seen, against a pinhole camera."""
    env = DoomRoom(types=2, objects_per_type=1, positions=True, field_of_view=field_of_view)
    focal = 42 / math.tan(math.radians(field_of_view / 2))
    checked = 0
    for seed in range(200):
        image, info = env.reset(seed=seed)
        (_, tv), (kind, ball) = ((row[0], row[1:] - info["agent"][:2]) for row in info["objects"])
        assert kind == 1
        heading = info["agent"][2]
        ahead = ball @ [math.cos(heading), math.sin(heading)]
        right = ball @ [math.sin(heading), -math.cos(heading)]
        tv_ahead = tv @ [math.cos(heading), math.sin(heading)]
        if ahead > 1.5 and abs(right) / ahead < 0.7 and (tv_ahead < 0 or tv_ahead > ahead):
            red, green, blue = np.moveaxis(image.astype(int), -1, 0)
            _, columns = np.nonzero((red > 2 * green + 20) & (red > 2 * blue + 20))
            assert columns.mean() + 0.5 == pytest.approx(42 + focal * right / ahead, abs=1.0)
            assert np.ptp(columns) + 1 == pytest.approx(focal * 0.94 * BOXES[1, 0] / ahead, abs=2.5)  # within its box
            checked += 1
    assert checked > 15
    env.close()


def test_the_embedded_room_has_the_same_camera_and_spaces(room):
    pytest.importorskip("numba", reason="numba is not installed")
    drawing = importlib.import_module("usfa.environments.room.drawing")
    assert (scenario.EYE, scenario.CEILING) == (drawing.EYE, drawing.CEILING)
    embedded = importlib.import_module("usfa.environments.room.env").Room()
    for name in ("observation_space", "action_space", "reward_space", "action_names", "feature_names", "rules"):
        assert getattr(room, name) == getattr(embedded, name)


@pytest.mark.parametrize("field_of_view", [80, 110])
@pytest.mark.parametrize("size", [(84, 84), (42, 42), (60, 80), (120, 160), (21, 21), (200, 200)])
def test_sizes(size, field_of_view):
    camera = Camera(*size, field_of_view)
    rows, columns = camera.screen
    assert camera.scale * size[0] <= rows
    assert camera.scale * size[1] <= columns
    assert camera.image(np.zeros((rows, columns, 3), np.uint8)).shape == (*size, 3)
    focal = columns / 2 / math.tan(math.radians(camera.screen_view / 2))
    assert 2 * math.degrees(math.atan(size[1] * camera.scale / 2 / focal)) == pytest.approx(field_of_view, abs=1)


def test_a_smaller_image_is_the_same_view(room):
    small = DoomRoom(image_size=42)
    images, _, _ = play(room, 5, 30)
    halves, _, _ = play(small, 5, 30)
    means = images.reshape(-1, 42, 2, 42, 2, 3).mean(axis=(2, 4))
    assert (np.floor(means + 0.5) == halves).all()
    small.close()


def test_types_have_their_colours():
    """Each type in turn fills part of some view with the colour that most of its sprite has."""
    env = DoomRoom(types=8, objects_per_type=4)
    views = np.concatenate([env.reset(seed=seed)[0].reshape(-1, 3) for seed in range(20)])
    for index, kind in enumerate(OBJECTS):
        picture = pictures.sprite(index)
        shades, counts = np.unique(picture[picture[..., :3].max(axis=-1) > 20][:, :3], axis=0, return_counts=True)
        main = shades[counts.argmax()]
        assert np.abs(main / np.linalg.norm(main) - kind.colour / np.linalg.norm(kind.colour)).max() < 0.02, kind.name
        assert (np.abs(views.astype(int) - main).max(axis=1) <= 8).sum() > 30, kind.name
    env.close()


# --- what it leaves behind ---


def test_nothing_is_written_and_nothing_keeps_running(tmp_path, monkeypatch):
    desk, temporary = tmp_path / "desk", tmp_path / "temporary"
    desk.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(desk)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    before = children()
    env = DoomRoom(layout=PILLARS)
    assert children() != before
    play(env, 0, 20)
    env.close()
    env.close()
    assert children() == before
    assert list(desk.iterdir()) == []
    assert list(temporary.iterdir()) == []
    with pytest.raises(InputError, match=r"^There is no episode to step"):
        env.step(0)
    with pytest.raises(InputError, match=r"^The Doom room is closed; expected a new one to be made\.$"):
        env.reset()


def children():
    """The processes that this one started and that run."""
    own = Path(f"/proc/{os.getpid()}/task")
    if not own.exists():
        pytest.skip("no /proc to count processes in")
    return {pid for task in own.iterdir() for pid in (task / "children").read_text().split()}


def test_a_forgotten_room_ends_its_engine():
    before = children()
    env = DoomRoom()
    env.reset(seed=0)
    del env
    assert children() == before


def test_importing_the_library_does_not_import_the_engine():
    program = "import sys, usfa, usfa.environments, usfa.environments.doom; print('vizdoom' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert said.stdout.decode().strip() == "False"


# --- bad input ---


def test_without_the_extra(monkeypatch):
    real = importlib.import_module

    def refuse(name, *arguments):
        if name == "vizdoom":
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *arguments)

    monkeypatch.setattr(importlib, "import_module", refuse)
    sentence = "The Doom room needs ViZDoom; install it with pip install 'usfa[doom]'."
    for create in (DoomRoom, lambda: make("room-doom")):
        with pytest.raises(InputError) as error:
            create()
        assert str(error.value) == sentence


@pytest.mark.parametrize("action", [-1, 8, 0.5, "forward", None])
def test_actions_that_do_not_exist(room, action):
    room.reset(seed=0)
    with pytest.raises(InputError, match=rf"^Action {action!r} does not exist; expected 0 to 7\.$"):
        room.step(action)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"types": 9}, r"^types is 9; expected 2 to 8\.$"),
        ({"image_size": 5}, r"^image_size is 5 by 5; expected 8 by 8 to 600 by 800\.$"),
        ({"image_size": (84, 900)}, r"^image_size is 84 by 900; expected 8 by 8 to 600 by 800\.$"),
        (
            {"image_size": (120, 8)},
            r"^image_size is 120 by 8 and field_of_view 80; expected a wider",
        ),
        ({"render_mode": "human"}, r"^render_mode is 'human'; expected None or 'rgb_array'\.$"),
        ({"speed": 1.0}, r"^speed is 1\.0; expected more than 0, at most 0\.9375 metres"),
        (
            {"rules": RoomRules(), "side": 5.0},
            r"^rules is given together with side; expected one or the other\.$",
        ),
        ({"colour": "red"}, r"^Environment 'room-doom' cannot be made with \{'colour': 'red'\}: "),
    ],
)
def test_rooms_that_cannot_be_made(arguments, sentence):
    before = children()
    with pytest.raises(InputError, match=sentence):
        make("room-doom", **arguments)
    assert children() == before


def test_a_room_in_which_objects_find_no_place():
    env = DoomRoom(side=4.0, clearance=4.0, types=2)  # only from the very corners
    sentence = r"^Only \d+ of the agent and 10 objects found a place; expected a larger room"
    with pytest.raises(InputError, match=sentence):
        env.reset(seed=0)
    env.close()

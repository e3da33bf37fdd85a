import math
import os
import subprocess
import sys

import numpy as np
import pytest

from usfa.environments.room import ACTIONS, Room, RoomBatch, RoomRules
from usfa.environments.room.oracle import Greedy
from usfa.environments.room.rules import wall_cells, wall_distance
from usfa.errors import InputError

PILLARS = "......\n.#..#.\n......\n......\n.#..#.\n......"
MAZE = ".....\n.###.\n...#.\n.#.#.\n.#..."
VARIANTS = [
    *(RoomRules(types=types) for types in range(2, 9)),
    RoomRules(objects_per_type=1),
    RoomRules(objects_per_type=20),
    RoomRules(side=4.0, objects_per_type=2),
    RoomRules(side=40.0),
    RoomRules(layout=PILLARS, side=12.0),
    RoomRules(layout=MAZE, objects_per_type=2, side=12.0),
    RoomRules(respawn=False, decisions=300),
    RoomRules(layout=PILLARS, respawn=False, decisions=100, side=12.0),
]


def run_and_check(rules, image_size=10, rooms=20, steps=500):
    """10,000 random steps: nobody outside, nothing in a wall, every number finite."""
    batch = RoomBatch(rooms, rules, image_size=image_size)
    walls = wall_cells(rules)
    rng = np.random.default_rng(0)
    action = np.zeros(rooms, np.int64)
    for step in range(steps):
        # Long runs in one direction reach walls and corners more often than a walk at random.
        action = rng.integers(8, size=rooms) if step % 20 == 0 else np.where(rng.random(rooms) < 0.2, 0, action)
        outcome = batch.step(action)
        assert np.isfinite(outcome.phi).all()
        if step % 10 == 0:
            world = batch.world
            assert np.isfinite(world.pose).all()
            assert (wall_distance(walls, rules.side, world.pose[:, :2]) >= rules.agent_radius - 1e-6).all()
            lying = world.objects[world.alive]
            assert (wall_distance(walls, rules.side, lying) >= rules.wall_distance - 1e-9).all()


@pytest.mark.parametrize("rules", VARIANTS, ids=str)
def test_ten_thousand_random_steps_of_every_variant(rules):
    run_and_check(rules)


@pytest.mark.long
def test_nothing_is_written_out_of_bounds(tmp_path):
    """Every variant once more, with numba checking each index; the cache is its own, for it holds other code."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import test_room_world as t\n"
        "for number, rules in enumerate(t.VARIANTS): t.run_and_check(rules, 8 + 7 * (number % 3), rooms=4, steps=300)\n"
        "from usfa.environments.room import Oracle, RoomBatch, RoomRules\n"
        "for rules in (RoomRules(), RoomRules(layout='..... .#... ..... ...#. .....')):\n"
        "    batch, oracle = RoomBatch(4, rules, image_size=84, frame_stack=2), Oracle(rules)\n"
        "    for _ in range(60): batch.step(oracle.act(batch.world, [1, -1, 0.5, 0]))\n"
        "print('checked')"
    )
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    here = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, "-c", code, here], env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.stdout.strip() == "checked", done.stderr


def test_phi_is_the_bookkeeping_of_positions():
    """Replayed frame by frame in Python: φ counts, by type, the objects that came within reach, and only they moved."""
    rules = RoomRules(objects_per_type=12, side=8.0)
    batch = RoomBatch(6, rules, image_size=8)
    types = np.repeat(np.arange(4), 12)
    rng, greedy = np.random.default_rng(3), Greedy(rules)
    collected = 0
    for _ in range(400):
        pose, objects = batch.world.pose.copy(), batch.world.objects.copy()
        action = np.where(rng.random(6) < 0.3, rng.integers(8, size=6), greedy.act(batch.world, np.ones(4)))
        phi = batch.step(action).phi
        for room in range(6):
            met = objects_met(rules, pose[room], objects[room], ACTIONS[action[room]])
            moved = (batch.world.objects[room] != objects[room]).any(axis=1)
            np.testing.assert_array_equal(np.flatnonzero(moved), sorted(met))
            np.testing.assert_array_equal(phi[room], np.bincount(types[list(met)], minlength=4))
            for index in met:
                away = np.hypot(*(batch.world.objects[room, index] - batch.world.pose[room, :2]))
                assert away >= rules.clearance - rules.speed
        collected += phi.sum()
    assert collected > 300


def objects_met(rules, pose, objects, action):
    x, y, heading = pose
    met = set()
    for _ in range(4):
        heading += action.turn * rules.turn / 4
        ahead, aside = action.forward * rules.speed / 4, action.strafe * rules.speed / 4
        x += ahead * math.cos(heading) + aside * math.sin(heading)
        y += ahead * math.sin(heading) - aside * math.cos(heading)
        x, y = (min(max(value, rules.agent_radius), rules.side - rules.agent_radius) for value in (x, y))
        if ahead or aside:
            met |= {index for index, place in enumerate(objects) if math.hypot(*(place - (x, y))) <= rules.reach}
    return met


def test_walking_into_a_wall_slides_along_it():
    batch = RoomBatch(1, RoomRules(objects_per_type=1))
    batch.world.pose[:] = (9.0, 5.0, math.radians(45))
    for _ in range(12):
        batch.step([0])
    x, y, _ = batch.world.pose[0]
    assert x == pytest.approx(9.75)
    assert y == pytest.approx(5.0 + 12 * 0.25 * math.sin(math.radians(45)))


def test_objects_start_away_from_the_agent_and_from_walls():
    for rules in (RoomRules(), RoomRules(layout=PILLARS, side=12.0)):
        world = RoomBatch(300, rules, image_size=8).world
        away = np.hypot(*np.moveaxis(world.objects - world.pose[:, None, :2], -1, 0))
        assert away.min() >= rules.clearance
        assert wall_distance(wall_cells(rules), rules.side, world.objects.reshape(-1, 2)).min() >= rules.wall_distance


def test_places_are_spread_evenly():
    world = RoomBatch(2000, RoomRules(objects_per_type=1, clearance=0.0), image_size=8).world
    quarters = np.histogram2d(*world.objects.reshape(-1, 2).T, bins=4, range=[[0.5, 9.5]] * 2)[0]
    assert quarters.min() > 0.85 * 500
    assert quarters.max() < 1.15 * 500
    assert np.histogram(world.pose[:, 2], 8, (0, 2 * np.pi))[0].min() > 200


def test_objects_that_do_not_come_back():
    rules = RoomRules(types=2, objects_per_type=2, respawn=False, side=4.0)
    batch = RoomBatch(1, rules, image_size=8)
    total = np.zeros(2)
    for _ in range(200):
        total += batch.step(Greedy(rules).act(batch.world, np.ones(2))).phi[0]
    np.testing.assert_array_equal(total, [2, 2])
    assert not batch.world.alive.any()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"types": 9}, "types is 9; expected 2 to 8."),
        ({"layout": "...\n..\n..."}, "Line 2 of the layout has 2 cells; expected 3, as many as there are lines."),
        ({"layout": "..\n.x"}, "Line 2 of the layout is '.x'; expected only '#' for wall and '.' for floor."),
        ({"layout": "##\n##"}, "The layout has no floor; expected at least one '.'."),
        ({"layout": ""}, "The layout has no floor; expected at least one '.'."),
        ({"layout": "..#..\n..#..\n..#..\n..#..\n..#.."}, "The floor of the layout falls into parts"),
        ({"layout": "\n".join(["." * 25] * 25)}, "a cell must be at least 0.5 metres wide, the width of the agent."),
        ({"objects_per_type": 100}, "400 objects do not fit: the room has space for 324"),
        ({"side": 3}, "side is 3; expected 4 to 100 metres."),
        ({"reach": 0}, "reach is 0; expected a number above 0, at most 2."),
        ({"wall_distance": 0.1}, "wall_distance is 0.1; expected 0.25 metres, the agent's radius, to 2.5"),
        ({"clearance": -1}, "clearance is -1; expected 0 to 10.0 metres"),
    ],
)
def test_rooms_that_cannot_be(arguments, said):
    with pytest.raises(InputError) as error:
        RoomBatch(1, RoomRules(**arguments))
    assert said in str(error.value)


SERPENTINE = ".........\n########.\n.........\n.########\n.........\n########.\n.........\n.########\n........."


def test_objects_appear_away_from_the_agent_in_narrow_rooms_too():
    rules = RoomRules(objects_per_type=1, layout=SERPENTINE, side=9.5)
    world = RoomBatch(500, rules, image_size=8).world
    away = np.hypot(*np.moveaxis(world.objects - world.pose[:, None, :2], -1, 0))
    assert away.min() >= rules.clearance


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"speed": 2.0, "agent_radius": 0.25}, "would pass through walls"),
        ({"types": 2.5}, "types is 2.5; expected a whole number"),
        ({"layout": [".."]}, "expected a text with a line per row"),
    ],
)
def test_rules_that_would_break_the_world(fields, sentence):
    with pytest.raises(InputError, match=sentence):
        RoomRules(**fields)


def test_phi_stays_within_its_space_when_objects_appear_at_once():
    env = Room(image_size=8, side=4.0, objects_per_type=1, clearance=0.0)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    assert all(env.reward_space.contains(env.step(rng.integers(8))[1]) for _ in range(800))

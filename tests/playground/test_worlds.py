import importlib.util
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import usfa
from usfa.environments import ObservationSpec, make
from usfa.errors import InputError
from usfa.playground.worlds import DoomWorld, MdpWorld, PictureWorld, RoomWorld, make_world


def test_the_same_seed_is_the_same_room():
    one, other = RoomWorld({"image_size": 24}), RoomWorld({"image_size": 42})
    for world in (one, other):
        world.reset(7)
    assert one.place() == other.place()
    one.reset(8)
    assert one.place() != other.place()


def test_between_two_decisions_the_room_is_on_the_way():
    world = RoomWorld({"image_size": 24})
    world.reset(2)
    before = np.array(world.place()["pose"])
    world.step(world.actions.index("forward, turning left"))
    after, halfway = np.array(world.place()["pose"]), np.array(world.place(0.5)["pose"])
    np.testing.assert_allclose(halfway, (before + after) / 2, atol=2e-3)
    assert (world.picture(64, 0.5) != world.picture(64)).any()
    np.testing.assert_array_equal(world.picture(64), world.picture(64, 1.0))


def test_turning_through_south_takes_the_short_way():
    world = RoomWorld({"image_size": 24})
    world._batch.world.pose[0, 2] = np.pi - 0.05
    world._previous_pose[:] = world._batch.world.pose
    world._previous_pose[0, 2] = -np.pi + 0.05
    assert abs(abs(world.place(0.5)["pose"][2]) - np.pi) < 0.01


def test_what_the_agent_sees_is_its_observation():
    world = RoomWorld({"image_size": 24, "frame_stack": 2})
    world.step(0)
    np.testing.assert_array_equal(world.eyes(), world.observation[..., -3:])
    assert world.observation.shape == (24, 24, 6)


def test_the_map_has_every_object_of_the_room():
    world = RoomWorld({"image_size": 24, "objects_per_type": 2, "layout": "....\n.#..\n....\n...."})
    assert [kind for kind, *_ in world.place()["objects"]] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert world.plan()["walls"][2] == [0, 1, 0, 0]  # rows from the south
    assert [feature.name for feature in world.features] == ["tv", "ball", "hat", "balloon"]


def test_the_trip_is_a_graph_with_a_way_through_it():
    world = make_world(usfa.load("trip"))
    assert isinstance(world, MdpWorld)
    plan = world.plan()
    assert plan["states"] == ["s1", "s2"]
    assert [0, 7, 1, [-0.05, -0.05]] in plan["edges"]  # E leads from s1 to s2
    assert [0, 0, -1, [1.0, 0.0]] in plan["edges"]  # C ends the trip
    assert len(plan["edges"]) == 3 + 7
    assert not world.step(7).over
    phi, over = world.step(3)
    assert over
    np.testing.assert_allclose(phi, [np.cos(np.pi / 4), np.sin(np.pi / 4)])
    assert world.place()["trail"] == [(0, 7), (1, 3)]
    assert world.optimum(np.array([1.0, 0.0])) == pytest.approx(1.0)


def test_an_environment_without_end_has_no_optimum():
    assert MdpWorld(make("one-state").unwrapped).optimum(np.ones(1)) is None


class Lamp(gym.Env):
    """Renders one colour."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 100}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Box(0, 1, (3,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.reward_space = gym.spaces.Box(0, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.ones(3, np.float32), np.array([1.0, 0.0]), False, True, {}

    def render(self):
        return np.full((300, 400, 3), 200, np.uint8) if self.render_mode else None


def test_whatever_renders_can_be_played_in():
    world = PictureWorld(Lamp("rgb_array"))
    assert world.picture(200).shape == (150, 200, 3)
    assert world.eyes() is None
    assert world.place() is None
    assert (len(world.features), len(world.actions), world.rate) == (2, 2, 15)
    assert world.step(0).over


def test_what_does_not_render_is_told_in_a_sentence():
    with pytest.raises(InputError, match="does not render pictures"):
        PictureWorld(Lamp()).picture(200)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_a_mo_gymnasium_agent_finds_its_world():
    agent = usfa.load("trip")
    sea = "mo_gymnasium:deep-sea-treasure-v0"
    spec = replace(agent.file.spec, observation=ObservationSpec.of(make(sea).observation_space), actions=4)
    agent.file = replace(agent.file, environment=sea, spec=spec, environment_arguments={})
    with pytest.raises(InputError, match="trust"):
        make_world(replace_environment(agent, "no_such_module:Env-v0"))
    world = make_world(agent, trust=True)
    try:
        assert isinstance(world, PictureWorld)
        assert world.picture(128).shape[2] == 3
    finally:
        world.close()


def replace_environment(agent, name):
    copy = usfa.load("trip")
    copy.file = replace(agent.file, environment=name)
    return copy


@pytest.mark.parametrize("environment", [None, ""])
def test_a_file_does_not_choose_the_function_of_its_environment(environment):
    agent = usfa.load("trip")
    agent.file = replace(agent.file, environment="os:getpid")
    with pytest.raises(InputError, match=r"which would be run; say trust|Unknown environment ''"):
        make_world(agent, environment)


def test_a_file_does_not_choose_the_function_of_phi():
    agent = usfa.load("trip")
    agent.file = replace(agent.file, phi="os:system")
    for environment in (None, "trip"):
        with pytest.raises(InputError, match="'os:system' for φ"):
            make_world(agent, environment)


def test_an_agent_is_not_put_where_it_does_not_fit(repertoire):
    with pytest.raises(InputError, match="cannot be made with"):
        make_world(repertoire["small"], "trip")
    with pytest.raises(InputError, match="the agent expected"):
        make_world(usfa.load("trip"), "one-state")


@pytest.mark.skipif(importlib.util.find_spec("vizdoom") is None, reason="ViZDoom is not installed")
def test_an_agent_of_the_room_plays_in_doom(repertoire):
    world = make_world(repertoire["small"], "room-doom")
    try:
        assert isinstance(world, DoomWorld)
        assert world.kind == "room"
        assert len(world.place()["objects"]) == 20
        assert all(0 <= x <= 10 and 0 <= y <= 10 for _, x, y in world.place()["objects"])
        assert world.picture(336).shape == (24, 24, 3)
        before = world.place()["pose"]
        world.step(0)
        assert world.place()["pose"] != before
    finally:
        world.close()

import importlib.util
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import usfa
from usfa.environments import ObservationSpec, make
from usfa.errors import InputError
from usfa.playground.catalogue import make_view
from usfa.playground.room_view import DoomView, RoomView
from usfa.playground.views import MdpView, RenderedView


def test_the_same_seed_is_the_same_room():
    one, other = RoomView({"image_size": 24}), RoomView({"image_size": 42})
    for view in (one, other):
        view.reset(7)
    assert one.position() == other.position()
    one.reset(8)
    assert one.position() != other.position()


def test_between_two_decisions_the_room_is_on_the_way():
    view = RoomView({"image_size": 24})
    view.reset(2)
    before = np.array(view.position()["pose"])
    view.step(view.actions.index("forward, turning left"))
    after, halfway = np.array(view.position()["pose"]), np.array(view.position(0.5)["pose"])
    np.testing.assert_allclose(halfway, (before + after) / 2, atol=2e-3)
    assert (view.picture(64, 0.5) != view.picture(64)).any()
    np.testing.assert_array_equal(view.picture(64), view.picture(64, 1.0))


def test_turning_through_south_takes_the_short_way():
    view = RoomView({"image_size": 24})
    view._batch.world.pose[0, 2] = np.pi - 0.05
    view._previous_pose[:] = view._batch.world.pose
    view._previous_pose[0, 2] = -np.pi + 0.05
    assert abs(abs(view.position(0.5)["pose"][2]) - np.pi) < 0.01


def test_what_the_agent_sees_is_its_observation():
    view = RoomView({"image_size": 24, "frame_stack": 2})
    view.step(0)
    np.testing.assert_array_equal(view.observation_picture(), view.observation[..., -3:])
    assert view.observation.shape == (24, 24, 6)


def test_the_picture_and_the_map_have_the_camera_of_the_agent():
    view = RoomView({"image_size": 24, "field_of_view": 110})
    np.testing.assert_array_equal(view.picture(24), view.observation)
    assert view.plan()["view"] == 110


def test_the_map_has_every_object_of_the_room():
    view = RoomView({"image_size": 24, "objects_per_type": 2, "layout": "....\n.#..\n....\n...."})
    assert [kind for kind, *_ in view.position()["objects"]] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert view.plan()["walls"][2] == [0, 1, 0, 0]  # rows from the south
    assert [feature.name for feature in view.features] == ["tv", "ball", "hat", "balloon"]


def test_the_trip_is_a_graph_with_a_way_through_it():
    view = make_view(usfa.load("trip"))
    assert isinstance(view, MdpView)
    plan = view.plan()
    assert plan["states"] == ["s1", "s2"]
    assert [0, 7, 1, [-0.05, -0.05]] in plan["edges"]  # E leads from s1 to s2
    assert [0, 0, -1, [1.0, 0.0]] in plan["edges"]  # C ends the trip
    assert len(plan["edges"]) == 3 + 7
    assert not view.step(7).over
    phi, over = view.step(3)
    assert over
    np.testing.assert_allclose(phi, [np.cos(np.pi / 4), np.sin(np.pi / 4)])
    assert view.position()["trail"] == [(0, 7), (1, 3)]
    assert view.optimum(np.array([1.0, 0.0])) == pytest.approx(1.0)


def test_an_environment_without_end_has_no_optimum():
    assert MdpView(make("one-state").unwrapped).optimum(np.ones(1)) is None


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
    view = RenderedView(Lamp("rgb_array"))
    assert view.picture(200).shape == (150, 200, 3)
    assert view.observation_picture() is None
    assert view.position() is None
    assert (len(view.features), len(view.actions), view.rate) == (2, 2, 15)
    assert view.step(0).over


def test_what_does_not_render_is_told_in_a_sentence():
    with pytest.raises(InputError, match="does not render pictures"):
        RenderedView(Lamp()).picture(200)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_a_mo_gymnasium_agent_finds_its_world():
    agent = usfa.load("trip")
    sea = "mo_gymnasium:deep-sea-treasure-v0"
    spec = replace(agent.file.spec, observation=ObservationSpec.of(make(sea).observation_space), actions=4)
    agent.file = replace(agent.file, environment=sea, spec=spec, environment_arguments={})
    with pytest.raises(InputError, match="trust"):
        make_view(replace_environment(agent, "no_such_module:Env-v0"))
    view = make_view(agent, trust=True)
    try:
        assert isinstance(view, RenderedView)
        assert view.picture(128).shape[2] == 3
    finally:
        view.close()


def replace_environment(agent, name):
    copy = usfa.load("trip")
    copy.file = replace(agent.file, environment=name)
    return copy


@pytest.mark.parametrize("environment", [None, ""])
def test_a_file_does_not_choose_the_function_of_its_environment(environment):
    agent = usfa.load("trip")
    agent.file = replace(agent.file, environment="os:getpid")
    with pytest.raises(InputError, match=r"which would be run; set trust|Unknown environment ''"):
        make_view(agent, environment)


def test_a_file_does_not_choose_the_function_of_phi():
    agent = usfa.load("trip")
    agent.file = replace(agent.file, phi="os:system")
    for environment in (None, "trip"):
        with pytest.raises(InputError, match="'os:system' for φ"):
            make_view(agent, environment)


def test_an_agent_is_not_put_where_it_does_not_fit(catalogue):
    with pytest.raises(InputError, match="cannot be made with"):
        make_view(catalogue["small"], "trip")
    with pytest.raises(InputError, match="the agent expected"):
        make_view(usfa.load("trip"), "one-state")


@pytest.mark.skipif(importlib.util.find_spec("vizdoom") is None, reason="ViZDoom is not installed")
def test_an_agent_of_the_room_plays_in_doom(catalogue):
    view = make_view(catalogue["small"], "room-doom")
    try:
        assert isinstance(view, DoomView)
        assert view.kind == "room"
        assert len(view.position()["objects"]) == 20
        assert all(0 <= x <= 10 and 0 <= y <= 10 for _, x, y in view.position()["objects"])
        assert view.picture(336).shape == (24, 24, 3)
        before = view.position()["pose"]
        view.step(0)
        assert view.position()["pose"] != before
    finally:
        view.close()

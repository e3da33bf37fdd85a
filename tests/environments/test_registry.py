import importlib
import warnings

import gymnasium as gym
import numpy as np
import pytest

from fake_environments import Scripted
from usfa.environments import (
    EnvironmentBatch,
    EnvironmentSource,
    ObservationSpec,
    OneState,
    Room,
    RoomBatch,
    TabularEnv,
    Trip,
    action_count,
    feature_count,
    make,
    source,
)
from usfa.errors import InputError


@pytest.fixture(scope="module")
def mo_gymnasium():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what others warn of at their import is theirs
        return importlib.import_module("mo_gymnasium")


def test_our_names():
    assert isinstance(make("trip"), Trip)
    assert isinstance(make("one-state"), OneState)
    assert make("trip", places=3).action_space.n == 5
    assert make("one-state", gamma=0.5).mdp.discount.max() == 0.5


@pytest.mark.filterwarnings("ignore:.*precision lowered by casting")  # Gymnasium's, about their Box
def test_gymnasium_ids_with_vector_rewards(mo_gymnasium):
    env = make("deep-sea-treasure-v0")
    assert feature_count(env) == 2
    assert action_count(env) == 4
    assert not isinstance(env.unwrapped, TabularEnv)
    batch = EnvironmentBatch([env], 0.9, [0])
    rng = np.random.default_rng(0)
    phi = [batch.step(rng.integers(4, size=1)).phi[0] for _ in range(50)]
    assert {float(time) for _, time in phi} == {-1.0}  # the second feature is the time it takes


@pytest.mark.filterwarnings("ignore:.*precision lowered by casting")
def test_modules_are_imported_for_their_ids(mo_gymnasium):
    assert feature_count(make("mo_gymnasium:deep-sea-treasure-v0")) == 2


def test_an_environment_without_features_is_told_apart():
    with pytest.raises(InputError, match=r"has the reward_space None; expected a Box of shape \[D\]"):
        feature_count(make("CartPole-v1"))


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("tripp", {}, r"^Unknown environment 'tripp': did you mean 'trip'\?$"),
        ("one_state", {}, r"did you mean 'one-state'\?$"),
        ("CartPol-v1", {}, r"did you mean 'CartPole-v1'\?$"),
        ("trip", {"plaices": 3}, r"^Environment 'trip' cannot be made with \{'plaices': 3\}: .*plaices"),
        ("trip", {"places": "six"}, r"^Environment 'trip' cannot be made with \{'places': 'six'\}: "),
        ("trip", {"places": 0}, r"^places is 0; expected at least 1\.$"),
        ("CartPole-v1", {"mass": 3}, r"^Environment 'CartPole-v1' cannot be made with \{'mass': 3\}: "),
        ("no_such_module:Env-v0", {}, r"^Environment 'no_such_module:Env-v0' cannot be made with \{\}: "),
        ("gymnasium:Nothing-v0", {}, r"^Environment 'gymnasium:Nothing-v0' cannot be made"),
    ],
)
def test_what_cannot_be_made(name, arguments, sentence):
    with pytest.raises(InputError, match=sentence) as error:
        make(name, **arguments)
    assert "\n" not in str(error.value)


# --- observations ---


def test_states_become_one_hot():
    spec = ObservationSpec.of(gym.spaces.Discrete(4))
    assert spec == ObservationSpec((4,), 4, 0)
    assert spec.encode(2).tolist() == [0, 0, 1, 0]
    assert spec.encode(np.array([[0, 3], [1, 1]])).shape == (2, 2, 4)
    assert spec.encode(np.int64(3)).dtype == np.float32


def test_states_may_start_anywhere():
    spec = ObservationSpec.of(gym.spaces.Discrete(3, start=-1))
    assert spec == ObservationSpec((3,), 3, -1)
    assert spec.encode([-1, 0, 1]).tolist() == np.eye(3).tolist()
    for state in (-2, 2):
        with pytest.raises(InputError, match=rf"^The observation {state} is not a state"):
            spec.encode(state)


def test_vectors_stay_as_they_are():
    spec = ObservationSpec.of(gym.spaces.Box(-1, 1, (3,), np.float64))
    assert spec == ObservationSpec((3,))
    encoded = spec.encode(np.array([0.1, 0.2, 0.3]))
    assert encoded.dtype == np.float32
    assert encoded.tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert spec.encode(np.zeros((5, 3))).shape == (5, 3)


def test_encoding_copies():
    spec, observation = ObservationSpec((2,)), np.zeros(2, np.float32)
    encoded = spec.encode(observation)
    observation[:] = 9
    assert encoded.tolist() == [0, 0]


@pytest.mark.parametrize("observation", [4, -1, 1.0, "s1", None])
def test_what_is_not_a_state(observation):
    with pytest.raises(InputError, match=r"is not a state; expected a whole number below 4\.$"):
        ObservationSpec((4,), 4).encode(observation)


@pytest.mark.parametrize("observation", [[1.0, 2.0], 1.0, np.zeros((3, 2))])
def test_vectors_of_another_size(observation):
    with pytest.raises(InputError, match=r"^The observation has shape .*; expected \(3,\)\.$"):
        ObservationSpec((3,)).encode(observation)


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Dict({"x": gym.spaces.Discrete(2)}),
        gym.spaces.Tuple([gym.spaces.Discrete(2)]),
        gym.spaces.MultiDiscrete([2, 2]),
        gym.spaces.Box(0, 1, (84, 84, 3)),
        gym.spaces.Box(0, 255, (84, 84), np.uint8),
        gym.spaces.Box(0, 255, (4, 84, 84, 3), np.uint8),
        gym.spaces.Box(0, 1, ()),
    ],
)
def test_spaces_that_are_not_supported(space):
    with pytest.raises(InputError) as error:
        ObservationSpec.of(space)
    assert str(error.value) == (
        f"Observations of {space} are not supported; expected Discrete, a Box with one axis, or images: a Box of "
        "uint8 with the axes height, width and channels."
    )


def test_images_stay_bytes():
    spec = ObservationSpec.of(gym.spaces.Box(0, 255, (4, 6, 3), np.uint8))
    assert spec == ObservationSpec((4, 6, 3))
    image = np.random.default_rng(0).integers(256, size=(4, 6, 3), dtype=np.uint8)
    encoded = spec.encode(image)
    assert encoded.dtype == np.uint8
    assert np.array_equal(encoded, image)
    image[:] = 0
    assert encoded.any()  # it was copied
    assert spec.encode(np.zeros((5, 2, 4, 6, 3), np.uint8)).shape == (5, 2, 4, 6, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8, np.bool_])
def test_images_of_other_numbers(dtype):
    with pytest.raises(InputError) as error:
        ObservationSpec((4, 6, 3)).encode(np.zeros((4, 6, 3), dtype))
    assert str(error.value) == f"The image is of {np.dtype(dtype)}; expected uint8, from 0 to 255."


@pytest.mark.parametrize("shape", [(6, 4, 3), (4, 6), (3, 4, 6), (4, 6, 3, 1), (4, 6, 4)])
def test_images_of_another_shape(shape):
    with pytest.raises(InputError) as error:
        ObservationSpec((4, 6, 3)).encode(np.zeros(shape, np.uint8))
    assert str(error.value) == f"The observation has shape {shape}; expected (4, 6, 3)."


def test_buffers_have_the_type_of_what_they_hold():
    assert ObservationSpec((4, 6, 3)).dtype == np.uint8
    assert ObservationSpec((4,)).dtype == np.float32
    assert ObservationSpec((4,), 4).dtype == np.float32


# --- where agents act ---


def test_sources_step_a_list_of_environments():
    places = source("trip", places=3)
    assert isinstance(places.one(), Trip)
    batch = places.batch([5, 6], 0.9)
    assert isinstance(batch, EnvironmentBatch)
    assert (len(batch), batch.actions, batch.gamma) == (2, 5, 0.9)


def test_sources_know_what_is_faster_together():
    rooms = source("room", image_size=12, types=3, objects_per_type=2, side=5.0, decisions=4)
    batch = rooms.batch([5, 6], 0.9)
    assert isinstance(batch, RoomBatch)
    assert batch.observation.shape == (2, 12, 12, 3)
    assert (len(batch), batch.features, batch.gamma) == (2, 3, 0.9)
    assert (batch.rules.side, batch.rules.objects_per_type, batch.rules.decisions) == (5.0, 2, 4)
    alone = RoomBatch(1, batch.rules, seeds=[6], image_size=12)
    assert np.array_equal(batch.observation[1:], alone.observation)
    room = rooms.one()
    assert isinstance(room, Room)
    assert ObservationSpec.of(room.observation_space).shape == (12, 12, 3)
    assert (room.rules, feature_count(room)) == (batch.rules, 3)


def test_frames_are_stacked_together_as_they_are_alone():
    rooms = source("room", image_size=12, frame_stack=2)
    assert rooms.batch([0], 0.9).observation.shape[1:] == rooms.one().observation_space.shape == (12, 12, 6)


def test_sources_of_ones_own():
    """Anything that makes environments, one after the other, each with its own seed."""
    made = []

    def create():
        made.append(Scripted([[([1, 0], "terminated")]]))
        return made[-1]

    environments = EnvironmentSource(create)
    assert environments.one() is made[0]
    batch = environments.batch([7, 8, 9], 0.5)
    assert batch.envs == made[1:]
    assert [env.seeds for env in made] == [[], [7], [8], [9]]
    assert batch.gamma == 0.5


def test_a_batch_of_ones_own():
    asked = []
    environments = EnvironmentSource(Trip, lambda seeds, gamma: asked.append((list(seeds), gamma)))
    environments.batch(range(3), 0.5)
    assert asked == [([0, 1, 2], 0.5)]


def test_sources_say_what_cannot_be_made_when_it_is():
    with pytest.raises(InputError, match=r"^Unknown environment 'tripp': did you mean 'trip'\?$"):
        source("tripp").batch([0], 0.9)
    with pytest.raises(InputError, match=r"^Environment 'trip' cannot be made with \{'plaices': 3\}"):
        source("trip", plaices=3).one()
    with pytest.raises(InputError, match=r"^side is 1; expected 4 to 100 metres\.$"):
        source("room", side=1).batch([0], 0.9)

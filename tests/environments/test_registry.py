import importlib
import warnings

import gymnasium as gym
import numpy as np
import pytest

from usfa.environments import (
    EnvironmentBatch,
    ObservationSpec,
    OneState,
    TabularEnv,
    Trip,
    action_count,
    feature_count,
    make,
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
        gym.spaces.Box(0, 1, ()),
    ],
)
def test_spaces_that_are_not_supported(space):
    with pytest.raises(InputError, match=r"are not supported; expected Discrete or a Box with one axis\.$"):
        ObservationSpec.of(space)

import importlib
import warnings

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

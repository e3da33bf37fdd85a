import importlib
import importlib.util
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest

from fake_environments import Scalar, Scripted, Walk
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
    check_trusted,
    feature_count,
    make,
    source,
)
from usfa.errors import InputError


@pytest.fixture(scope="module")
def mo_gymnasium():
    if importlib.util.find_spec("mo_gymnasium") is None:
        pytest.skip("it is an extra, which does not go with the oldest Gymnasium")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what others warn of at their import is theirs
        return importlib.import_module("mo_gymnasium")


def test_our_names():
    assert isinstance(make("trip"), Trip)
    assert isinstance(make("one-state"), OneState)
    assert make("trip", places=3).action_space.n == 5
    assert make("one-state", gamma=0.5).mdp.discount.max() == 0.5


def test_gymnasium_ids_with_vector_rewards(mo_gymnasium):
    env = make("deep-sea-treasure-v0")
    assert feature_count(env) == 2
    assert action_count(env) == 4
    assert not isinstance(env.unwrapped, TabularEnv)
    batch = EnvironmentBatch([env], 0.9, [0])
    rng = np.random.default_rng(0)
    phi = [batch.step(rng.integers(4, size=1)).phi[0] for _ in range(50)]
    assert {float(time) for _, time in phi} == {-1.0}  # the second feature is the time it takes


def test_modules_are_imported_for_their_ids(mo_gymnasium):
    assert feature_count(make("mo_gymnasium:deep-sea-treasure-v0")) == 2


def test_their_ids_are_known_without_their_module(mo_gymnasium, monkeypatch):
    for name in [name for name in gym.registry if "treasure" in name]:
        monkeypatch.delitem(gym.registry, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == "mo_gymnasium"]:
        monkeypatch.delitem(sys.modules, name)
    assert feature_count(make("deep-sea-treasure-v0")) == 2


def test_their_ids_without_the_extra(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "mo_gymnasium" else found(name))
    with pytest.raises(InputError) as error:
        make("far-from-all-v0")
    assert str(error.value) == (
        "Unknown environment 'far-from-all-v0': if it is one of MO-Gymnasium, install that with pip install 'usfa[mo]'."
    )
    for typing_error, name in (("tripp", "trip"), ("CartPol-v1", "CartPole-v1")):
        with pytest.raises(InputError, match=rf"did you mean '{name}'\?$"):
            make(typing_error)


def test_their_module_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mo_gymnasium", None)
    with pytest.raises(InputError, match=r"cannot be imported: .*; pip install 'usfa\[mo\]' brings it\.$"):
        make("mo_gymnasium:minecart-v0")


def test_classes_of_ones_own():
    assert isinstance(make("fake_environments:Walk"), Walk)
    env = make("fake_environments:Scripted", episodes=[[([1, 0, 0], "")]], actions=5)
    assert (feature_count(env), action_count(env)) == (3, 5)
    assert len(source("fake_environments:Walk").batch([0, 1], 0.9)) == 2


@pytest.mark.parametrize("code", ["1 / 0", "def f(:", "raise SystemError('two\\nlines')"])
def test_modules_that_fail(tmp_path, monkeypatch, code):
    (tmp_path / "failing_module.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError) as error:
        make("failing_module:Env")
    assert str(error.value).startswith("The module 'failing_module' of the environment 'failing_module:Env' cannot be ")
    assert "\n" not in str(error.value)


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
        (
            "no_such_module:Env-v0",
            {},
            r"^The module 'no_such_module' of the environment 'no_such_module:Env-v0' cannot be imported: No module "
            r"named 'no_such_module'\.$",
        ),
        ("", {}, r"^Unknown environment ''"),
        ("fake_environments:Wolk", {}, r"^The module 'fake_environments' has no 'Wolk'; expected one of .*Walk, W"),
        ("json:Walk", {}, r"^The module 'json' has no 'Walk' and no environment of its own\.$"),
        (
            "fake_environments:np",
            {},
            r"^'fake_environments:np' is <module 'numpy' .*>; expected a class derived from gym",
        ),
        (
            "math:tau",
            {},
            r"^'math:tau' is 6\.28.*; expected a class derived from gymnasium.Env, or a function th",
        ),
        ("fractions:Fraction", {}, r"^'fractions:Fraction' is <class .*>; expected a class derived from gymnasium.Env"),
        ("os:getpid", {}, r"^Environment 'os:getpid' is \d+; expected a gymnasium\.Env\.$"),
        (
            "fake_environments:Walk",
            {"legs": 3},
            r"^Environment 'fake_environments:Walk' cannot be made with \{'legs': 3",
        ),
        (
            "fake_environments:Scripted",
            {"episodes": []},
            r"cannot be made .*: IndexError: .* \(fake_environments\.py, l",
        ),
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


def test_rooms_have_the_same_camera_together_as_they_have_alone():
    rooms = source("room", image_size=12, field_of_view=110)
    together, alone = rooms.batch([3], 0.9), rooms.one()
    alone._batch.reset([3])
    assert np.array_equal(together.observation, alone._batch.observation)
    assert not np.array_equal(together.observation, source("room", image_size=12).batch([3], 0.9).observation)


def test_frames_are_stacked_together_as_they_are_alone():
    rooms = source("room", image_size=12, frame_stack=2)
    assert rooms.batch([0], 0.9).observation.shape[1:] == rooms.one().observation_space.shape == (12, 12, 6)


def test_sources_from_classes_and_functions():
    assert len(source(Walk).batch([0, 1, 2], 0.9)) == 3
    assert source(Scripted, episodes=[[([1], "")]], actions=5).one().action_space.n == 5
    assert source(lambda: gym.wrappers.TimeLimit(Walk(), 3)).batch([0], 0.9).features == 2
    assert source(Scalar, phi="info").one().reward_space.shape == (2,)


def test_sources_from_an_environment_are_copies():
    env = Walk()
    batch = source(env).batch([1, 2, 3], 0.9)
    assert env not in batch.envs
    assert len({id(copy) for copy in batch.envs}) == 3
    alone = source(Walk).batch([1, 2, 3], 0.9)
    for _ in range(20):
        assert np.array_equal(batch.step(np.ones(3, int)).phi, alone.step(np.ones(3, int)).phi)
    assert not hasattr(env, "position")  # nobody stepped it


@pytest.mark.parametrize(
    ("environment", "arguments", "sentence"),
    [
        (Walk(), {"legs": 2}, r"is an instance with the arguments \{'legs': 2\}; expected no arguments\.$"),
        (
            Walk,
            {"legs": 2},
            r"^Environment <class 'fake_environments.Walk'> cannot be made with \{'legs': 2\}: TypeErr",
        ),
        (lambda: 3, {}, r"^Environment <function .*> is 3; expected a gymnasium\.Env\.$"),
        (7, {}, r"^Environment 7 cannot be made with \{\}: TypeError: 'int' object is not callable\.$"),
    ],
)
def test_what_environments_are_not_made_of(environment, arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        source(environment, **arguments).one()


def test_an_environment_that_cannot_be_copied():
    env = Walk()
    env.generator = (x for x in range(3))
    with pytest.raises(
        InputError, match=r"cannot be copied: TypeError: .*; expected a function that makes a new one\.$"
    ):
        source(env).one()


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


@pytest.mark.skipif(importlib.util.find_spec("mo_gymnasium") is None, reason="it is an extra")
@pytest.mark.filterwarnings("ignore:.*precision lowered by casting")
def test_the_seed_determines_the_ore_of_a_minecart():
    """MO-Gymnasium draws it from NumPy's global generator."""

    def mined(env, seed):
        env.reset(seed=seed)
        env.unwrapped.cart.pos = env.unwrapped.mines[0].pos.copy()
        return [tuple(env.step(0)[0][-2:]) for _ in range(3)]

    def created():
        return gym.make("minecart-v0", disable_env_checker=True)

    named, function, copied = make("minecart-v0"), source(created).one(), source(created()).one()
    before = repr(np.random.get_state(legacy=False))  # noqa: NPY002
    assert mined(named, 1) == mined(function, 1) == mined(copied, 1) != mined(named, 2)
    assert repr(np.random.get_state(legacy=False)) == before  # noqa: NPY002


# --- files from others ---


@pytest.mark.parametrize("name", ["trip", "CartPole-v1", "minecart-v0", "fake_environments:Walk"])
def test_names_that_need_no_trust(name):
    check_trusted(name, trust=False)


def test_names_that_need_trust(monkeypatch):
    monkeypatch.delitem(sys.modules, "antigravity", raising=False)
    with pytest.raises(
        InputError, match=r"^The file names the environment 'antigravity:Env', which would import and run"
    ):
        check_trusted("antigravity:Env", trust=False)
    check_trusted("antigravity:Env", trust=True)
    assert "antigravity" not in sys.modules


def test_functions_make_environments():
    env = make("fake_environments:short_walk", length=3)
    assert isinstance(env, gym.Wrapper)
    assert isinstance(env.unwrapped, Walk)


def test_a_file_does_not_choose_a_function():
    for name in ("os:system", "fake_environments:short_walk"):
        with pytest.raises(InputError, match=rf"^The file names the function '{name}' for its environment, which woul"):
            check_trusted(name, trust=False)
        check_trusted(name, trust=True)
    with pytest.raises(
        InputError, match=r"^The file names the function 'os:system' for φ, which would be run; set trus"
    ):
        check_trusted("trip", False, "os:system")
    check_trusted("trip", True, "os:system")
    check_trusted("trip", False, "info")

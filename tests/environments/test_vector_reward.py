import gymnasium as gym
import numpy as np
import pytest

from fake_environments import Scalar, Scripted, Walk
from usfa.environments import EnvironmentBatch, Trip, VectorReward, feature_count, make, source
from usfa.errors import InputError


def position_and_move(observation, action, next_observation):
    return [next_observation[0], next_observation[0] - observation[0], float(action == 1)]


def play(env, actions):
    env.reset(seed=0)
    return [env.step(action) for action in actions]


# --- from info ---


def test_phi_from_info():
    env = VectorReward(Scalar())
    assert feature_count(env) == 2
    steps = play(env, [1, 1, 0])
    assert [step[1].tolist() for step in steps] == [[1, 0], [1, 0], [0, 1]]
    assert [step[4]["scalar_reward"] for step in steps] == [10.0, 10.0, 1.0]
    assert steps[0][1].dtype == np.float64


def test_phi_from_info_is_copied():
    class Mutating(Scalar):
        kept = np.zeros(2)

        def step(self, action):
            *step, info = super().step(action)
            self.kept[:] = info["vector_reward"]
            return *step, {"vector_reward": self.kept}

    steps = play(VectorReward(Mutating()), [1, 0])
    assert [step[1].tolist() for step in steps] == [[1, 0], [0, 1]]


def test_an_info_without_phi():
    with pytest.raises(InputError, match=r"has no info\['vector_reward'\]; expected φ there"):
        VectorReward(gym.make("CartPole-v1"))


# --- from a function ---


def test_phi_from_a_function():
    env = VectorReward(Scalar(), position_and_move)
    assert feature_count(env) == 3
    assert [step[1].tolist() for step in play(env, [1, 1, 0])] == [[1, 1, 1], [2, 1, 1], [1, -1, 0]]


def test_a_function_sees_the_observation_before_even_if_the_environment_changes_it():
    class Mutating(Scalar):
        kept = np.zeros(1, np.float32)

        def _observation(self):
            self.kept[:] = self.position
            return self.kept

    env = VectorReward(Mutating(), position_and_move)
    assert [step[1].tolist() for step in play(env, [1, 1, 0])] == [[1, 1, 1], [2, 1, 1], [1, -1, 0]]


def test_a_function_starts_anew_with_the_episode():
    env = VectorReward(Scalar(), position_and_move)
    for _ in range(2):
        assert play(env, [1])[0][1].tolist() == [1, 1, 1]


def test_features_that_are_given_are_not_searched_for():
    class Untouched(Scalar):
        def reset(self, **arguments):
            raise AssertionError

    assert feature_count(VectorReward(Untouched(), position_and_move, features=3)) == 3
    env = VectorReward(Scalar(), position_and_move, features=2)
    with pytest.raises(InputError, match=r"^φ was \[1\. 1\. 1\.\]; expected 2 numbers, as many as before\.$"):
        play(env, [1])


def test_the_probe_takes_a_legal_action():
    assert feature_count(VectorReward(Trip(), lambda *_: [1.0, 2.0, 3.0])) == 3


@pytest.mark.parametrize("value", [1.0, None, "much", [[1.0, 2.0]], [[1], [2, 3]]])
def test_functions_that_give_no_vector(value):
    with pytest.raises(InputError, match=r"^φ was .*; expected a vector of numbers, one for each feature\.$"):
        VectorReward(Scalar(), lambda *_: value)


def test_functions_that_fail():
    def broken(observation, action, next_observation):
        return [1 / 0]

    with pytest.raises(InputError) as error:
        VectorReward(Scalar(), broken)
    assert str(error.value).startswith(
        "φ(observation, action, next observation) failed: ZeroDivisionError: division by zero (test_vector_reward.py, "
    )
    assert isinstance(error.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("features", [0, -1])
def test_no_features(features):
    with pytest.raises(InputError, match=rf"^φ has {features} features; expected at least one\.$"):
        VectorReward(Scalar(), features=features)
    with pytest.raises(InputError, match=r"^φ has 0 features"):
        VectorReward(Scalar(), lambda *_: [])


def test_continuous_actions():
    class Continuous(Scalar):
        action_space = gym.spaces.Box(-1, 1, (2,))

        def __init__(self):
            self.observation_space = gym.spaces.Box(-9, 9, (1,))

    with pytest.raises(InputError, match=r"expected Discrete from 0\.$"):
        VectorReward(Continuous())


# --- by name ---


def test_sources_of_phi_by_name():
    assert feature_count(make("fake_environments:Scalar", phi="info")) == 2
    assert feature_count(make("fake_environments:Scalar", phi="test_vector_reward:position_and_move")) == 3
    assert feature_count(make("fake_environments:Scalar", phi=position_and_move)) == 3
    assert feature_count(make("fake_environments:Walk", phi="reward")) == 2
    assert feature_count(make("CartPole-v1", phi=lambda s, a, t: t)) == 4


@pytest.mark.parametrize(
    ("phi", "sentence"),
    [
        ("inof", r"^phi is 'inof'; expected 'reward', 'info' or the name of a function, 'module:function'\.$"),
        (3, r"^phi is 3; expected"),
        (
            "no_such_module:phi",
            r"^The module 'no_such_module' of the φ 'no_such_module:phi' cannot be imported: No mod",
        ),
        (
            "fake_environments:phi",
            r"^The module 'fake_environments' has no 'phi', which the φ 'fake_environments:phi' n",
        ),
        ("fake_environments:__doc__", r"^phi is 'Small Gymnasium environments .*'; expected"),
    ],
)
def test_sources_of_phi_that_are_none(phi, sentence):
    with pytest.raises(InputError, match=sentence):
        make("fake_environments:Scalar", phi=phi)


def test_a_batch_learns_from_it():
    """Also when the episode ends, whichever way."""
    batch = source(Scalar, phi=position_and_move).batch([0, 1], 0.9)
    assert isinstance(batch, EnvironmentBatch)
    sums = []
    for _ in range(7):  # the truncated one has a seam after three steps
        step = batch.step(np.array([1, 0]))
        sums += step.episode_phi[step.ended].tolist()
    assert sums == [[1 + 2 + 3, 3, 3], [-1 - 2 - 3, -3, 0]] * 2


def test_a_wrapper_takes_no_other_names():
    with pytest.raises(
        InputError, match=r"^phi is 'reward'; expected 'info' or a function of observation, action, nex"
    ):
        VectorReward(Walk(), "reward")


def test_a_vector_reward_can_be_replaced():
    env = VectorReward(Scripted([[([1, 0], "terminated")]]), lambda s, a, t: [1.0, 2.0, 3.0])
    assert (feature_count(env), play(env, [0])[0][1].tolist()) == (3, [1, 2, 3])

"""Names of features: the environment's own, MO-Gymnasium's objectives, or φ1, φ2, …"""

import gymnasium as gym
import numpy as np
import pytest

from fake_environments import Walk
from usfa.environments import VectorReward, feature_names, make


def test_our_environments_name_their_features():
    assert feature_names(make("trip")) == ("coffee", "food")
    assert feature_names(make("room", types=3)) == ("tv", "ball", "hat")
    assert feature_names(make("one-state")) == ("φ1",)


@pytest.mark.filterwarnings("ignore")
def test_objectives_of_mo_gymnasium_have_names():
    pytest.importorskip("mo_gymnasium")
    assert feature_names(make("deep-sea-treasure-v0")) == ("treasure", "time")
    assert feature_names(make("minecart-v0")) == ("ore 1", "ore 2", "fuel")


class Named(gym.Wrapper):
    feature_names = ("left", "right")

    @property
    def unwrapped(self):
        return self


def test_names_are_used_only_if_they_fit_the_features():
    env = Walk()
    count = len(feature_names(env))
    assert feature_names(env) == tuple(f"φ{index + 1}" for index in range(count))
    named = Named(VectorReward(env, lambda *_: np.ones(2)))
    named.reward_space = gym.spaces.Box(0, 1, (2,))
    assert feature_names(named) == ("left", "right")
    named.reward_space = gym.spaces.Box(0, 1, (3,))
    assert feature_names(named) == ("φ1", "φ2", "φ3")
    assert feature_names(VectorReward(make("trip"), lambda *_: np.ones(2))) == ("φ1", "φ2")  # not coffee and food

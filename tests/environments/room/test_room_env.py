import json
import subprocess
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from usfa.environments import action_count, feature_count, make
from usfa.environments.room import Room, RoomRules
from usfa.errors import InputError


class Scalarised(gym.Wrapper):
    """Gymnasium's checker wants a number."""

    def step(self, action):
        observation, phi, terminated, truncated, info = self.env.step(action)
        return observation, float(phi.sum()), terminated, truncated, info


@pytest.mark.parametrize("arguments", [{}, {"image_size": 42, "frame_stack": 4, "types": 2}])
def test_gymnasium_accepts_it(arguments):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(not have a `spec`|different from the unwrapped).*")
        check_env(Scalarised(Room(render_mode="rgb_array", **arguments)), skip_render_check=True)


def test_conventions_of_mo_gymnasium():
    env = make("room", types=3)
    assert feature_count(env) == 3
    assert action_count(env) == 8
    assert env.feature_names == ("tv", "ball", "hat")
    observation, info = env.reset(seed=1)
    assert observation.shape == (84, 84, 3)
    assert observation.dtype == np.uint8
    assert info == {}
    for _ in range(200):
        observation, phi, terminated, truncated, _ = env.step(env.action_space.sample())
        assert env.reward_space.contains(phi)
        assert env.observation_space.contains(observation)
        assert not terminated
        assert not truncated


def test_an_episode_is_a_minute_and_ends_by_truncation():
    env = Room(image_size=8)
    env.reset(seed=0)
    ends = [env.step(4)[2:4] for _ in range(900)]
    assert ends == [(False, False)] * 899 + [(False, True)]
    with pytest.raises(InputError, match="call reset first"):
        env.step(0)


def test_observations_and_rewards_are_the_callers_own():
    env = Room(image_size=16)
    first, _ = env.reset(seed=0)
    kept = first.copy()
    _, phi, *_ = env.step(0)
    phi += 100
    assert env.step(0)[1].max() < 100
    np.testing.assert_array_equal(first, kept)


def test_state_goes_on_exactly():
    env, other = Room(image_size=16, decisions=20), Room(image_size=16, decisions=20)
    env.reset(seed=3)
    other.reset(seed=4)
    env.step(0)
    other.set_state(json.loads(json.dumps(env.get_state())))
    for action in (0, 6, 3, 0, 7):
        for mine, theirs in zip(env.step(action), other.step(action), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(env.reset()[0], other.reset()[0])


@pytest.mark.parametrize("field_of_view", [80, 110])
def test_render_is_the_same_view_larger(field_of_view):
    env = Room(render_mode="rgb_array", render_size=252, field_of_view=field_of_view)
    observation, _ = env.reset(seed=5)
    large = env.render()
    assert large.shape == (252, 252, 3)
    small = large.reshape(84, 3, 84, 3, 3).mean(axis=(1, 3))
    assert abs(small - observation).mean() < 12
    assert Room().render() is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"render_mode": "human"}, "render_mode is 'human'; expected 'rgb_array' or None."),
        ({"render_size": 1}, "render_size is 1"),
        ({"field_of_view": 180}, "field_of_view is 180; expected 20 to 150 degrees."),
        ({"rules": RoomRules(), "types": 2}, "rules is given together with types; expected one or the other."),
        ({"colour": "red"}, "cannot be made with"),
    ],
)
def test_bad_input(arguments, said):
    with pytest.raises(InputError) as error:
        make("room", **arguments)
    assert said in str(error.value)


def test_importing_the_library_starts_neither_compiler_nor_torch():
    code = (
        "import sys, usfa, usfa.environments\nprint(sorted({'numba', 'torch'} & set(sys.modules)))\n"
        "usfa.environments.make('room').reset(seed=0)\nprint(sorted({'numba', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.split("\n")[:2] == ["[]", "['numba']"]

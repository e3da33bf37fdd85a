import json

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given

from random_mdps import generators, random_mdp, tabular_mdps
from usfa.environments import OneState, TabularEnv, Trip
from usfa.errors import InputError


def env_of(mdp):
    return TabularEnv(mdp, tuple(f"s{s}" for s in range(mdp.states)), tuple(f"a{a}" for a in range(mdp.actions)))


def play(env, rng, steps, seed=None):
    """A random legal walk: (state, action, next state, φ, terminated); a new episode where one ends."""
    state, info = env.reset(seed=seed)
    walk = []
    for _ in range(steps):
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        after, phi, terminated, truncated, info = env.step(action)
        assert not truncated
        walk.append((int(state), action, int(after), phi.tolist(), terminated))
        state = after
        if terminated:
            state, info = env.reset()
    return walk


@pytest.mark.parametrize("make", [Trip, OneState])
def test_gymnasium_accepts_it(make):
    env = make()
    assert isinstance(env, gym.Env)
    assert env.unwrapped is env
    state, info = env.reset(seed=1)
    assert env.observation_space.contains(state)
    assert env.action_space.contains(np.int64(0))
    assert info["action_mask"].dtype == np.int8  # what Discrete.sample(mask) wants
    assert env.action_space.sample(info["action_mask"]) in np.flatnonzero(info["action_mask"])


@given(tabular_mdps(), generators)
def test_spaces_contain_all_that_happens(mdp, rng):
    env = env_of(mdp)
    assert env.reward_space.shape == (mdp.features,)
    assert np.abs(env.reward_space.high).max() < 100  # not the φ of what cannot happen
    for state, action, after, phi, terminated in play(env, rng, 30, seed=0):
        assert env.observation_space.contains(np.int64(after))
        assert env.reward_space.contains(np.array(phi, np.float32))
        assert mdp.legal[state, action]
        assert mdp.transition[state, action, after] > 0
        assert phi == mdp.phi[state, action, after].tolist()
        assert terminated == (mdp.discount[state, action, after] == 0)


@given(tabular_mdps())
def test_same_seed_same_walk(mdp):
    walks = [play(env_of(mdp), np.random.default_rng(3), 40, seed=seed) for seed in (5, 5)]
    assert walks[0] == walks[1]


def test_other_seeds_give_other_walks():
    mdp = random_mdp(np.random.default_rng(0), 5, 3, 2, 0.9)
    walks = [play(env_of(mdp), np.random.default_rng(3), 40, seed=seed) for seed in (5, 6)]
    assert walks[0] != walks[1]


def test_frequencies_are_those_of_the_tables():
    """Every (s, a) of a random MDP; counts stay within 5 standard deviations."""
    mdp = random_mdp(np.random.default_rng(4), 4, 3, 1, 0.9)
    env = env_of(mdp)
    env.reset(seed=0)
    draws = 3000
    assert ((mdp.transition > 0.05) & (mdp.transition < 0.95)).sum() > 10  # stochastic enough to be worth it
    for state, action in np.argwhere(mdp.legal.numpy()):
        counts = np.zeros(mdp.states)
        for _ in range(draws):
            env.set_state({"state": int(state), "rng": env.get_state()["rng"]})
            counts[env.step(action)[0]] += 1
        p = mdp.transition[state, action].numpy()
        assert (np.abs(counts - draws * p) <= 5 * np.sqrt(draws * p * (1 - p))).all()


def test_first_states_are_drawn_from_the_start_distribution():
    mdp = random_mdp(np.random.default_rng(1), 4, 2, 1, 0.9)
    env = env_of(mdp)
    env.reset(seed=0)
    counts = np.bincount([env.reset()[0] for _ in range(4000)], minlength=4)
    p = mdp.start.numpy()
    assert (np.abs(counts - 4000 * p) <= 5 * np.sqrt(4000 * p * (1 - p))).all()


@given(tabular_mdps(), generators)
def test_a_saved_state_goes_on_identically(mdp, rng):
    env, other = env_of(mdp), env_of(mdp)
    play(env, rng, 7, seed=1)
    state = json.loads(json.dumps(env.get_state()))
    other.reset(seed=2)
    other.set_state(state)

    def future(env):
        walk, choices = [], np.random.default_rng(0)
        for _ in range(20):
            mask = env._info()["action_mask"]
            after, phi, terminated, _, info = env.step(int(choices.choice(np.flatnonzero(mask))))
            walk.append((int(after), phi.tolist(), terminated, info["action_mask"].tolist()))
            if terminated:
                walk.append(int(env.reset()[0]))
        return walk

    assert future(env) == future(other)


@pytest.mark.parametrize("action", [1, 5, 8, -1])
def test_illegal_actions_are_refused_by_name(action):
    env = Trip()
    env.reset(seed=0)
    with pytest.raises(InputError) as error:
        env.step(action)
    assert str(error.value) == (
        f'Action {action} is not legal in state s1; expected one of 0 (C), 6 (F), 7 (E), as in info["action_mask"].'
    )
    assert env.step(0)[2]  # nothing happened


def test_rewards_are_copies():
    env = Trip()
    env.reset(seed=0)
    env.step(0)[1][:] = 99
    assert env.mdp.phi.max() <= 1

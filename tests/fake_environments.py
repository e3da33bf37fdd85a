"""Small Gymnasium environments that do what a test wants to see."""

import time

import gymnasium as gym
import numpy as np


class Scripted(gym.Env):
    """Plays episodes from a script: each is a list of (φ, ending), ending "", "terminated" or "truncated".

    The observation is [number of the episode, number of the step]. The script starts over when it is used up.
    """

    def __init__(self, episodes, actions=3):
        self.episodes = episodes
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(actions)
        features = np.asarray(episodes[0][0][0]).shape
        self.reward_space = gym.spaces.Box(-np.inf, np.inf, features, np.float32)
        self.episode = -1
        self.taken = []
        self.seeds = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.episode, self.at = self.episode + 1, 0
        return self._observation(), {}

    def step(self, action):
        self.taken.append(int(action))
        phi, ending = self.episodes[self.episode % len(self.episodes)][self.at]
        self.at += 1
        return self._observation(), np.array(phi, np.float32), ending == "terminated", ending == "truncated", {}

    def _observation(self):
        return np.array([self.episode, self.at], np.float32)


class Walk(gym.Env):
    """A random walk on 0..4 with noise, cut off after 7 steps; φ = (right edge reached, noise). It has no get_state."""

    def __init__(self):
        self.observation_space = gym.spaces.Discrete(5)
        self.action_space = gym.spaces.Discrete(2)
        self.reward_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.clock = int(self.np_random.integers(4)), 0
        return self.position, {}

    def step(self, action):
        towards = 1 if action == 1 else -1
        if self.np_random.random() < 0.3:
            towards = -towards
        self.position = int(np.clip(self.position + towards, 0, 4))
        self.clock += 1
        phi = np.array([self.position == 4, self.np_random.uniform(-1, 1)])
        return self.position, phi, self.position == 4, self.clock == 7, {}


class WalkInParts(Walk):
    """The same walk, seen as a place and a share of time."""

    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Dict({"place": gym.spaces.Discrete(5), "time": gym.spaces.Box(0, 1, (1,))})

    def reset(self, *, seed=None, options=None):
        place, info = super().reset(seed=seed)
        return self._parts(place), info

    def step(self, action):
        place, *rest = super().step(action)
        return self._parts(place), *rest

    def _parts(self, place):
        return {"place": place, "time": np.array([self.clock / 7], np.float32)}


class SlowWalk(Walk):
    """The same walk, whose steps take a while."""

    def __init__(self, pause=0.005):
        super().__init__()
        self.pause = pause

    def step(self, action):
        time.sleep(self.pause)
        return super().step(action)


def short_walk(length):
    return gym.wrappers.TimeLimit(Walk(), length)


class SavableWalk(Walk):
    """The same walk, which can be saved in the middle."""

    def get_state(self):
        return {"position": self.position, "clock": self.clock, "rng": self.np_random.bit_generator.state}

    def set_state(self, state):
        self.position, self.clock = state["position"], state["clock"]
        self.np_random.bit_generator.state = state["rng"]


class FailingClose(Walk):
    def close(self):
        raise RuntimeError("display lost")


class Scalar(gym.Env):
    """Steps right (1) and left (0), ends 3 places away; pays one number, and has φ = (right, left) in its info."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(-9, 9, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = 0
        return self._observation(), {}

    def step(self, action):
        self.position += 1 if action == 1 else -1
        terminated, truncated = self.position == 3, self.position == -3
        info = {"vector_reward": [float(action == 1), float(action == 0)]}
        return self._observation(), 10.0 if action == 1 else 1.0, terminated, truncated, info

    def _observation(self):
        return np.array([self.position], np.float32)

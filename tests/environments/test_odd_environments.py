"""Environments that are almost right: found by check-env, and by training where they would do harm."""

import gymnasium as gym
import numpy as np
import pytest

from fake_environments import FailingClose, Walk
from usfa.environments import check_environment, source
from usfa.errors import InputError


class Vector(Walk):
    """The walk, seen as two numbers from 0 to 1."""

    second = 0.5

    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Box(0, 1, (2,), np.float32)

    def _seen(self):
        return np.array([self.position / 4, self.second])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action):
        _, *rest = super().step(action)
        return self._seen(), *rest


class FarOutside(Vector):
    second = 1e6


class Complex(Vector):
    second = 1 + 2j


class Text(Vector):
    second = "half"


class Missing(Vector):
    second = None


class Paying(Walk):
    def __init__(self, phi):
        super().__init__()
        self.phi = phi

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, self.phi, *rest


class NumpyState(Walk):
    def get_state(self):
        return {"position": np.int64(self.position)}

    def set_state(self, state):
        self.position = state["position"]


def findings(environment):
    return {
        finding.check: finding for finding in check_environment(environment, steps=30) if finding.severity != "note"
    }


def batch_of(environment):
    return source(environment).batch([0], 0.9)


@pytest.mark.parametrize("environment", [Complex, Text, Missing])
def test_observations_that_are_not_real_numbers(environment):
    found = findings(environment)["observation"]
    assert found.severity == "error"
    assert "expected real numbers" in found.sentence
    with pytest.raises(InputError, match="expected real numbers"):
        batch_of(environment)


def test_observations_far_outside_of_their_space():
    assert "outside of 0 to 1" in findings(FarOutside)["observation-bounds"].sentence
    with pytest.warns(UserWarning, match=r"^The observation 1e\+06 is far outside of its space, 0 to 1; expected"):
        batch = batch_of(FarOutside)
    batch.step(np.zeros(1, np.int64))  # once is enough


@pytest.mark.parametrize("phi", [np.array([1j, 0]), np.array(["1", "2"]), np.array([1, None]), [1.0, [2.0]]])
def test_phi_that_is_not_real_numbers(phi):
    assert "2 numbers" in findings(lambda: Paying(phi))["phi"].sentence
    batch = batch_of(lambda: Paying(phi))
    with pytest.raises(InputError, match=r"^The reward is .*; expected 2 finite numbers"):
        batch.step(np.zeros(1, np.int64))


def test_phi_that_is_too_large():
    assert "1.e+30" in findings(lambda: Paying(np.array([1e30, 0])))["phi-size"].sentence


def test_a_close_that_fails_is_told_and_ends_nothing():
    assert "display lost" in findings(FailingClose)["close"].sentence
    with pytest.warns(UserWarning, match=r"^The close of the environment FailingClose failed: .*display lost"):
        batch_of(FailingClose).close()


@pytest.mark.parametrize("method", ["reset", "step"])
def test_an_exception_without_a_text_is_named(method):
    class Nameless(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    def fail(*_, **__):
        raise Nameless

    failing = type("Failing", (Walk,), {method: fail})
    assert "failed with Nameless (test_odd_environments.py, line" in findings(failing)[method].sentence
    with pytest.raises(InputError, match=rf"^The {method} of the environment Failing failed: Nameless \("):
        batch_of(failing).step(np.zeros(1, np.int64))


def test_states_that_json_cannot_hold():
    assert "int64 is not JSON serializable" in findings(NumpyState)["resuming"].sentence
    with pytest.raises(InputError, match=r"^The get_state of the environment NumpyState failed: .*int64 is not JSON"):
        batch_of(NumpyState).state()

"""Rewards of any size are learned alike: after division by their size, the same updates."""

from dataclasses import replace
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch

from fake_environments import Walk
from usfa.environments import register, source
from usfa.errors import Diverged, InputError
from usfa.learning import Learner
from usfa.runs import EvaluationConfig, settings_for, train
from usfa.runs.training import build_agent


class Paying(Walk):
    """The walk with φ = (right edge reached, action), multiplied by a factor; another φ on the 50th step."""

    def __init__(self, factor=1.0, once=None):
        super().__init__()
        self.reward_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.factor, self.once, self.steps = factor, once, 0

    def step(self, action):
        observation, phi, *rest = super().step(action)
        self.steps += 1
        paid = np.array([phi[0], action]) * self.factor
        return observation, np.full(2, self.once) if self.once and self.steps == 50 else paid, *rest


register("paying-any", Paying)


def config_for(factor, **learner):
    """Settings as `usfa train` measures them; random actions, so that all factors see the same transitions."""
    config = settings_for("paying-any", {"factor": factor})
    learner = {
        "environments": 8,
        "epsilon": 1.0,
        "epsilon_max": None,
        "updates_per_round": 4,
        "replay_ratio": 1,
        **learner,
    }
    evaluation = EvaluationConfig(snapshots=1, episodes=1)
    return replace(config, learner=replace(config.learner, **learner), evaluation=evaluation)


def trained(config, rounds):
    learner = Learner(build_agent(config), config.learner, config.environments, config.tasks, config.seeds)
    losses = np.stack([learner.step().loss for _ in range(rounds)])
    return learner, losses


@pytest.fixture(scope="module")
def plain():
    return trained(config_for(1.0), 12)


@pytest.mark.parametrize("factor", [1e-6, 1e6, 1e12])
def test_rewards_of_any_size_give_the_same_learning_curve(factor, plain):
    learner, losses = trained(config_for(factor), 12)
    assert learner.agent.network_config.output_scale == pytest.approx(
        factor * plain[0].agent.network_config.output_scale
    )
    assert losses == pytest.approx(plain[1], rel=0.01)
    assert losses[-3:].mean() < 0.8 * losses[:3].mean()  # something was learned


@pytest.mark.parametrize("exponent", [-20, 40])
def test_powers_of_two_change_no_bit(exponent, plain):
    """Multiplying by them is exact, so nothing but the scale may be in the way."""
    same, losses = plain
    config, scale = config_for(2.0**exponent), same.agent.network_config.output_scale
    config = replace(config, network=replace(config.network, output_scale=scale * 2.0**exponent))
    other, other_losses = trained(config, len(losses))
    assert np.array_equal(losses, other_losses)
    assert all(torch.equal(x, other.network.state[name]) for name, x in same.network.state.items())


def test_a_large_reward_is_named_and_not_the_learning_rate():
    config = config_for(1.0)
    config = replace(config, environment_arguments={"factor": 1.0, "once": 1e9})
    with pytest.raises(Diverged, match=r"an entry of φ was 1e\+09, but network.output_scale, .*, is \S+: correct"):
        trained(config, 10)


@pytest.mark.parametrize("once", [1e30, -1e30])
def test_a_reward_that_no_network_can_learn_is_refused_when_it_comes(once):
    batch = source(partial(Paying, once=once)).batch([0], 0.9)
    stay = np.zeros(1, np.int64)
    while batch.envs[0].steps < 49:
        batch.step(stay)
    with pytest.raises(InputError, match=r"^The reward is \[-?1\.e\+30 -?1\.e\+30\]; expected numbers up to 1e\+15\.$"):
        batch.step(stay)


def test_a_loss_that_does_not_move_is_reported(tmp_path):
    config = config_for(1.0, learning_rate=1e-12, gamma=0.9, budget=8 * 8 * 20)
    with pytest.warns(UserWarning, match=r"^The loss did not move: it was \S+ at the start and \S+ at the end"):
        train(config, tmp_path / "run")


def test_an_output_scale_far_above_the_returns_is_reported(tmp_path):
    config = config_for(1e-6, gamma=0.9, budget=8 * 8)
    config = replace(config, network=replace(config.network, output_scale=1.0))
    with pytest.warns(UserWarning, match=r"^network.output_scale is 1, but no return can exceed 1e-05; expected"):
        train(config, tmp_path / "run")

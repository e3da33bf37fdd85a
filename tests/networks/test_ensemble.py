"""Ensembles: they act by their mean, and bootstrap from the member that promises least."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import usfa
from usfa.agents import AGENTS, AgentSpec
from usfa.environments import EnvironmentSource, ObservationSpec, Trip, action_count, feature_count
from usfa.errors import InputError
from usfa.learning import Learner, LearnerConfig
from usfa.losses import least_promising
from usfa.networks import Ensemble, NetworkConfig, Sizes, make_network
from usfa.runs import EvaluationConfig, preset
from usfa.tasks import task_set
from usfa.trajectory import Inputs

SMALL = NetworkConfig(trunk=(16,), embedding=(8, 8), head=(16,), members=3)
SIZES = Sizes(observation=(4,), actions=2, features=3, outputs=3)


def inputs(length, batch):
    observation = torch.randn(length, batch, 4)
    nothing = torch.zeros(length, batch, dtype=torch.int64)
    return Inputs(observation, nothing, torch.zeros(length, batch, dtype=torch.bool))


@pytest.mark.parametrize("memory", [0, 5])
def test_values_are_the_mean_of_the_members_which_differ(memory):
    network = make_network(SIZES, replace(SMALL, memory=memory))
    assert isinstance(network, Ensemble)
    seen, z = inputs(6, 2), torch.randn(2, 5, 3)
    state = network.initial_state(2)
    assert len(state) == (6 if memory else 0)
    members = network.each(seen, state, z)
    values, after = network(seen, state, z)
    torch.testing.assert_close(values, sum(members) / 3)
    assert len(after) == len(state)
    assert (members[0] - members[1]).abs().max() > 1e-3
    first, own = network.members[0](seen, state[: len(state) // 3], z)
    torch.testing.assert_close(members[0], first)
    for mine, expected in zip(after, own, strict=False):
        torch.testing.assert_close(mine, expected)


def test_held_policies_give_the_same_values():
    network = make_network(SIZES, SMALL)
    network.freeze()
    seen, z = inputs(1, 2), torch.randn(2, 5, 3)
    expected, _ = network(seen, (), z)
    network.hold(z)
    assert torch.equal(network(seen, (), z)[0], expected)


def test_targets_are_those_of_the_member_that_promises_least_literally():
    members = [torch.randn(3, 2, 4, 5, 2) for _ in range(3)]
    along = torch.randn(2, 4, 2)
    found = least_promising(members, along)
    for t, b, n, a in np.ndindex(3, 2, 4, 5):
        least = min(members, key=lambda psi: float(psi[t, b, n, a] @ along[b, n]))
        assert torch.equal(found[t, b, n, a], least[t, b, n, a])
    assert least_promising(members[:1], along) is members[0]


@pytest.mark.parametrize("kind", ["usfa", "uvfa"])
def test_every_member_learns_and_runs_at_once_are_runs_one_by_one(kind):
    env = Trip()
    spec = AgentSpec(ObservationSpec.of(env.observation_space), action_count(env), feature_count(env))
    config = LearnerConfig(policies="box:0,1", policies_per_step=4, gamma=1.0, environments=2, ema=0.1, budget=40)
    agent = AGENTS.make(kind, spec, replace(SMALL, members=2))

    def trained(seeds):
        learner = Learner(agent, config, EnvironmentSource(Trip), task_set("trip-train"), seeds)
        before = {name: x.clone() for name, x in learner.network.state.items()}
        for _ in range(5):
            learner.step()
        return before, learner.network.state

    before, after = trained((1, 3))
    for member in (0, 1):
        assert not torch.equal(before[f"members.{member}.output.weight"], after[f"members.{member}.output.weight"])
    _, alone = trained((3,))
    for name, x in alone.items():
        torch.testing.assert_close(x[0], after[name][1], rtol=1e-3, atol=1e-5)


def test_a_trained_ensemble_is_saved_and_loaded(tmp_path):
    config = preset("trip-usfa")
    config = replace(
        config,
        network=SMALL,
        learner=replace(config.learner, budget=30, replay_ratio=1),
        evaluation=EvaluationConfig(snapshots=1),
        seeds=(0,),
    )
    run = usfa.train(config, tmp_path / "run")
    agent = usfa.load(run.path)
    assert isinstance(agent.network, Ensemble)
    observation, info = Trip().reset(seed=0)
    assert agent.policy([1.0, 0.0])(observation, legal=info["action_mask"]) in np.flatnonzero(info["action_mask"])


def test_a_wrong_number_of_members_is_refused():
    with pytest.raises(InputError, match=r"^network\.members is 0; expected 1 to 100\.$"):
        NetworkConfig(members=0)

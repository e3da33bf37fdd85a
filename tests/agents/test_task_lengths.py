"""A task is a direction and a length. Decisions depend on the direction only, whatever the length."""

import numpy as np
import pytest
import torch

import usfa
from usfa.agents import AgentFile, TrainedAgent
from usfa.decisions import candidate_set, task_tensor
from usfa.errors import InputError
from usfa.evaluation import evaluate
from usfa.runs.training import build_agent
from usfa.samplers import parse_sampler
from usfa.tasks import lengths, moderate, parse_task, task_set

RNG = np.random.default_rng(0)
UNITS = np.eye(4)


@pytest.fixture(scope="module")
def tiny_uvfa():
    """A UVFA of the Trip MDP with random weights."""
    config = usfa.preset("trip-uvfa")
    agent = build_agent(config)
    file = AgentFile(
        kind="uvfa",
        spec=agent.spec,
        network=config.network,
        environment="trip",
        environment_arguments={},
        gamma=config.learner.gamma,
        training_tasks=((1.0, 0.0), (0.0, 1.0)),
        policies="task",
        seeds=(0,),
    )
    return TrainedAgent(file, agent.make_network(0).state_dict(), 0)


@pytest.mark.parametrize("name", ["trip-directions", "trip-diagonal", "room-easy", "room-hard", "room-validation"])
@pytest.mark.parametrize("policies", ["gaussian:0.1", "task", "train", "box:0,1", "ball:2"])
def test_the_papers_tasks_stay_as_they_are(name, policies):
    w = task_set(name)
    sampler = parse_sampler(policies, np.eye(w.shape[1]))
    assert np.array_equal(candidate_set("task", w, np.eye(w.shape[1]), sampler, RNG)[:, 0], w)
    assert torch.equal(task_tensor(w), torch.from_numpy(w).float())


@pytest.mark.parametrize("policies", ["gaussian:0.1", "task", "train", "box:0,1", "task+simplex", "ball:1"])
@pytest.mark.parametrize("factor", [10.0, 1e12, 1e39, 1e190, 1e-3, 1e-39, 1e-190])
def test_the_policy_of_a_task_has_a_learned_length(policies, factor):
    sampler = parse_sampler(policies, UNITS)
    direction = np.array([[1.0, 0.0, 0.0, 0.0], [0.6, -0.8, 0.0, 0.0]])
    z = candidate_set("task", direction * factor, UNITS, sampler, RNG)[:, 0]
    assert np.linalg.norm(z, axis=1) == pytest.approx(1.0)
    assert z == pytest.approx(direction)


def test_the_longest_and_the_shortest_policies_are_those_of_m():
    training = np.array([[3.0, 0.0], [0.0, 0.5]])
    sampler = parse_sampler("gaussian:0.1", training)
    z = candidate_set("task", np.array([[30.0, 40.0], [3e-4, 4e-4], [4.0, 0.0], [0.0, 0.0]]), training, sampler, RNG)
    assert z[:, 0].tolist() == pytest.approx(np.array([[1.8, 2.4], [0.3, 0.4], [4.0, 0.0], [0.0, 0.0]]))


def test_lengths_do_not_overflow():
    w = np.array([[3e190, 4e190], [3e-190, 4e-190], [0.0, 0.0]])
    assert lengths(w)[:, 0] == pytest.approx([5e190, 5e-190, 0.0], abs=0)
    scaled, factor = moderate(w)
    assert scaled == pytest.approx(np.array([[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]]))
    assert scaled * factor == pytest.approx(w)
    with pytest.raises(InputError, match=r"^Task '1e300,0' has an entry of 1e\+300; expected at most 1e\+200\.$"):
        parse_task("1e300,0")


@pytest.mark.parametrize("candidates", ["task", "train+task", "sample:5"])
def test_scores_are_proportional_to_the_length(candidates):
    agent = usfa.load("trip")
    plain = evaluate(agent, "0.6,0.8", candidates)
    for factor in (1e39, 1e-39):
        scaled = evaluate(agent, [0.6 * factor, 0.8 * factor], candidates)
        assert scaled.score[0] / factor == pytest.approx(plain.score[0])
        assert scaled.optimal[0] / factor == pytest.approx(plain.optimal[0])


def test_values_of_a_uvfa_are_proportional_to_the_length(tiny_uvfa):
    observation, legal = 0, np.ones(tiny_uvfa.file.spec.actions)
    plain = tiny_uvfa.q_values(observation, [1.0, 0.0], legal=legal)
    for factor in (10.0, 1e20):
        assert tiny_uvfa.q_values(observation, [factor, 0.0], legal=legal) == pytest.approx(factor * plain, rel=1e-5)
    action = tiny_uvfa.policy([1.0, 0.0])(observation, legal)
    assert tiny_uvfa.policy([1e39, 0.0])(observation, legal) == action
    with pytest.raises(InputError, match=r"^The values on task \[1e\+39, 0.0\] are too large for single precision"):
        tiny_uvfa.q_values(observation, [1e39, 0.0], legal=legal)


def test_candidates_that_no_network_can_take_are_refused():
    with pytest.raises(InputError, match=r"entries above 1e\+06"):
        candidate_set([[1e39, 0.0]], np.ones(2), np.eye(2), parse_sampler("task", np.eye(2)), RNG)

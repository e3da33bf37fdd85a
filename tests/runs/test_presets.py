import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from usfa.errors import InputError
from usfa.learning import LearnerConfig
from usfa.networks import MNIH_2015
from usfa.paper.one_state import OneStateExperiment
from usfa.paper.trip import TripExperiment
from usfa.records import from_json, to_json
from usfa.runs import PRESETS, EvaluationConfig, TrainConfig, preset
from usfa.runs.presets import ROOM_VARIANTS, agent_name, command_for
from usfa.runs.training import build_agent
from usfa.tasks import parse_tasks


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds_its_agent(name):
    config = preset(name)
    agent = build_agent(config)
    assert agent.spec.features == config.tasks.shape[1]
    assert len(config.milestones) == config.evaluation.snapshots + 1
    for tasks in config.evaluation.tasks:
        assert parse_tasks(tasks).shape[1] == agent.spec.features


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_round_trips_through_json(name):
    config = preset(name)
    assert from_json(TrainConfig, json.loads(json.dumps(to_json(config))), "file") == config


def test_the_numbers_of_section_4_1():
    """Table 1 and the text: n_z = 5, D_z = U([0,1]²), undiscounted, M = {10, 01}."""
    config = preset("trip-usfa")
    assert config.learner.policies == "box:0,1"
    assert config.learner.policies_per_step == 5
    assert config.learner.gamma == 1
    assert config.tasks.tolist() == [[1, 0], [0, 1]]
    assert config.evaluation.tasks == ("trip-directions", "trip-diagonal", "trip-train")
    assert TripExperiment().places == 6
    assert TripExperiment().exploration_cost == 0.05


def test_the_numbers_of_section_4_2_and_appendix_c():
    """84×84 pixels, an LSTM, n_z = 30, D_z = N(w, 0.1 I), 32 steps, λ = 0.9, ε = 0.1, M = the unit vectors.

    50 environments for each task; scores are means of 20 episodes with ε = 0.001.
    """
    config = preset("room-paper")
    assert config.environment_arguments == {"image_size": 84}
    assert config.network.convolutions == MNIH_2015
    assert (config.network.memory, config.network.trunk) == (256, (128,))
    assert (config.network.embedding, config.network.head) == ((32, 32), (128,))
    assert (config.learner.tasks, config.learner.environments) == ("fixed", 50 * len(config.tasks))
    assert (config.learner.policies, config.learner.policies_per_step) == ("gaussian:0.1", 30)
    assert (config.learner.trajectory_length, config.learner.lambda_, config.learner.epsilon) == (32, 0.9, 0.1)
    assert config.tasks.tolist() == np.eye(4).tolist()
    assert config.evaluation.tasks == ("room-train", "room-easy", "room-hard")
    assert config.evaluation.candidates == ("task", "train", "train+task")
    assert (config.evaluation.episodes, config.evaluation.epsilon) == (20, 0.001)


@pytest.mark.parametrize("base", ["room-laptop", "room-paper"])
def test_agents_of_the_room_differ_only_in_what_they_learn_about(base):
    usfa = preset(base)
    for name, agent, tasks, policies, count, candidates in (
        ("sigma-0.5", "usfa", 4, "gaussian:0.5", 30, usfa.evaluation.candidates),
        ("8-tasks", "usfa", 8, "gaussian:0.1", 30, usfa.evaluation.candidates),
        ("sf-gpi", "usfa", 4, "train", 4, ("train",)),
        ("uvfa", "uvfa", 4, "task", 1, ("task",)),
        ("uvfa-off-policy", "uvfa", 4, "train", 4, ("task",)),
    ):
        config = preset(f"{base}-{name}")
        learner = replace(config.learner, policies="gaussian:0.1", policies_per_step=30)
        evaluation = replace(config.evaluation, candidates=usfa.evaluation.candidates)
        same = replace(config, agent="usfa", training_tasks=usfa.training_tasks, learner=learner, evaluation=evaluation)
        assert same == usfa
        assert (config.agent, len(config.tasks)) == (agent, tasks)
        assert (config.learner.policies, config.learner.policies_per_step) == (policies, count)
        assert config.evaluation.candidates == candidates


@pytest.mark.parametrize("name", [name for name in PRESETS if preset(name).learner.tasks == "fixed"])
def test_fixed_tasks_have_as_many_environments_each(name):
    config = preset(name)
    assert config.learner.environments % len(config.tasks) == 0
    learned = config.learner.environments * (1 + config.learner.replay_ratio)  # in a round, fresh or again
    in_a_part = learned // config.learner.updates_per_round
    assert in_a_part >= len(config.tasks)  # every update learns from every task


def test_baselines_differ_only_in_what_they_learn_about():
    base = preset("trip-usfa")
    for name, policies, count, candidates in (
        ("trip-uvfa", "task", 1, ("task",)),
        ("trip-uvfa-off-policy", "train", 2, ("task",)),
        ("trip-sf-gpi", "train", 2, ("train",)),
    ):
        config = preset(name)
        learner = replace(config.learner, policies=base.learner.policies, policies_per_step=5)
        assert learner == base.learner
        assert config.learner.policies == policies
        assert config.learner.policies_per_step == count
        assert config.evaluation.candidates == candidates
        assert config.network == base.network


def test_unknown_presets_suggest():
    with pytest.raises(InputError, match=r"^Unknown preset 'trip-ufsa': did you mean 'trip-u.fa'\?$"):
        preset("trip-ufsa")


def config_with(**changes):
    return replace(preset("trip-usfa"), **changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"seeds": ()}, r"^seeds are \(\); expected one or more different whole numbers from 0\.$"),
        ({"seeds": (1, 2, 1)}, r"^seeds are \(1, 2, 1\)"),
        ({"seeds": (-1,)}, r"^seeds are \(-1,\)"),
        ({"checkpoint_every": 0}, r"^checkpoint_every is 0; expected at least 1\.$"),
        ({"threads": 0}, r"^threads is 0; expected at least 1\.$"),
        ({"evaluation": EvaluationConfig(snapshots=1001)}, r"^snapshots is 1001; expected 1 to 1000, the budget\.$"),
        ({"learner": LearnerConfig(policies="cube:1")}, r"^The policy distribution 'cube:1' is not one of gaussian"),
        ({"training_tasks": "1,0;1"}, r"entries"),
        ({"training_tasks": "trip-trian"}, r"did you mean 'trip-train'\?"),
    ],
)
def test_configs_that_cannot_be(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        config_with(**changes)


@pytest.mark.parametrize(("budget", "snapshots"), [(1000, 25), (40, 4), (7, 7), (10, 3), (5, 1), (999, 500)])
def test_milestones_are_even_and_never_twice(budget, snapshots):
    config = config_with(
        learner=LearnerConfig(policies="box:0,1", budget=budget), evaluation=EvaluationConfig(snapshots=snapshots)
    )
    milestones = config.milestones
    assert (milestones[0], milestones[-1]) == (0, budget)
    assert len(set(milestones)) == snapshots + 1
    steps = {after - before for before, after in itertools.pairwise(milestones)}
    assert max(steps) - min(steps) <= 2


@pytest.mark.parametrize("experiment", [TripExperiment(), OneStateExperiment()])
def test_experiments_round_trip_through_json(experiment):
    assert from_json(type(experiment), json.loads(json.dumps(to_json(experiment))), "file") == experiment


def test_experiments_change_their_presets():
    config = TripExperiment(seeds=(3,), episodes=10, places=4, exploration_cost=0.2).config("usfa")
    assert config.environment_arguments == {"places": 4, "exploration_cost": 0.2}
    assert (config.seeds, config.learner.budget, config.evaluation.snapshots) == ((3,), 10, 10)
    assert build_agent(config).spec.actions == 6
    experiment = OneStateExperiment(test_task=-0.33, gamma=0.5)
    assert -0.33 in experiment.grid
    assert experiment.config("uvfa").learner.gamma == 0.5


def test_the_command_is_the_preset_with_what_was_measured_or_the_configuration():
    paper = preset("room-paper")
    assert command_for(replace(paper, seeds=(3, 4))) == "usfa train room-paper --seeds 3 4"
    assert command_for(replace(paper, precision="bf16")) == "usfa train room-paper --seeds 0 --precision bf16"
    longer = replace(paper, learner=replace(paper.learner, budget=7), evaluation=replace(paper.evaluation, snapshots=2))
    flags = "--learner.budget 7 --evaluation.snapshots 2"
    assert command_for(longer) == f"usfa train room-paper --seeds 0 {flags}"
    assert command_for(replace(paper, threads=7)) == "usfa train config.json"


def test_agents_are_called_by_the_variant_that_they_are():
    for base in ("room-laptop", "room-paper"):
        for variant, end in ROOM_VARIANTS.items():
            assert agent_name(preset(base + end)) == variant
    assert agent_name(preset("trip-uvfa-off-policy")) == "uvfa-off-policy"
    assert agent_name(preset("one-state-uvfa")) == "uvfa"
    broad = preset("room-laptop-sigma-0.5")
    assert agent_name(replace(broad, seeds=(7,))) == "usfa-sigma-0.5"
    assert agent_name(replace(broad, learner=replace(broad.learner, policies="gaussian:0.1"))) == "usfa"
    assert agent_name(replace(broad, learner=replace(broad.learner, policies="gaussian:2"))) == "usfa"

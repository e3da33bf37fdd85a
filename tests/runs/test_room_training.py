"""A recurrent agent from pixels, from its configuration to a finished run directory that can be asked."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import usfa
from usfa.environments import History, ObservationSpec, source
from usfa.errors import InputError
from usfa.evaluation import accuracy_of, read_scores
from usfa.learning import Learner
from usfa.networks import NetworkConfig
from usfa.phi import NetworkPhi, PhiReport, PhiSpec
from usfa.runs import preset, train
from usfa.runs.watch import Watch, watch

RESULTS = ("scores.csv", "agent/weights.safetensors", "agent/config.json", "agent/README.md")
NETWORK = NetworkConfig(((4, 4, 2), (8, 3, 1)), memory=8, trunk=(16,), embedding=(8,), head=(16,), normalise=True)
ROOM = {"image_size": 12, "side": 4.0, "types": 2, "objects_per_type": 4, "decisions": 10, "clearance": 0.6}


def small(name):
    """A preset of the room with a network, a room and a budget so small that only the plumbing is tested."""
    config = preset(name)
    return replace(
        config,
        training_tasks="1,0;0,1",
        environment_arguments=ROOM,
        network=NETWORK,
        learner=replace(
            config.learner,
            policies_per_step=min(config.learner.policies_per_step, 3),
            environments=4,
            trajectory_length=6,
            updates_per_round=2,
            budget=1000,
        ),
        evaluation=replace(config.evaluation, tasks=("1,0;0,1", "1,-1"), snapshots=2, episodes=2),
        seeds=(0, 1),
        checkpoint_every=7,
    )


@pytest.fixture(scope="module")
def room_run(tmp_path_factory):
    """A finished run; nobody changes it."""
    return train(small("room-laptop"), tmp_path_factory.mktemp("runs") / "room")


def test_the_log_has_the_returns_of_both_tasks(room_run):
    """A line for every 20 rounds of 24 steps each."""
    lines = [json.loads(line) for line in room_run.metrics.read_text().splitlines()]
    assert [line["updates"] for line in lines] == [40, 80]
    for line in lines:
        assert line["returns"].keys() == {"10", "01"}
        assert min(line["returns"].values()) >= 0
        assert line["frames"] <= 24 * line["updates"] / 2
        assert line["gradient"] > 0


def test_scores_are_of_episodes_and_have_no_optimum(room_run):
    scores = read_scores(room_run.scores)
    assert scores.optimal.isna().all()
    by_rule = scores.groupby("rule").size().to_dict()
    each = 2 * 3  # seeds, tasks
    by_ours = {"steady": each * 3, "cautious": each * 3, "single": each * 2}  # of 3 sets, one has one policy
    assert by_rule == {"gpi": 3 * each * 3, **by_ours}
    assert not scores.duplicated(["candidates", "rule", "seed", "snapshot", "task_set", "task"]).any()
    assert scores[scores.rule != "gpi"].snapshot.unique().tolist() == [1000]
    assert sorted(scores.snapshot.unique()) == [0, 500, 1000]
    assert (scores.frames >= scores.snapshot).all()
    assert (scores[scores.task.isin(["10", "01"])].score >= 0).all()


def test_each_run_has_its_accuracy(room_run):
    """Measured from pixels and with a memory, and the same when it is measured again."""
    agents = [usfa.load(room_run.path, seed) for seed in (0, 1)]
    assert agents[0].accuracy != agents[1].accuracy
    for agent in agents:
        assert agent.accuracy == accuracy_of(agent)
        assert min(agent.accuracy.step_error) > 0
        assert len(agent.accuracy.optimism) == 9  # as far as half the longest task beyond M, and farther


def test_the_agent_can_be_asked(room_run):
    agent = usfa.load(room_run.path, seed=1)
    env = source("room", **ROOM).one()
    observation, _ = env.reset(seed=0)
    assert agent.q_values(observation, [1, -1]).shape == (8,)
    assert agent.q_values(np.stack([observation] * 3), [1, -1]).shape == (3, 8)
    assert agent.successor_features(observation, [[1, 0], [0, 1]]).shape == (2, 8, 2)
    with pytest.raises(InputError, match=r"^The image is of float64; expected uint8, from 0 to 255\.$"):
        agent.q_values(observation / 255, [1, -1])
    policy = agent.policy([1, -1])
    actions = [policy(env.step(0)[0]) for _ in range(5)]
    assert set(actions) <= set(range(8))


def test_the_agent_can_be_evaluated_on_any_task(room_run):
    agent = usfa.load(room_run.path)
    tables = [
        usfa.evaluate(agent, [[1, 0], [1, -1]], ["task", "train"], episodes=3, epsilon=1.0, seed=seed)
        for seed in (0, 0, 1)
    ]
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])
    assert tables[0].candidates.tolist() == ["task", "task", "train", "train"]
    assert tables[0].optimal.isna().all()


def test_the_agent_can_be_watched(room_run, tmp_path):
    """In the room that it was trained in, without saying so again."""
    request = Watch(task="1-1", agent=str(room_run.path), candidates="train", size=42, out=tmp_path / "film.gif")
    film, sheet = watch("room", request)
    assert film.exists()
    assert sheet.exists()


class PowerCut(Exception):
    pass


@pytest.mark.parametrize("after", [14, 52])
def test_resume_after_a_failure_gives_the_same_bytes(tmp_path, monkeypatch, room_run, after):
    """At a checkpoint, and in the middle of episodes, whose memory is in the checkpoint."""
    step = Learner.step

    def failing(self):
        if self.updates == after:
            raise PowerCut
        return step(self)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "step", failing)
        with pytest.raises(PowerCut):
            train(small("room-laptop"), tmp_path / "run")
    run = train(small("room-laptop"), tmp_path / "run", "resume")
    assert {name: (run.path / name).read_bytes() for name in RESULTS} == {
        name: (room_run.path / name).read_bytes() for name in RESULTS
    }


def test_resume_with_a_learned_phi_of_the_history_gives_the_same_bytes(tmp_path, monkeypatch):
    """The images that φ still needs are in the checkpoint, in the middle of episodes."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = NetworkPhi(PhiSpec(ObservationSpec((12, 12, 3)), 8, 2, history=3), (8,), ((4, 4, 2),))
    phi = usfa.LearnedPhi(model, PhiReport("room", features=("a", "b")))
    config = replace(small("room-laptop"), phi=phi, seeds=(0,))
    config = replace(
        config, learner=replace(config.learner, budget=400), evaluation=replace(config.evaluation, snapshots=1)
    )
    whole = train(config, tmp_path / "whole", console=None)
    step = Learner.step

    def failing(self):
        if self.updates == 24:
            raise PowerCut
        return step(self)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "step", failing)
        with pytest.raises(PowerCut):
            train(config, tmp_path / "run", console=None)
    run = train(config, tmp_path / "run", "resume", console=None)
    for name in (*RESULTS, "agent/phi.json", "agent/phi.safetensors"):
        assert (run.path / name).read_bytes() == (whole.path / name).read_bytes(), name
    with monkeypatch.context() as patch:  # the history matters
        patch.setattr(History, "load_state", lambda self, state: None)
        patch.setattr(Learner, "step", failing)
        with pytest.raises(PowerCut):
            train(config, tmp_path / "other", console=None)
        patch.setattr(Learner, "step", step)
        other = train(config, tmp_path / "other", "resume", console=None)
    name = "agent/weights.safetensors"
    assert (other.path / name).read_bytes() != (whole.path / name).read_bytes()


@pytest.mark.parametrize("name", ["room-laptop-uvfa", "room-laptop-uvfa-off-policy", "room-paper-sf-gpi"])
def test_the_other_agents_of_the_paper_train(tmp_path, name):
    config = small(name)
    evaluation = replace(config.evaluation, tasks=("1,-1",), snapshots=1)
    learner = replace(config.learner, budget=300)
    config = replace(config, learner=learner, evaluation=evaluation, precision="fp32", threads=1)
    scores = read_scores(train(config, tmp_path / "run", name=name).scores)
    assert scores.agent.unique().tolist() == [name]
    assert scores.candidates.unique().tolist() == list(config.evaluation.candidates)

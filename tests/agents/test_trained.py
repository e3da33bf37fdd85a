import json
import math
import pickle
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import usfa
from usfa.agents import AGENTS, AgentFile, AgentSpec, TrainedAgent, exact_sf_gpi, load_agent, read_agent, save_agent
from usfa.decisions import Accuracy, CandidateSet, Decision, Follow, Gpi, Situation, assumed_accuracy, parse_rule
from usfa.environments import ObservationSpec, trip_mdp
from usfa.errors import InputError
from usfa.files import read_json, sha256, write_json
from usfa.networks import Network, NetworkConfig
from usfa.tasks import task_set

SPEC = AgentSpec(ObservationSpec((2,), 2), 8, 2)
NETWORK = NetworkConfig(trunk=(6,), embedding=(5, 4), head=(6,))
STATES = np.arange(2)
TASKS = [[1.0, 0.0], [0.7, 0.7], [-1.0, 0.5], [0.0, 0.0]]


def agent_file(kind="usfa", seeds=(4, 7)):
    return AgentFile(
        kind=kind,
        spec=SPEC,
        network=NETWORK,
        environment="trip",
        environment_arguments={},
        gamma=1.0,
        training_tasks=((1.0, 0.0), (0.0, 1.0)),
        policies="box:0,1",
        seeds=seeds,
        scores={"gap": 0.25},
    )


def drawn_networks(kind, seeds):
    agent = AGENTS.make(kind, SPEC, NETWORK)
    return [agent.make_network(seed).requires_grad_(False) for seed in seeds]


def stacked(networks):
    """The weights of several runs, [R, ...]."""
    states = [network.state_dict() for network in networks]
    return {name: torch.stack([state[name] for state in states]) for name in states[0]}


@pytest.fixture(params=["usfa", "uvfa"])
def saved(request, tmp_path):
    """The directory of an untrained agent with two seeds, and its networks."""
    file = agent_file(request.param)
    networks = drawn_networks(request.param, file.seeds)
    save_agent(tmp_path / "agent", file, stacked(networks))
    return tmp_path / "agent", file, networks


@pytest.fixture
def usfa_agent(tmp_path):
    save_agent(tmp_path / "agent", agent_file(), stacked(drawn_networks("usfa", (4, 7))))
    return load_agent(tmp_path / "agent")


@pytest.fixture
def uvfa_agent(tmp_path):
    save_agent(tmp_path / "uvfa", agent_file("uvfa"), stacked(drawn_networks("uvfa", (4, 7))))
    return load_agent(tmp_path / "uvfa")


def change_config(directory, **fields):
    write_json(directory / "config.json", read_json(directory / "config.json") | fields)


# --- asking ---


def test_shapes(usfa_agent):
    z = [[1, 0], [0, 1], [0.5, -0.5]]
    assert usfa_agent.q_values(0, [1, 0]).shape == (8,)
    assert usfa_agent.q_values(STATES, [1, 0]).shape == (2, 8)
    assert usfa_agent.successor_features(STATES, z).shape == (2, 3, 8, 2)
    assert usfa_agent.policy([1, 0]).z.shape == (3, 2)


@pytest.mark.parametrize("task", TASKS)
def test_values_are_gpi_over_successor_features(usfa_agent, task):
    for candidates, z in {
        "task": [task],
        "train": np.eye(2),
        "train+task": [[1, 0], [0, 1], task],
        "0.5,0.25;-1,0": [[0.5, 0.25], [-1, 0]],
    }.items():
        expected = (usfa_agent.successor_features(STATES, z) @ np.float32(task)).max(axis=1)
        np.testing.assert_allclose(usfa_agent.q_values(STATES, task, candidates), expected, rtol=1e-5, atol=1e-6)
    default = usfa_agent.q_values(1, task)
    np.testing.assert_allclose(default, usfa_agent.q_values(STATES, task, "train+task")[1], rtol=1e-5, atol=1e-6)


def test_candidates_can_be_arrays_and_samples(usfa_agent):
    own = usfa_agent.q_values(STATES, [0.7, 0.7], np.eye(2))
    np.testing.assert_array_equal(own, usfa_agent.q_values(STATES, [0.7, 0.7], "train"))
    policies = [usfa_agent.policy([0.7, 0.7], "sample:5", seed=seed).z for seed in (0, 0, 1)]
    assert policies[0].shape == (5, 2)
    assert np.array_equal(policies[0], policies[1])
    assert not np.array_equal(policies[0], policies[2])


@pytest.mark.parametrize("task", TASKS)
def test_policy_takes_the_best_legal_action(usfa_agent, task):
    rng = np.random.default_rng(0)
    policy = usfa_agent.policy(task, "task")
    for state in STATES:
        q = usfa_agent.q_values(state, task, "task")
        assert policy(state) == q.argmax()
        for _ in range(10):
            legal = rng.random(8) < 0.4
            legal[rng.integers(8)] = True
            assert policy(state, legal) == max(np.flatnonzero(legal), key=lambda a: q[a])
            assert policy(state, legal.astype(np.int8)) == policy(state, legal)


RULES = (None, "gpi", "follow", "cautious", "cautious:3", Gpi(), Follow())


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_policies_decide_by_their_rule(usfa_agent, rule):
    """Against the rule itself, on ψ and the accuracy that are known about each candidate."""
    policy = usfa_agent.policy([1.0, -0.7], "sample:8", rule)
    z = policy.z
    known = assumed_accuracy(2).of(z, usfa_agent.distance(z), horizon=math.inf).tensors()  # γ = 1, episodes unknown
    assert policy.rule == parse_rule(usfa_agent.default_rule if rule is None else rule)
    for state in STATES:
        policy.reset()
        assert policy.decision is None
        action = policy(state)
        psi = torch.from_numpy(usfa_agent.successor_features(state, z))
        situation = (psi, torch.tensor([1.0, -0.7]), known.z, torch.ones(8, dtype=torch.bool), *known[1:])
        expected = policy.rule.decide(Situation(*(x[None] for x in situation)))
        assert policy.decision.action.tolist() == expected.action.tolist() == [action]
        assert policy.decision.policy.tolist() == expected.policy.tolist()
        assert policy.decision.improved.tolist() == expected.improved.tolist()
        torch.testing.assert_close(policy.decision.q, expected.q)
        assert policy.decision.state == ()


def test_rules_decide_differently(usfa_agent):
    """Otherwise the checks above would say nothing about them."""
    tasks = np.random.default_rng(0).standard_normal((30, 2))
    actions = [
        tuple(usfa_agent.policy(w, "sample:8", rule)(state) for w in tasks for state in STATES)
        for rule in ("gpi", "follow", "cautious")
    ]
    assert len(set(actions)) == 3


def test_a_rules_memory_is_kept_until_the_episode_ends(usfa_agent):
    class Clock:
        def decide(self, situation):
            time = torch.zeros(1) if situation.state is None else situation.state[0]
            nothing = torch.zeros(1, dtype=torch.int64)
            return Decision(time.long() % 8, nothing, nothing > 0, torch.zeros(1, 8), (time + 1,))

    policy = usfa_agent.policy([1, 0], rule=Clock())
    assert [policy(0) for _ in range(4)] == [0, 1, 2, 3]
    policy.reset()
    assert [policy(0) for _ in range(2)] == [0, 1]


def test_caution_where_psi_was_learned(usfa_agent, uvfa_agent):
    actor, tables = exact_sf_gpi(trip_mdp(), torch.from_numpy(task_set("trip-train")))
    file = replace(agent_file('sf-gpi-tables{"policies": 2}', (0,)), spec=actor.spec)
    exact = TrainedAgent(file, tables.state_dict(), 0)
    assert [agent.default_rule for agent in (usfa_agent, uvfa_agent, exact)] == ["cautious", "gpi", "gpi"]
    candidates = [
        agent.candidates(np.eye(2), None, np.random.default_rng(0)) for agent in (usfa_agent, uvfa_agent, exact)
    ]
    assert [one.step_error.tolist() for one in candidates] == [[[0.06, 0.06]] * 2, [[0, 0]] * 2, [[0, 0]] * 2]
    assert [one.gap_scale.tolist() for one in candidates] == [[1, 1]] * 3
    assert [one.optimism.any() for one in candidates[1:]] == [False, False]


@pytest.mark.parametrize(
    ("policies", "tasks", "expected"),
    [
        ("box:0,1", "fixed", [[0, 1], [20**0.5, 0]]),
        ("train", "fixed", [[0, 1], [5, 0.5**0.5]]),
        ("gaussian:0.1", "fixed", [[0, 1], [5, 0.5**0.5]]),
        ("gaussian:0.1", "box:0,1", [[0, 1], [20**0.5, 0]]),
        ("ball:1", "fixed", [[0, 1], [34**0.5 - 1, 0]]),
    ],
)
def test_distance_from_the_learned_policies(usfa_agent, policies, tasks, expected):
    """M is 10 and 01."""
    file = replace(usfa_agent.file, policies=policies, training={"learner": {"tasks": tasks}})
    agent = TrainedAgent(file, usfa_agent.network.state_dict(), usfa_agent.seed)
    z = np.array([[[1, 0], [2, 0]], [[3, 5], [0.5, 0.5]]])
    np.testing.assert_allclose(agent.distance(z), expected)


def test_candidates_carry_what_was_measured(usfa_agent):
    accuracies = (Accuracy((0.1, 0.2), ((0.0, 0.0), (2.0, 0.8))), Accuracy((0.3, 0.4), ((0.0, 0.5),)))
    for seed, step_error, optimism in ((4, [0.1, 0.2], [0, 0.4, 0.8]), (7, [0.3, 0.4], [0.5, 0.5, 0.5])):
        file = replace(usfa_agent.file, accuracy=accuracies)
        agent = TrainedAgent(file, usfa_agent.network.state_dict(), seed)
        assert agent.accuracy == accuracies[(4, 7).index(seed)]
        candidates = agent.candidates(np.ones(2), [[1, 1], [2, 1], [9, 0]], np.random.default_rng(0))
        assert candidates.step_error.tolist() == step_error
        np.testing.assert_allclose(candidates.optimism, optimism)  # at distances 0, 1 and 8 from the box


@pytest.mark.parametrize(
    ("gamma", "frames", "episodes", "horizon"),
    [(0.95, 1000, 0, 20), (0.95, 1000, 10, 20), (0.95, 1000, 100, 10), (1.0, 1000, 100, 10), (1.0, 0, 0, 1000)],
)
def test_candidates_carry_the_horizon(usfa_agent, gamma, frames, episodes, horizon):
    file = replace(usfa_agent.file, gamma=gamma, frames=frames, episodes=episodes)
    agent = TrainedAgent(file, usfa_agent.network.state_dict(), usfa_agent.seed)
    assert agent.candidates(np.ones(2), "task", np.random.default_rng(0)).horizon == pytest.approx(horizon)


@pytest.mark.parametrize(("learner", "scale"), [({}, 1.0), ({"action_gap": 0}, 1.0), ({"action_gap": 0.75}, 0.25)])
def test_advantage_learning_is_undone(usfa_agent, learner, scale):
    file = replace(usfa_agent.file, training={"learner": learner})
    agent = TrainedAgent(file, usfa_agent.network.state_dict(), usfa_agent.seed)
    assert agent.candidates(np.ones(2), "task", np.random.default_rng(0)).gap_scale == scale
    assert agent.default_rule == ("cautious" if scale == 1 else "steady")


@pytest.mark.parametrize("gap", [1.0, -0.1, math.nan, "0.9", None])
def test_a_forged_action_gap_is_refused(usfa_agent, gap):
    file = replace(usfa_agent.file, training={"learner": {"action_gap": gap}})
    with pytest.raises(
        InputError, match=rf"^The agent's action_gap is {gap!r}; expected a number from 0 to below 1\.$"
    ):
        TrainedAgent(file, usfa_agent.network.state_dict(), usfa_agent.seed)


def test_texts_are_tasks(usfa_agent):
    expected = usfa_agent.q_values(STATES, [1.0, -1.0])
    for text in ("1,-1", "1-1", "[1, -1]"):
        np.testing.assert_array_equal(usfa_agent.q_values(STATES, text), expected)


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        (lambda agent: agent.policy([1, 0, 0]), r"^Task \[1, 0, 0\] has 3 entries; expected 2, one per feature\.$"),
        (lambda agent: agent.policy("1"), r"^Task '1' has 1 entry; expected 2"),
        (lambda agent: agent.policy([1, np.nan]), r"holds NaN or infinity; expected finite numbers\.$"),
        (lambda agent: agent.policy([1, 0], "trian"), r"^Unknown candidate set 'trian': did you mean 'train'\?"),
        (lambda agent: agent.policy([1, 0], rule="gpy"), r"^Unknown rule 'gpy': did you mean 'gpi'\?"),
        (lambda agent: agent.policy([1, 0], rule="cautious:x"), r"^The rule is 'cautious:x'; expected a number from 0"),
        (lambda agent: agent.policy([1, 0], rule="single"), r"^The rule is 'single', which is only for evaluations"),
        (
            lambda agent: agent.policy([1, 0], rule=3),
            r"^The rule is 3; expected a name \(.*\) or an object with decide",
        ),
        (lambda agent: agent.policy([1, 0], []), r"^The candidate set is empty; expected at least one policy z\.$"),
        (lambda agent: agent.policy([1, 0], [1, 0]), r"^The candidates have shape \(2,\); expected \[N, 2\]"),
        (lambda agent: agent.q_values(2, [1, 0]), r"is not a state; expected a whole number below 2\.$"),
        (lambda agent: agent.q_values([0.5, 0.5], [1, 0]), r"is not a state; expected a whole number below 2\.$"),
        (lambda agent: agent.policy([1, 0])(-1), r"is not a state; expected a whole number below 2\.$"),
        (lambda agent: agent.successor_features(STATES, [[1, 0, 0]]), r"expected .*2"),
        (lambda agent: agent.policy([1, 0])(0, [1, 0]), r"expected .*8"),
        (lambda agent: agent.policy([1, 0])(0, [0] * 8), r"legal"),
    ],
)
def test_bad_questions_get_one_sentence(usfa_agent, question, sentence):
    with pytest.raises(InputError, match=sentence):
        question(usfa_agent)


def test_uvfa_knows_its_task_only(uvfa_agent):
    assert uvfa_agent.q_values(STATES, [0.7, 0.7]).shape == (2, 8)
    assert uvfa_agent.default_candidates == "task"
    np.testing.assert_array_equal(uvfa_agent.q_values(0, [1, 0]), uvfa_agent.q_values(0, [1, 0], "task"))
    for candidates in ("train", "train+task", "sample:3", np.eye(2), "1,0"):
        with pytest.raises(
            InputError, match=r"(?s)^candidates is .*; expected 'task', the only candidate set of this agent\.$"
        ):
            uvfa_agent.policy([1, 0], candidates)
    with pytest.raises(InputError, match=r"^A uvfa agent has no network of successor features; expected a USFA\.$"):
        uvfa_agent.successor_features(STATES, np.eye(2))


def test_repr_tells_what_it_is(usfa_agent):
    assert repr(usfa_agent) == "<usfa agent for trip, trained on 10, 01, seed 4>"


# --- files ---


def test_loaded_agents_do_what_the_saved_ones_did(saved):
    directory, file, networks = saved
    actor = file.agent()
    for seed, mine in zip(file.seeds, networks, strict=True):
        agent = load_agent(directory, seed)
        assert agent.file == file
        assert agent.seed == seed
        for task in TASKS:
            w = torch.tensor(task).expand(2, -1)
            expected, _ = actor.act(mine, actor.at_start(torch.eye(2)), w, CandidateSet.believed(w[:, None]), Gpi())
            assert np.array_equal(agent.q_values(STATES, task, "task"), expected.q.numpy())
            policy = agent.policy(task, "task")
            assert [policy(state) for state in STATES] == expected.q.argmax(dim=-1).tolist()


ACCURACIES = (
    Accuracy((0.1 + 0.2, 1 / 3), ((0.0, 0.25), (0.7, 1.0))),
    Accuracy((0.0, 1e-5), ((0.0, 0.0),)),
)


def test_accuracies_are_saved(usfa_agent, tmp_path):
    file = replace(usfa_agent.file, accuracy=ACCURACIES)
    save_agent(tmp_path / "measured", file, stacked(drawn_networks("usfa", (4, 7))))
    for seed, accuracy in zip((4, 7), ACCURACIES, strict=True):
        agent = load_agent(tmp_path / "measured", seed)
        assert agent.file == file
        assert agent.accuracy == accuracy


def test_agents_from_before_accuracies_were_measured(saved):
    """They have no such field; what is assumed makes them cautious all the same."""
    directory, file, _ = saved
    config = read_json(directory / "config.json")
    assert config.pop("accuracy") == []
    write_json(directory / "config.json", config)
    agent = load_agent(directory)
    assert agent.file == file
    assert agent.accuracy is None
    candidates = agent.candidates(np.array([1.0, -1.0]), "task", np.random.default_rng(0))
    if file.kind == "usfa":  # [1, -1] is 1 away from the box that was learned
        expected = assumed_accuracy(2).of(candidates.z, np.array([1.0]), horizon=1.0)
        assert candidates.optimism.tolist() == expected.optimism.tolist() == [0.9]
        assert candidates.step_error.tolist() == [0.06, 0.06]
    else:
        assert candidates.optimism.tolist() == [0]
        assert candidates.step_error.tolist() == [0, 0]


def test_first_seed_by_default_and_unknown_seeds_refused(saved):
    directory, *_ = saved
    assert load_agent(directory).seed == 4
    with pytest.raises(InputError, match=r"has no seed 5; expected one of \[4, 7\]\.$"):
        load_agent(directory, 5)


def test_saving_twice_gives_the_same_bytes(saved, tmp_path):
    directory, file, networks = saved
    save_agent(tmp_path / "again", file, stacked(networks))
    for name in ("config.json", "weights.safetensors", "README.md"):
        assert (tmp_path / "again" / name).read_bytes() == (directory / name).read_bytes()


def test_model_card_is_written(saved):
    directory, file, _ = saved
    card = (directory / "README.md").read_text("utf-8")
    metadata, _, text = card.removeprefix("---\n").partition("---\n")
    assert "library_name: usfa\n" in metadata  # for the Hugging Face hub
    assert text.lstrip().startswith(f"# {file.kind} agent for `trip`\n")
    assert "Seeds in this file: 4, 7" in card
    assert "| gap | 0.25000 |" in card


@pytest.mark.parametrize(
    ("tasks", "policies", "expected"),
    [
        ("fixed", "train", "train"),
        ("fixed", "gaussian:0.1", "train"),
        ("resampled", "task+gaussian:0.1", "train"),
        ("fixed", "task", "train"),
        ("simplex", "train", "train"),
        ("simplex", "gaussian:0.1", "train+task"),
        ("simplex", "task+simplex", "train+task"),
        ("fixed", "box:0,1", "train+task"),
    ],
)
def test_where_only_policies_near_m_were_learned_those_are_trusted(usfa_agent, tasks, policies, expected):
    file = replace(usfa_agent.file, policies=policies, training={"learner": {"tasks": tasks}})
    agent = TrainedAgent(file, usfa_agent.network.state_dict(), usfa_agent.seed)
    assert agent.default_candidates == expected
    assert len(agent.policy([1, -1]).z) == (2 if expected == "train" else 3)


@pytest.mark.parametrize("change", [{}, {"format": 1, "kind": "sf-gpi-tables"}], ids=["now", "format 1"])
def test_exact_tables_are_saved_too(tmp_path, change):
    actor, tables = exact_sf_gpi(trip_mdp(), torch.from_numpy(task_set("trip-train")))
    file = replace(agent_file('sf-gpi-tables{"policies": 2}', (0,)), spec=actor.spec)
    save_agent(tmp_path / "agent", file, stacked([tables]))
    change_config(tmp_path / "agent", **change)
    agent = load_agent(tmp_path / "agent")
    assert agent.default_candidates == "train"
    q = agent.q_values(STATES, [0.7, 0.7])
    assert q[0, 0] == pytest.approx(0.7)
    assert q[0, 7] == pytest.approx(0.6 + 0.03)  # explore for 2·0.05·0.7, then coffee for 0.7


def test_nothing_is_unpickled(saved, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a pickle was opened")

    directory, *_ = saved
    load_agent(directory).policy([1, 0])(0)  # numba reads its own cache of compiled code, which is a pickle
    for owner, name in ((pickle, "Unpickler"), (pickle, "load"), (pickle, "loads"), (torch, "load")):
        monkeypatch.setattr(owner, name, refuse)
    load_agent(directory).policy([1, 0])(0)
    usfa.load("trip").policy([1, 0])(0, legal=[1, 0, 0, 0, 0, 0, 1, 1])


GOOD = {"step_error": [0.1, 0.2], "optimism": [[0.0, 0.1]]}


def test_torn_or_changed_weights(saved):
    weights = saved[0] / "weights.safetensors"
    whole = weights.read_bytes()
    for broken in (b"", whole[:-1], whole[: len(whole) // 2], whole + b"x", whole[:-1] + bytes([whole[-1] ^ 1])):
        weights.write_bytes(broken)
        with pytest.raises(InputError, match=r"weights\.safetensors is torn or was changed: its checksum does not"):
            load_agent(saved[0])
    weights.unlink()
    with pytest.raises(InputError, match=r"weights\.safetensors cannot be read: No such file or directory\.$"):
        load_agent(saved[0])


def test_weights_of_another_format(saved):
    (saved[0] / "weights.safetensors").write_bytes(b"PK\x03\x04 a zip file")
    change_config(saved[0], weights_sha256=sha256(b"PK\x03\x04 a zip file"))
    with pytest.raises(InputError, match=r"weights\.safetensors is not a safetensors file: "):
        load_agent(saved[0])


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"format": 3}, r"config\.json is not an agent of format 2, which usfa .* reads\.$"),
        ({"kind": "dqn"}, r"^Unknown agent 'dqn': "),
        ({"gamma": "high"}, r"config\.json does not describe a AgentFile: .*\$\.gamma"),
        ({"colour": "red"}, r"config\.json has the unknown field 'colour' for a AgentFile\.$"),
        ({"policies": "boks"}, r"^The policy distribution 'boks' is not one of gaussian"),
        ({"accuracy": [GOOD]}, r"^The agent has 1 accuracy; expected 2, one for each seed\.$"),
        ({"accuracy": [GOOD] * 3}, r"^The agent has 3 accuracies; expected 2, one for each seed\.$"),
        ({"accuracy": [GOOD, GOOD | {"step_error": [0.1]}]}, r"^The agent's step_error has 1 entry; expected 2\.$"),
        ({"accuracy": [GOOD, GOOD | {"step_error": []}]}, r"step_error is \(\); expected a number from 0 for each"),
        (
            {"accuracy": [GOOD, GOOD | {"step_error": [0.1, -1]}]},
            r"step_error is \(0\.1, -1.*; expected a number from 0",
        ),
        ({"accuracy": [GOOD, GOOD | {"optimism": []}]}, r"optimism is \(\); expected pairs of a growing distance"),
        ({"accuracy": [GOOD, GOOD | {"optimism": [[1, 0], [1, 1]]}]}, r"optimism is .*; expected pairs of a growing"),
        ({"accuracy": [GOOD, GOOD | {"optimism": [[0, 0, 1]]}]}, r"config\.json does not describe a AgentFile: "),
        ({"accuracy": [GOOD, {"step_error": [0.1, 0.1]}]}, r"config\.json does not describe a AgentFile: .*optimism"),
        ({"seeds": []}, r"seed"),
        ({"seeds": [4, 7, 9]}, r"weights|seed"),
        ({"training_tasks": [[1.0, 0.0, 0.0]]}, r"(?i)task.* 3 entries"),
        ({"training_tasks": []}, r"(?i)task"),
        ({"network": {"trunk": [7], "embedding": [5, 4], "head": [6]}}, r"weights"),
        ({"network": {"trunk": [], "embedding": [5, 4], "head": [6]}}, r"trunk"),
        ({"spec": {"observation": {"shape": [3], "states": 3, "start": 0}, "actions": 8, "features": 2}}, r"weights"),
        *(
            ({"spec": {"observation": {"shape": shape}, "actions": 8, "features": 2}}, r"The shape of observations is ")
            for shape in ([], [0], [-1], [5, 5], [2**70])
        ),
        *(
            ({"spec": {"observation": {"shape": [3]}, "actions": 8, "features": 2, name: count}}, f"number of {name}")
            for name in ("actions", "features")
            for count in (0, -1, 2**70)
        ),
    ],
)
def test_config_that_is_not_what_was_saved(saved, fields, sentence):
    """Refused when it is loaded: a traceback in the middle of acting helps nobody."""
    change_config(saved[0], **fields)
    with pytest.raises(InputError, match=sentence):
        load_agent(saved[0], fields.get("seeds", [4])[-1] if fields.get("seeds") else None)


def test_torn_config(saved):
    whole = (saved[0] / "config.json").read_bytes()
    (saved[0] / "config.json").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"config\.json is torn or not JSON"):
        load_agent(saved[0])
    (saved[0] / "config.json").unlink()
    with pytest.raises(InputError, match=r"config\.json cannot be read: No such file"):
        load_agent(saved[0])


# --- files of format 1 ---

FORMAT_1 = {"trunk.layers": "trunk", "trunk.norm": "state_norm"}


def test_files_of_format_1_are_read(tmp_path):
    """Settings and weights had other names, and the trunk was not a module of its own."""
    images = AgentSpec(ObservationSpec((12, 12, 3)), 8, 2)
    layers = NetworkConfig(((4, 4, 2), (6, 3, 1)), memory=5, trunk=(6, 7), embedding=(4,), head=(5, 4), normalise=True)
    file = replace(agent_file(), spec=images, network=replace(layers, output_scale=20.0), environment="room")
    agent = file.agent()
    weights = stacked([agent.make_network(seed) for seed in file.seeds])
    save_agent(tmp_path / "now", file, weights)
    save_agent(tmp_path / "before", file, {old_name(name): x for name, x in weights.items()})
    old = {"centre": [], "spread": [], "scale": 20.0}
    config = json.loads((tmp_path / "before" / "config.json").read_text())
    network = {
        key: value for key, value in config["network"].items() if not key.endswith(("_scale", "_centre", "_class"))
    }
    training = {"learner": {"boldest": 0.5, "reuse": 3, "average": None, "tasks": "simplex"}, "network": old}
    change_config(tmp_path / "before", format=1, network=network | old, training=training)
    found, read = read_agent(tmp_path / "before")
    assert found == replace(file, training=found.training)
    learner = {"epsilon_max": 0.5, "replay_ratio": 3, "ema": None, "tasks": "simplex"}
    assert found.training["learner"] == learner
    assert found.training["network"] == {"obs_centre": [], "obs_scale": [], "output_scale": 20.0}
    assert read.keys() == weights.keys()
    assert all(torch.equal(x, weights[name]) for name, x in read.items())
    images = np.random.default_rng(0).integers(256, size=(3, 12, 12, 3), dtype=np.uint8)
    now, before = (load_agent(tmp_path / name, 7).q_values(images, [1, -1], "task") for name in ("now", "before"))
    assert np.array_equal(now, before)


def old_name(name):
    for now, before in FORMAT_1.items():
        if name.startswith(now):
            return before + name.removeprefix(now)
    return name.removeprefix("trunk.")


# --- parts of the user's own ---


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"kind": "nowhere_to_be:Own"}, "agent"),
        ({"policies": "nowhere_to_be:Own"}, "policy distribution"),
        ({"network": {"trunk_class": "nowhere_to_be:Own"}}, "trunk"),
        ({"network": {"network_class": "nowhere_to_be:Own"}}, "network"),
    ],
)
def test_modules_that_do_not_exist_are_named(usfa_agent, tmp_path, fields, kind):
    change_config(tmp_path / "agent", **fields)
    for trust in (False, True):
        with pytest.raises(InputError) as error:
            load_agent(tmp_path / "agent", trust=trust)
        assert str(error.value).startswith(
            f"The module 'nowhere_to_be' of the {kind} 'nowhere_to_be:Own' is not found; "
        )


def test_trusted_modules_that_fail_are_named(usfa_agent, tmp_path, monkeypatch):
    (tmp_path / "failing_part_of_a_test.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    change_config(tmp_path / "agent", kind="failing_part_of_a_test:Own")
    with pytest.raises(InputError) as error:
        load_agent(tmp_path / "agent", trust=True)
    assert str(error.value) == (
        "The module 'failing_part_of_a_test' of 'failing_part_of_a_test:Own' cannot be imported: "
        "ZeroDivisionError: division by zero (failing_part_of_a_test.py, line 1)."
    )


@pytest.mark.parametrize("text", ["subprocess:Popen", 'subprocess:Popen{"args": ["touch", "ran"]}'])
@pytest.mark.parametrize("field", ["kind", "policies", "trunk_class", "network_class"])
@pytest.mark.parametrize("trust", [False, True])
def test_files_cannot_run_anything_else(usfa_agent, tmp_path, monkeypatch, text, field, trust):
    monkeypatch.chdir(tmp_path)
    fields = {field: text} if field in {"kind", "policies"} else {"network": {field: text}}
    change_config(tmp_path / "agent", **fields)
    with pytest.raises(InputError, match=r"is <class 'subprocess\.Popen'>; expected a class derived from usfa\."):
        load_agent(tmp_path / "agent", trust=trust)
    assert not (tmp_path / "ran").exists()


def test_trusted_files_bring_their_modules(usfa_agent, tmp_path, monkeypatch):
    (tmp_path / "own_parts_of_a_test.py").write_text(OWN_PARTS)
    monkeypatch.syspath_prepend(tmp_path)
    change_config(tmp_path / "agent", kind="own_parts_of_a_test:Own", policies='own_parts_of_a_test:Near{"step": 2.0}')
    with pytest.raises(InputError, match=r"which is not imported; import it first, or set trust"):
        load_agent(tmp_path / "agent")
    agent = load_agent(tmp_path / "agent", trust=True)
    assert type(agent.actor).__name__ == "Own"
    assert agent.policy([1, 0], "sample:2").z.tolist() == [[3, 2], [3, 2]]
    np.testing.assert_array_equal(agent.q_values(STATES, [1, 0], "task"), usfa_agent.q_values(STATES, [1, 0], "task"))
    del sys.modules["own_parts_of_a_test"]


OWN_PARTS = """
from dataclasses import dataclass

import numpy as np

from usfa.agents import UsfaAgent
from usfa.samplers import PolicySampler


class Own(UsfaAgent):
    pass


@dataclass(frozen=True)
class Near(PolicySampler):
    step: float

    def sample(self, w, n, rng):
        return np.repeat(w[..., None, :] + self.step, n, axis=-2)
"""


# --- usfa.load ---


def test_load_finds_runs_agents_and_shipped_ones(tiny_run):
    by_run, by_agent = usfa.load(tiny_run.path, seed=1), usfa.load(str(tiny_run.agent), seed=1)
    assert np.array_equal(by_run.q_values(STATES, [0.3, 0.9]), by_agent.q_values(STATES, [0.3, 0.9]))
    assert by_run.seed == 1
    assert usfa.load("trip").file.kind == "usfa"


def test_load_says_what_is_missing(tmp_path, tiny_run):
    with pytest.raises(InputError, match=r"^Unknown agent or run directory 'tirp': did you mean 'trip'\?"):
        usfa.load("tirp")
    with pytest.raises(InputError, match=r"^Run directory .*none does not exist\.$"):
        usfa.load(tmp_path / "none")
    with pytest.raises(InputError, match=r"is not a run: it has no config\.json\.$"):
        usfa.load(tmp_path)
    unfinished = shutil.copytree(tiny_run.path, tmp_path / "unfinished")
    shutil.rmtree(unfinished / "agent")
    with pytest.raises(InputError, match=r"is not finished and has no agent yet; continue it with --resume\.$"):
        usfa.load(unfinished)


def test_the_shipped_agent_is_near_optimal():
    """It was trained on two tasks; over all directions its mean gap is below a fifth of exact SF&GPI's."""
    table = usfa.evaluate(usfa.load("trip"), "trip-directions", ["task", "sample:5"])
    assert table.groupby("candidates").gap.mean().max() < 0.005
    assert (
        usfa.evaluate(usfa.load("trip"), "trip-train", ["task", "train", "sample:5"], ["cautious", "gpi"]).gap.max()
        < 1e-9
    )


def test_a_masked_environment_wants_its_mask():
    policy = usfa.load("trip").policy([0.7, 0.7])
    with pytest.raises(
        InputError, match=r'^legal is missing; expected info\["action_mask"\], because some actions of '
    ):
        policy(0)


def test_values_of_illegal_actions_are_minus_infinity():
    q = usfa.load("trip").q_values(0, [0.7, 0.7], legal=[1, 0, 0, 0, 0, 0, 1, 1])
    assert np.isneginf(q).tolist() == [False, True, True, True, True, True, False, False]


def test_successor_features_of_one_observation_and_of_a_batch():
    agent = usfa.load("trip")
    one, two = agent.successor_features(0, [[1, 0]]), agent.successor_features([0, 1], [[1, 0], [0, 1]])
    assert one.shape == (1, 8, 2)
    assert two.shape == (2, 2, 8, 2)
    np.testing.assert_allclose(one[0], two[0, 0], atol=1e-6)


class RecurrentOwn(Network):
    """A network of a user whose weights have names that format 1 had elsewhere, and an integer buffer."""

    def __init__(self, sizes, config):
        super().__init__()
        self.shape = (sizes.actions, sizes.outputs)
        self.memory = torch.nn.Linear(sizes.observation[0], sizes.actions * sizes.outputs)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, inputs, core_state, z):
        values = self.memory(inputs.observation).unflatten(-1, self.shape)
        return values[:, :, None].expand(-1, -1, z.shape[1], -1, -1), core_state


def test_weights_of_own_networks_keep_their_names(tmp_path):
    config = usfa.preset("trip-usfa")
    config = replace(
        config,
        network=replace(config.network, network_class=RecurrentOwn),
        learner=replace(config.learner, budget=10),
        evaluation=replace(config.evaluation, snapshots=1),
        seeds=(0, 1),
    )
    usfa.train(config, tmp_path / "run")
    assert "memory.weight" in usfa.load(tmp_path / "run").network.state_dict()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda x: x * torch.nan, r"are not finite: .* has NaN or infinite entries\.$"),
        (lambda x: x / 0, r"are not finite: .* has NaN or infinite entries\.$"),
        (lambda x: x.double(), r"do not fit their config\.json: .* is torch\.float64, expected torch\.float32\.$"),
        (lambda x: x.bfloat16(), r"do not fit their config\.json: .* is torch\.bfloat16, expected torch\.float32\.$"),
    ],
)
def test_weights_that_cannot_act_are_one_sentence(tmp_path, change, sentence):
    weights = stacked(drawn_networks("usfa", (4, 7)))
    name = next(iter(weights))
    save_agent(tmp_path / "agent", agent_file("usfa"), weights | {name: change(weights[name])})
    with pytest.raises(InputError, match=sentence):
        load_agent(tmp_path / "agent")

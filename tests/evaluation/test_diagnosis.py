"""Promises against returns, whom rules trust, steps that lead nowhere: on Trip, and on a ring that can be counted."""

import io
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console

import usfa
from exact_agents import ExactUsfa, env_of, ring
from fake_agents import untrained
from usfa.agents import AgentFile, TrainedAgent
from usfa.decisions import Decision
from usfa.environments import register
from usfa.errors import InputError
from usfa.evaluation import ScoringProtocol, diagnose, evaluate
from usfa.evaluation.diagnosis import _longest, _names, _Recent, _returns
from usfa.networks import NetworkConfig
from usfa.samplers import parse_sampler

GAMMA = 0.5
RIGHT, LEFT, STAY = 0, 1, 2
STEPS = 6  # of an episode, which is then cut off


@pytest.fixture
def ring_agent():
    """On a ring, with exact ψ: it goes to the right for [1, 0], to the left for [0, 1]."""

    def make(promise=1.0):
        mdp = ring(GAMMA)
        register("ring", lambda: gym.wrappers.TimeLimit(env_of(mdp), STEPS))
        actor = ExactUsfa(mdp, lambda z: torch.full((len(z),), promise))
        network = NetworkConfig(trunk=(2,), embedding=(2,), head=(2,))
        file = AgentFile(
            "usfa", actor.spec, "ring", {}, GAMMA, ((1.0, 0.0), (0.0, 1.0)), "train", (0,), network=network
        )
        agent = untrained("usfa", "ring", actor.spec)
        agent.file, agent.actor, agent.network = file, actor, actor.make_network()
        agent.sampler = parse_sampler("train", agent.training_tasks)
        return agent

    return make


class Script:
    """Takes actions from a list, one after the other; it trusts the first policy, and says where it improves."""

    def __init__(self, *actions, improved=()):
        self.actions, self.improved = actions, improved
        self.name = "script"

    def decide(self, situation):
        batch, _, actions = situation.psi.shape[:3]
        time = 0 if situation.state is None else int(situation.state[0][0])
        action = torch.full((batch,), self.actions[time % len(self.actions)])
        trusted = torch.zeros(batch, dtype=torch.int64)
        improved = torch.full((batch,), time in self.improved)
        return Decision(action, trusted, improved, torch.zeros(batch, actions), (torch.full((batch,), time + 1),))


@pytest.fixture(scope="module")
def trip():
    agent = usfa.load("trip")
    return agent, diagnose(agent, [0.7, -0.2], "sample:4", ["gpi", "cautious", "follow"], episodes=3, epsilon=0.0)


# --- what came of it ---


def test_scores_are_those_of_the_evaluation(trip):
    """By every rule, and by every policy followed alone."""
    agent, found = trip
    z = agent.candidates(np.array([0.7, -0.2]), "sample:4", ScoringProtocol().rng()).z
    rules = evaluate(agent, [0.7, -0.2], "sample:4", ["gpi", "cautious", "follow"]).score
    alone = [evaluate(agent, [0.7, -0.2], policy[None], "follow").score[0] for policy in z]
    assert found.actors.actor.tolist() == ["rule"] * 3 + ["policy"] * 4
    assert found.actors.name.tolist()[:3] == ["gpi", "cautious", "follow"]
    assert found.actors.name.tolist()[3:] == found.candidates.policy.tolist()
    np.testing.assert_allclose(found.actors.score, [*rules, *alone], atol=1e-6)
    np.testing.assert_allclose(found.actors["std"], 0, atol=1e-6)


def test_promises_and_returns_of_the_trip(trip):
    """γ is 1 and episodes end: what a policy realises is its score, and what it promised is ψ(s₁, π_z(s₁), z)·w."""
    agent, found = trip
    w = np.array([0.7, -0.2])
    z = agent.candidates(w, "sample:4", ScoringProtocol().rng()).z
    alone = found.actors[found.actors.actor == "policy"]
    np.testing.assert_allclose(found.candidates.realised, alone.score, atol=1e-6)
    legal = np.array([1, 0, 0, 0, 0, 0, 1, 1], np.bool_)
    for policy, promised, distance in zip(z, found.candidates.promised, found.candidates.distance, strict=True):
        psi = agent.successor_features(0, policy[None])[0]
        own = np.where(legal, psi @ policy, -np.inf).argmax()
        assert promised == pytest.approx(psi[own] @ w, rel=1e-5)
        assert distance == agent.distance(policy)


def test_shares_of_steps_sum_to_one(trip):
    _, found = trip
    for rule in ("gpi", "cautious", "follow"):
        shares = found.candidates[[f"followed, {rule}", f"improved, {rule}"]].to_numpy()
        assert shares.sum() == pytest.approx(1)
        assert (shares >= 0).all()
        (improved,) = found.actors[found.actors.name == rule].improved
        assert shares[:, 1].sum() == pytest.approx(improved)
    assert found.candidates["improved, follow"].tolist() == [0] * 4
    assert found.actors[found.actors.actor == "policy"].improved.tolist() == [0] * 4


def test_the_end_of_an_episode_leads_to_no_earlier_observation(trip):
    """After a termination the next episode is seen, which starts as the one before did."""
    _, found = trip
    assert found.actors[["undone", "idle", "longest_idle"]].to_numpy().tolist() == [[0, 0, 0]] * 7


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_what_was_cut_off_is_continued_by_psi(ring_agent, factor):
    """Six steps of 1, and then cψ = c/(1-γ) instead of the rest; ψ promises c/(1-γ) everywhere."""
    w = np.array([1.0, -0.5])
    found = diagnose(ring_agent(factor), w, rules=["gpi"], episodes=2, epsilon=0.0)
    promise = factor / (1 - GAMMA)
    came = [sum(GAMMA**k for k in range(STEPS - t)) + GAMMA ** (STEPS - t) * promise for t in range(STEPS)]
    assert found.candidates.policy.tolist() == ["10", "01"]
    assert found.candidates.promised.tolist() == pytest.approx([promise, -0.5 * promise])
    assert found.candidates.realised.tolist() == pytest.approx([came[0], -0.5 * came[0]])
    features = found.features.set_index(["policy", "feature"])
    assert list(features.columns) == ["promised", "realised", "error"]
    for policy, feature in (("10", 1), ("01", 2)):
        row = features.loc[policy, feature]
        assert row.tolist() == pytest.approx([promise, np.mean(came), np.abs(promise - np.array(came)).mean()])
    for policy, feature in (("10", 2), ("01", 1)):
        assert features.loc[policy, feature].tolist() == [0, 0, 0]
    assert found.actors.set_index("name").score.to_dict() == pytest.approx({"gpi": 6, "10": 6, "01": -3})


def test_returns_are_the_literal_sums():
    """[T = 4, B = 3]: one episode ends at the second step, one is cut off there, one runs on beyond what is seen."""
    rng = np.random.default_rng(0)
    phi, psi_t = rng.standard_normal((4, 3, 2)), rng.standard_normal((4, 3, 2))
    discount, ended = np.full((4, 3), 0.9), np.zeros((4, 3), np.bool_)
    ended[1, :2] = True
    discount[1, 0] = 0.0
    found = _returns(phi, discount, ended, psi_t)
    np.testing.assert_allclose(found[0, 0], phi[0, 0] + 0.9 * phi[1, 0])
    np.testing.assert_allclose(found[0, 1], phi[0, 1] + 0.9 * phi[1, 1] + 0.81 * psi_t[1, 1])
    np.testing.assert_allclose(found[2, 1], phi[2, 1] + 0.9 * phi[3, 1] + 0.81 * psi_t[3, 1])
    np.testing.assert_allclose(found[3], phi[3] + 0.9 * psi_t[3])
    whole = sum(0.9**k * phi[k, 2] for k in range(4)) + 0.9**4 * psi_t[3, 2]
    np.testing.assert_allclose(found[0, 2], whole)


def test_exploration_has_a_spread(ring_agent):
    found = diagnose(ring_agent(), [1.0, 0.0], rules=["gpi"], episodes=30, epsilon=0.5)
    score = found.actors.set_index("name").score
    assert 6 * 0.5 < score["gpi"] < 6
    assert found.actors["std"].min() > 0.5


# --- steps that lead nowhere ---


def rows_by(ring_agent, *actions, improved=()):
    found = diagnose(ring_agent(), [1.0, 0.0], rules=[Script(*actions, improved=improved)], episodes=2, epsilon=0.0)
    return found, found.actors.set_index("name").loc["script"]


@pytest.mark.parametrize(
    ("actions", "undone", "idle", "longest"),
    [
        ([RIGHT], 0, 0, 0),
        ([STAY], 0, 6, 6),  # nothing is undone where nothing was done
        ([RIGHT, LEFT], 5, 5, 5),
        ([RIGHT, RIGHT, LEFT, LEFT, RIGHT, RIGHT], 2, 4, 4),  # turning back, twice; all four places were seen
        ([RIGHT, STAY, RIGHT, RIGHT, STAY, STAY], 0, 3, 2),
        ([RIGHT, STAY, LEFT, LEFT, LEFT, RIGHT], 1, 3, 2),  # a step that is undone later is seen again, but not undone
    ],
)
def test_walks_to_and_fro(ring_agent, actions, undone, idle, longest):
    _, row = rows_by(ring_agent, *actions)
    assert row[["undone", "idle"]].tolist() == pytest.approx([undone / 6, idle / 6])
    assert row.longest_idle == longest
    assert row.score == sum(actions[t % len(actions)] == RIGHT for t in range(6))


def test_what_a_script_improves_is_counted_for_the_policy_that_it_trusts(ring_agent):
    found, row = rows_by(ring_agent, RIGHT, LEFT, STAY, improved=(1, 2, 4, 5))
    assert row.improved == pytest.approx(4 / 6)
    assert found.candidates["followed, script"].tolist() == pytest.approx([2 / 6, 0])
    assert found.candidates["improved, script"].tolist() == pytest.approx([4 / 6, 0])


@pytest.mark.parametrize("states", [2, 1000])
def test_two_states_are_never_the_same_observation(states):
    one, other = np.eye(states, dtype=np.float32)[[[0], [1]]]
    recent = _Recent(one)
    assert [recent.step(seen)[1].tolist() for seen in (other, one)] == [[False], [True]]


def test_only_the_last_eight_observations_are_recent():
    """Places 0 to 8 are new, and place 0 is new again after nine steps; in between place 4 was seen five steps ago."""
    recent = _Recent(np.eye(12, dtype=np.float32)[[0]])
    idle = [bool(recent.step(np.eye(12, dtype=np.float32)[[at]])[1][0]) for at in (1, 2, 3, 4, 5, 6, 7, 8, 4, 0)]
    assert idle == [False] * 8 + [True, False]


@pytest.mark.parametrize(("difference", "same"), [(0, True), (1, True), (2, False)], ids=["none", "noise", "something"])
def test_pictures_with_a_little_noise_are_the_same(difference, same):
    """A mean difference of one of 255 levels."""
    picture = np.full((1, 4, 4, 3), 100, np.uint8)
    recent = _Recent(picture)
    undone, idle = recent.step(picture + np.uint8(difference))
    assert undone.tolist() == [False]
    assert idle.tolist() == [same]


def test_numbers_are_compared_with_the_largest_of_them():
    recent = _Recent(np.array([[1000.0, 0.0], [1.0, 0.0]], np.float32))
    _, idle = recent.step(np.array([[1001.0, 0.0], [2.0, 0.0]], np.float32))
    assert idle.tolist() == [True, False]


def test_environments_are_told_apart():
    recent = _Recent(np.array([[1.0], [5.0]], np.float32))
    recent.step(np.array([[2.0], [6.0]], np.float32))
    undone, idle = recent.step(np.array([[1.0], [2.0]], np.float32))
    assert undone.tolist() == [True, False]
    assert idle.tolist() == [True, False]


def test_the_longest_row_of_any_episode():
    steps = np.array([[1, 1, 0, 1, 1, 1], [0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]], np.bool_).T
    assert _longest(steps) == 3
    assert _longest(np.zeros((4, 2), np.bool_)) == 0
    assert _longest(np.ones((4, 2), np.bool_)) == 4


# --- asking ---


def test_the_agents_own_rule_and_eq_3_by_default(ring_agent):
    found = diagnose(ring_agent(), [1.0, 0.0], episodes=1)
    assert found.actors.name.tolist() == ["cautious", "gpi", "10", "01"]
    assert list(found.candidates.columns[4:]) == [
        f"{what}, {rule}" for rule in ("cautious", "gpi") for what in ("followed", "improved")
    ]


def test_policies_with_the_same_text_are_numbered():
    assert _names(np.array([[1.0, 0.0], [0.5, 0.001], [0.5, 0.0], [0.25, -1.0]])) == [
        "10",
        "0.5,0 #2",
        "0.5,0 #3",
        "0.25,-1",
    ]


def test_tables_repeat_with_the_seed_and_rules_do_not_disturb_each_other():
    agent = usfa.load("trip")
    settings = {"candidates": "sample:3", "episodes": 4, "epsilon": 0.5}
    tables = [diagnose(agent, [0.3, 0.9], rules=["gpi", "follow"], seed=seed, **settings) for seed in (0, 0, 1)]
    for name in ("actors", "candidates", "features"):
        pd.testing.assert_frame_equal(getattr(tables[0], name), getattr(tables[1], name))
        assert not getattr(tables[0], name).equals(getattr(tables[2], name))
    alone = diagnose(agent, [0.3, 0.9], rules=["follow"], **settings)
    both = tables[0].actors
    pd.testing.assert_frame_equal(alone.actors, both[both.name != "gpi"].reset_index(drop=True))


def test_episodes_show_how_far_they_are(ring_agent):
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    diagnose(ring_agent(), [1.0, 0.0], rules=["gpi"], episodes=4, console=console)
    assert "diagnosis: 12 episodes" in console.file.getvalue()  # by one rule and two policies


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"task": [1, 0, 0]}, r"has 3 entries; expected 2"),
        ({"candidates": "trian"}, r"did you mean 'train'\?"),
        ({"rules": ["gpy"]}, r"^Unknown rule 'gpy': did you mean 'gpi'\?"),
        ({"rules": ["single"]}, r"^The rule is 'single', which is only for evaluations"),
        ({"rules": []}, r"^The rules are empty; expected at least one, such as 'gpi'\.$"),
        ({"rules": "gpy"}, r"^Unknown rule 'gpy'"),
        ({"episodes": 0}, r"^episodes is 0; expected at least 1\.$"),
        ({"epsilon": 1.1}, r"^epsilon is 1\.1; expected a number from 0 to 1\.$"),
    ],
)
def test_bad_input(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        diagnose(usfa.load("trip"), **{"task": [1, 0], **arguments})


def test_one_rule_need_not_be_a_list(ring_agent):
    for rule in ("follow", Script(RIGHT)):
        found = diagnose(ring_agent(), [1.0, 0.0], rules=rule, episodes=1)
        assert found.actors.name.tolist()[:-2] == [rule if isinstance(rule, str) else "script"]


def test_a_uvfa_has_nothing_to_compare():
    sentence = r"^A UVFA has no policies to compare; expected an agent with successor features\.$"
    with pytest.raises(InputError, match=sentence):
        diagnose(untrained("uvfa"), [1, 0])


def test_modules_of_strangers_are_not_imported():
    agent = usfa.load("trip")
    stranger = TrainedAgent(replace(agent.file, environment="payload:Env-v0"), agent.network.state_dict(), 0)
    with pytest.raises(InputError, match=r"would import and run the module 'payload'"):
        diagnose(stranger, [1, 0])

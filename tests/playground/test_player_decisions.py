"""Players decide as the library's own policy does, and show the numbers of that decision."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import usfa
from usfa.agents import AgentFile, TrainedAgent, exact_sf_gpi
from usfa.decisions import Decision, Follow, parse_rule
from usfa.environments import trip_mdp
from usfa.playground.catalogue import make_view
from usfa.playground.player import Player, decide, rule_choices


def player_of(agent, w, candidates=None, seed=0, rule=None):
    return Player("agent", agent, make_view(agent), np.array(w, np.float64), candidates, rule, seed)


def decision_of(player):
    decide([player])
    return player.decision


def decisions_of(players):
    """All in one call."""
    decide(players)
    return [player.decision for player in players]


@pytest.fixture(params=["small", "small-uvfa"])
def room_agent(request, catalogue):
    return catalogue[request.param]


@pytest.mark.parametrize("rule", [None, "gpi", "follow", "cautious:0.5"])
def test_the_player_does_what_the_policy_does(room_agent, rule):
    w = [1.0, -0.5, 0.2, 0.0]
    player, policy = player_of(room_agent, w, seed=5, rule=rule), room_agent.policy(w, rule=rule)
    improved = 0
    for _ in range(15):
        expected = policy(player.view.observation)
        decision = decision_of(player)
        reference = policy.decision
        assert decision.action == expected
        assert (decision.trusted, decision.improved) == (int(reference.policy), bool(reference.improved))
        np.testing.assert_allclose(decision.q, reference.q[0].numpy(), rtol=1e-4, atol=1e-6)
        improved += decision.improved
        player.act()
    assert player.frame().step == 15
    assert player.frame().improved == improved


def test_a_new_episode_forgets_the_old(catalogue):
    agent = catalogue["small"]
    player = player_of(agent, [1, 0, 0, 0])
    first = decision_of(player).q
    for _ in range(5):
        decision_of(player)
        player.act()
    assert not np.allclose(decision_of(player).q, first)
    player.reset(0)
    np.testing.assert_allclose(decision_of(player).q, first, rtol=1e-5)


def test_values_trust_and_psi_belong_together(catalogue):
    agent = catalogue["small"]
    w = np.array([0.7, -1.0, 0.3, 0.1])
    player = player_of(agent, w, "train+task", rule="gpi")
    decision = decision_of(player)
    psi = agent.successor_features(player.view.observation, player.candidate_set.z)  # [N, A, D]
    q = psi @ w
    np.testing.assert_allclose(decision.q, q.max(axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(decision.values, q.max(axis=1), rtol=1e-4, atol=1e-6)
    assert decision.trusted == q.max(axis=1).argmax()
    assert decision.action == q.max(axis=0).argmax()
    np.testing.assert_allclose(decision.psi, psi[decision.trusted, decision.action], rtol=1e-4, atol=1e-6)
    assert decision.psi @ w == pytest.approx(decision.q[decision.action], rel=1e-4)


@pytest.mark.parametrize("rule", ["follow", "cautious", "cautious:0"])
def test_other_rules_show_what_following_is_worth_less_doubt(catalogue, rule):
    agent = catalogue["small"]
    w = np.array([0.7, -1.0, 0.3, 0.1])
    player = player_of(agent, w, "train+task", rule=rule)
    decision = decision_of(player)
    candidates = agent.candidates(w, "train+task", np.random.default_rng(0))
    psi = agent.successor_features(player.view.observation, candidates.z)  # [N, A, D]
    own = np.einsum("nad,nd->na", psi, candidates.z).argmax(axis=1)
    own_psi = psi[np.arange(len(own)), own]
    doubt = candidates.optimism * (np.abs(own_psi) @ np.abs(w)) * (rule != "cautious:0")
    np.testing.assert_allclose(decision.values, own_psi @ w - doubt, rtol=1e-4, atol=1e-6)
    if not decision.improved:
        assert decision.trusted == decision.values.argmax()
        assert decision.action == own[decision.trusted]


def test_follow_never_improves(catalogue):
    player = player_of(catalogue["small"], [-1, 1, 0, 0], "sample:5", rule="follow")
    for _ in range(10):
        assert not decision_of(player).improved
        player.act()
    assert player.improved == 0


def test_together_is_as_alone(catalogue):
    """Different agents, rules, sizes of C and ages in one call."""
    players = [
        player_of(catalogue["small"], [1, 0, 0, 0], "task"),
        player_of(catalogue["small-uvfa"], [0, 1, 0, -1]),
        player_of(catalogue["small"], [1, 1, -1, 0], "sample:30", seed=3),
        player_of(catalogue["small"], [0, 1, 0, 0], [[1, 0, 0, 0], [0, 0, 0, 1]], seed=4),
        player_of(catalogue["small"], [-1, 1, 0, 0], "sample:5", rule="gpi"),
        player_of(catalogue["small"], [-1, 1, 0, 0], "train", rule="follow"),
        player_of(catalogue["small"], [-1, 1, 0, 0], "train+task", rule="gpi", seed=4),
    ]
    for player in players[1:3]:
        decision_of(player)
        player.act()
    together = decisions_of(players)
    for player, shared in zip(players, together, strict=True):
        alone = decision_of(player)
        outcomes = [(one.action, one.trusted, one.improved) for one in (shared, alone)]
        assert outcomes[0] == outcomes[1]
        assert shared.values.shape == (len(player.candidate_set.z),)
        np.testing.assert_allclose(shared.q, alone.q, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(shared.values, alone.values, rtol=1e-4, atol=1e-6)
        for mine, other in zip(shared.memory, alone.memory, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


def test_one_network_call_serves_all_rules_of_an_agent(catalogue, monkeypatch):
    agent = catalogue["small"]
    calls, situation = [], agent.actor.situation
    monkeypatch.setattr(agent.actor, "situation", lambda *inputs: calls.append(inputs) or situation(*inputs))
    players = [player_of(agent, [1, 0, 0, 0], "train", rule=rule) for rule in ("gpi", "follow", "cautious")]
    decisions_of(players)
    assert len(calls) == 1


class LastSeen(Follow):
    """Counts its decisions in its state, and returns the size of C as q."""

    def decide(self, situation):
        batch, size = situation.z.shape[:2]
        before = torch.zeros(batch, 1) if situation.state is None else situation.state[0]
        decision = super().decide(situation)
        return Decision(*decision[:3], torch.full_like(decision.q, size), (before + 1,))


def test_a_rules_memory_is_carried_by_each_player_and_ends_with_the_episode(catalogue, monkeypatch):
    monkeypatch.setattr("usfa.playground.player.parse_rule", lambda name: LastSeen())
    old, new = (player_of(catalogue["small"], [1, 0, 0, 0], "train") for _ in range(2))
    for expected in (1, 2, 3):
        assert decision_of(old).rule_state[0].tolist() == [[expected]]
        assert decision_of(old).rule_state[0].tolist() == [[expected]]  # asked twice, acted once
        old.act()
    old.set_task(np.array([0.0, 1.0, 0.0, 0.0]))  # the same episode
    together = decisions_of([old, new])
    assert [decision.rule_state[0].tolist() for decision in together] == [[[4]], [[1]]]
    old.reset(0)
    assert decision_of(old).rule_state[0].tolist() == [[1]]
    old.act()
    old.set_candidates("task")  # its memory was about other policies
    assert decision_of(old).rule_state[0].tolist() == [[1]]


def test_padding_reaches_the_network_but_no_rule(catalogue, monkeypatch):
    monkeypatch.setattr("usfa.playground.player.parse_rule", lambda name: LastSeen())
    sets = ("task", "train", "sample:30")
    players = [player_of(catalogue["small"], [1, 0, 0, 0], candidates) for candidates in sets]
    decisions = decisions_of(players)
    assert [decision.q[0] for decision in decisions] == [1, 2, 30]


def test_rules_are_offered_where_they_differ(catalogue):
    assert rule_choices(catalogue["small"]) == ["cautious", "steady", "gpi", "follow"]
    assert rule_choices(catalogue["small-uvfa"]) == []
    for rule in rule_choices(catalogue["small"]):
        assert parse_rule(rule) is not None


def test_illegal_actions_are_neither_valued_nor_taken():
    agent = usfa.load("trip")
    player = player_of(agent, [-1, -1])
    for _ in range(2):
        decision = decision_of(player)
        assert player.view.legal[decision.action]
        assert (np.isneginf(decision.q) == ~player.view.legal).all()
        assert np.isfinite(decision.values).all()
        player.act()


def test_exact_tables_explain_themselves_too():
    mdp, tasks = trip_mdp(), torch.eye(2, dtype=torch.float64)
    actor, tables = exact_sf_gpi(mdp, tasks)
    file = replace(usfa.load("trip").file, kind='sf-gpi-tables{"policies": 2}', spec=actor.spec, policies="train")
    assert isinstance(file, AgentFile)
    agent = TrainedAgent(file, tables.state_dict(), 0)
    player = player_of(agent, [0.6, 0.8])
    decision = decision_of(player)
    np.testing.assert_allclose(decision.psi @ player.w, decision.q.max(), rtol=1e-6)
    assert decision.action == agent.policy([0.6, 0.8])(0, legal=player.view.legal)
    assert rule_choices(agent) == ["gpi", "follow"]


def test_no_players_no_decisions():
    decide([])

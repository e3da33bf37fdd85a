"""What is shown is what decides: the same numbers, from the same call, as the library's own policy."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import usfa
from usfa.agents import AgentFile, TrainedAgent, exact_sf_gpi
from usfa.decisions import Decision, Follow, parse_rule
from usfa.environments import trip_mdp
from usfa.playground.player import Player
from usfa.playground.repertoire import rule_choices
from usfa.playground.thoughts import think
from usfa.playground.worlds import make_world


def player_of(agent, w, candidates=None, seed=0, rule=None):
    return Player(agent, make_world(agent), np.array(w, np.float64), candidates, seed, rule)


def thought_of(player):
    (player.thought,) = think([player.question()])
    return player.thought


@pytest.fixture(params=["small", "small-uvfa"])
def room_agent(request, repertoire):
    return repertoire[request.param]


@pytest.mark.parametrize("rule", [None, "gpi", "follow", "cautious:0.5"])
def test_the_player_does_what_the_policy_does(room_agent, rule):
    w = [1.0, -0.5, 0.2, 0.0]
    player, policy = player_of(room_agent, w, seed=5, rule=rule), room_agent.policy(w, rule=rule)
    improved = 0
    for _ in range(15):
        expected = policy(player.world.observation)
        thought = thought_of(player)
        decision = policy.decision
        assert thought.action == expected
        assert (thought.trusted, thought.improved) == (int(decision.policy), bool(decision.improved))
        np.testing.assert_allclose(thought.q, decision.q[0].numpy(), rtol=1e-4, atol=1e-6)
        improved += thought.improved
        player.act()
    assert player.moment().step == 15
    assert player.moment().improved == improved


def test_a_new_episode_forgets_the_old(repertoire):
    agent = repertoire["small"]
    player = player_of(agent, [1, 0, 0, 0])
    first = thought_of(player).q
    for _ in range(5):
        thought_of(player)
        player.act()
    assert not np.allclose(thought_of(player).q, first)
    player.reset(0)
    np.testing.assert_allclose(thought_of(player).q, first, rtol=1e-5)


def test_values_trust_and_psi_belong_together(repertoire):
    agent = repertoire["small"]
    w = np.array([0.7, -1.0, 0.3, 0.1])
    player = player_of(agent, w, "train+task", rule="gpi")
    thought = thought_of(player)
    psi = agent.successor_features(player.world.observation, player.z)  # [N, A, D]
    q = psi @ w
    np.testing.assert_allclose(thought.q, q.max(axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(thought.values, q.max(axis=1), rtol=1e-4, atol=1e-6)
    assert thought.trusted == q.max(axis=1).argmax()
    assert thought.action == q.max(axis=0).argmax()
    np.testing.assert_allclose(thought.psi, psi[thought.trusted, thought.action], rtol=1e-4, atol=1e-6)
    assert thought.psi @ w == pytest.approx(thought.q[thought.action], rel=1e-4)


@pytest.mark.parametrize("rule", ["follow", "cautious", "cautious:0"])
def test_other_rules_show_what_following_is_worth_less_doubt(repertoire, rule):
    agent = repertoire["small"]
    w = np.array([0.7, -1.0, 0.3, 0.1])
    player = player_of(agent, w, "train+task", rule=rule)
    thought = thought_of(player)
    candidates = agent.candidates(w, "train+task", np.random.default_rng(0))
    psi = agent.successor_features(player.world.observation, candidates.z)  # [N, A, D]
    own = np.einsum("nad,nd->na", psi, candidates.z).argmax(axis=1)
    own_psi = psi[np.arange(len(own)), own]
    doubt = candidates.optimism * (np.abs(own_psi) @ np.abs(w)) * (rule != "cautious:0")
    np.testing.assert_allclose(thought.values, own_psi @ w - doubt, rtol=1e-4, atol=1e-6)
    if not thought.improved:
        assert thought.trusted == thought.values.argmax()
        assert thought.action == own[thought.trusted]


def test_follow_never_improves(repertoire):
    player = player_of(repertoire["small"], [-1, 1, 0, 0], "sample:5", rule="follow")
    for _ in range(10):
        assert not thought_of(player).improved
        player.act()
    assert player.improved == 0


def test_together_is_as_alone(repertoire):
    """Different agents, rules, sizes of C and ages in one call."""
    players = [
        player_of(repertoire["small"], [1, 0, 0, 0], "task"),
        player_of(repertoire["small-uvfa"], [0, 1, 0, -1]),
        player_of(repertoire["small"], [1, 1, -1, 0], "sample:30", seed=3),
        player_of(repertoire["small"], [0, 1, 0, 0], [[1, 0, 0, 0], [0, 0, 0, 1]], seed=4),
        player_of(repertoire["small"], [-1, 1, 0, 0], "sample:5", rule="gpi"),
        player_of(repertoire["small"], [-1, 1, 0, 0], "train", rule="follow"),
        player_of(repertoire["small"], [-1, 1, 0, 0], "train+task", rule="gpi", seed=4),
    ]
    for player in players[1:3]:
        thought_of(player)
        player.act()
    together = think([player.question() for player in players])
    for player, shared in zip(players, together, strict=True):
        alone = thought_of(player)
        told = [(thought.action, thought.trusted, thought.improved) for thought in (shared, alone)]
        assert told[0] == told[1]
        assert shared.values.shape == (len(player.z),)
        np.testing.assert_allclose(shared.q, alone.q, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(shared.values, alone.values, rtol=1e-4, atol=1e-6)
        for mine, other in zip(shared.memory, alone.memory, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


def test_one_network_call_serves_all_rules_of_an_agent(repertoire, monkeypatch):
    agent = repertoire["small"]
    calls, situation = [], agent.actor.situation
    monkeypatch.setattr(agent.actor, "situation", lambda *inputs: calls.append(inputs) or situation(*inputs))
    players = [player_of(agent, [1, 0, 0, 0], "train", rule=rule) for rule in ("gpi", "follow", "cautious")]
    think([player.question() for player in players])
    assert len(calls) == 1


class LastSeen(Follow):
    """Remembers how many policies it had and how often it was asked; says so as q."""

    def decide(self, situation):
        batch, size = situation.z.shape[:2]
        before = torch.zeros(batch, 1) if situation.state is None else situation.state[0]
        decision = super().decide(situation)
        return Decision(*decision[:3], torch.full_like(decision.q, size), (before + 1,))


def test_a_rules_memory_is_carried_by_each_player_and_ends_with_the_episode(repertoire, monkeypatch):
    monkeypatch.setattr("usfa.playground.player.parse_rule", lambda name: LastSeen())
    old, new = (player_of(repertoire["small"], [1, 0, 0, 0], "train") for _ in range(2))
    for expected in (1, 2, 3):
        assert thought_of(old).rule_state[0].tolist() == [[expected]]
        assert thought_of(old).rule_state[0].tolist() == [[expected]]  # asked twice, acted once
        old.act()
    old.set_task(np.array([0.0, 1.0, 0.0, 0.0]))  # the same episode
    together = think([old.question(), new.question()])
    assert [thought.rule_state[0].tolist() for thought in together] == [[[4]], [[1]]]
    old.reset(0)
    assert thought_of(old).rule_state[0].tolist() == [[1]]
    old.act()
    old.choose("task")  # what it knew was about other policies
    assert thought_of(old).rule_state[0].tolist() == [[1]]


def test_padding_reaches_the_network_but_no_rule(repertoire, monkeypatch):
    monkeypatch.setattr("usfa.playground.player.parse_rule", lambda name: LastSeen())
    sets = ("task", "train", "sample:30")
    players = [player_of(repertoire["small"], [1, 0, 0, 0], candidates) for candidates in sets]
    thoughts = think([player.question() for player in players])
    assert [thought.q[0] for thought in thoughts] == [1, 2, 30]


def test_rules_are_offered_where_they_differ(repertoire):
    assert rule_choices(repertoire["small"]) == ["cautious", "gpi", "follow"]
    assert rule_choices(repertoire["small-uvfa"]) == []
    for rule in rule_choices(repertoire["small"]):
        assert parse_rule(rule) is not None


def test_illegal_actions_are_neither_valued_nor_taken():
    agent = usfa.load("trip")
    player = player_of(agent, [-1, -1])
    for _ in range(2):
        thought = thought_of(player)
        assert player.world.legal[thought.action]
        assert (np.isneginf(thought.q) == ~player.world.legal).all()
        assert np.isfinite(thought.values).all()
        player.act()


def test_exact_tables_explain_themselves_too():
    mdp, tasks = trip_mdp(), torch.eye(2, dtype=torch.float64)
    actor, tables = exact_sf_gpi(mdp, tasks)
    file = replace(usfa.load("trip").file, kind="sf-gpi-tables", spec=actor.spec, policies="train")
    assert isinstance(file, AgentFile)
    agent = TrainedAgent(file, tables, 0)
    player = player_of(agent, [0.6, 0.8])
    thought = thought_of(player)
    np.testing.assert_allclose(thought.psi @ player.w, thought.q.max(), rtol=1e-6)
    assert thought.action == agent.policy([0.6, 0.8])(0, legal=player.world.legal)
    assert rule_choices(agent) == ["gpi", "follow"]


def test_no_questions_no_thoughts():
    assert think([]) == []

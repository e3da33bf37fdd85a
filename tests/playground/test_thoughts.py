"""What is shown is what decides: the same numbers, from the same call, as the library's own policy."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import usfa
from usfa.agents import AgentFile, TrainedAgent, exact_sf_gpi
from usfa.environments import trip_mdp
from usfa.playground.player import Player
from usfa.playground.thoughts import think
from usfa.playground.worlds import make_world


def player_of(agent, w, candidates=None, seed=0):
    return Player(agent, make_world(agent), np.array(w, np.float64), candidates, seed)


def thought_of(player):
    (player.thought,) = think([player.question()])
    return player.thought


@pytest.fixture(params=["small", "small-uvfa"])
def room_agent(request, repertoire):
    return repertoire[request.param]


def test_the_player_does_what_the_policy_does(room_agent):
    w = [1.0, -0.5, 0.2, 0.0]
    player, policy = player_of(room_agent, w, seed=5), room_agent.policy(w)
    for _ in range(30):
        expected = policy(player.world.observation)
        assert thought_of(player).action == expected
        player.act()
    assert player.steps == 30


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
    player = player_of(agent, w, "train+task")
    thought = thought_of(player)
    psi = agent.successor_features(player.world.observation, player.z)  # [N, A, D]
    q = psi @ w
    np.testing.assert_allclose(thought.q, q.max(axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(thought.values, q.max(axis=1), rtol=1e-4, atol=1e-6)
    assert thought.trusted == q.max(axis=1).argmax()
    assert thought.action == q.max(axis=0).argmax()
    np.testing.assert_allclose(thought.psi, psi[thought.trusted, thought.action], rtol=1e-4, atol=1e-6)
    assert thought.psi @ w == pytest.approx(thought.q[thought.action], rel=1e-4)


def test_together_is_as_alone(repertoire):
    """Different agents, sizes of C and ages in one call."""
    players = [
        player_of(repertoire["small"], [1, 0, 0, 0], "task"),
        player_of(repertoire["small-uvfa"], [0, 1, 0, -1]),
        player_of(repertoire["small"], [1, 1, -1, 0], "sample:30", seed=3),
        player_of(repertoire["small"], [0, 1, 0, 0], [[1, 0, 0, 0], [0, 0, 0, 1]], seed=4),
    ]
    for player in players[1:3]:
        thought_of(player)
        player.act()
    together = think([player.question() for player in players])
    for player, shared in zip(players, together, strict=True):
        alone = thought_of(player)
        assert (shared.action, shared.trusted) == (alone.action, alone.trusted)
        assert shared.values.shape == (len(player.z) if shared.psi is not None else 1,)
        np.testing.assert_allclose(shared.q, alone.q, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(shared.values, alone.values, rtol=1e-4, atol=1e-6)
        for mine, other in zip(shared.memory, alone.memory, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


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


def test_no_questions_no_thoughts():
    assert think([]) == []

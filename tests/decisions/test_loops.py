"""Loops: their values, when they are given up, and that nothing changes where ψ is exact."""

import numpy as np
import pytest
import torch
from gymnasium.wrappers import TimeLimit

from exact_agents import ExactNetwork, ExactUsfa, deterministic, source_of
from fake_agents import untrained
from usfa.agents import AgentSpec
from usfa.decisions import CandidateSet, Cautious, Follow, Gpi, Loops, leaves_loops, loop_value
from usfa.decisions.loops import RETURNS, RETURNS_WITH_MEMORY
from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.evaluation.episodes import episode_batch, vector_returns
from usfa.functional import optimal_policy, successor_features
from usfa.trajectory import Present

GAMMA = 0.9


@pytest.mark.parametrize("rewards", [[1.0], [-0.5, 2.0, 0.0], [0.0, 0.0]])
def test_the_value_of_a_loop_is_its_return_forever(rewards):
    literal, weight = 0.0, 1.0
    for _ in range(1000):
        for reward in rewards:
            literal, weight = literal + weight * reward, weight * GAMMA
    assert loop_value(rewards, GAMMA) == pytest.approx(literal)


@pytest.mark.parametrize(
    ("rewards", "value"), [([1.0, -0.5], np.inf), ([0.5, -1.0], -np.inf), ([0.1, 0.2, -0.3], 0.0), ([0.0], 0.0)]
)
def test_without_discount_a_loop_is_worth_everything_or_nothing(rewards, value):
    assert loop_value(rewards, 1.0) == value


def present(observation, actions=2, memory=(), previous_action=0, first=False):
    """The state of B environments in which every action is legal."""
    batch = len(observation)
    return Present(
        torch.from_numpy(np.asarray(observation, np.float32)),
        torch.full((batch,), previous_action),
        torch.ones(batch, actions, dtype=torch.bool),
        torch.full((batch,), first),
        memory,
    )


def walk(successors, rewards, q, steps, gamma=GAMMA):
    """States and actions of an agent that is greedy for q [S, A] but for its loops, from state 0."""
    loops, state, visited = Loops(torch.ones(1, 1), gamma), 0, []
    for _ in range(steps):
        legal = loops.avoid(present(np.eye(len(q))[[state]], len(q[0])))[0]
        values = torch.tensor([q[state]])
        action = int(np.where(legal, q[state], -np.inf).argmax())
        visited.append((state, action))
        phi = np.array([[rewards[state][action]]])
        loops.add(values, np.array([action]), phi, np.zeros(1, np.bool_))
        state = successors[state][action]
    return visited


def test_an_agent_leaves_a_state_where_it_wrongly_stays():
    """Staying costs 0.01 a step, so it is worth -0.1; its estimate of 1 is wrong, and leaving promises 0.5."""
    visited = walk([[0, 1], [1, 1]], [[-0.01, 0.5], [0.0, 0.0]], [[1.0, 0.5], [0.0, 0.0]], RETURNS + 3)
    assert visited == [(0, 0)] * RETURNS + [(0, 1)] + [(1, 0)] * 2


def test_an_agent_stays_where_staying_pays_more():
    """Staying has 0.1 a step, worth 1, and leaving promises 0.5."""
    visited = walk([[0, 1], [1, 1]], [[0.1, 0.5], [0.0, 0.0]], [[0.7, 0.5], [0.0, 0.0]], 50)
    assert visited == [(0, 0)] * 50


def test_a_loop_through_several_states_is_left_where_something_else_promises_most():
    """0 → 1 → 2 → 0 costs 0.1 a step; from 1, and only from there, an action leads to the goal, 3."""
    successors = [[1, 0], [2, 3], [0, 2], [3, 3]]
    q = [[0.9, -5.0], [0.9, 0.4], [0.9, -5.0], [0.0, 0.0]]
    visited = walk(successors, [[-0.1, -0.1]] * 3 + [[0.0, 0.0]], q, 3 * RETURNS + 4)
    assert visited[-1][0] == 3
    assert visited[: 3 * RETURNS] == [(0, 0), (1, 0), (2, 0)] * RETURNS


def test_a_loop_that_was_left_is_only_entered_again_if_all_ways_lead_back():
    """0 and 1 lead to each other, and staying in 0 costs the same: when both loops are known, neither is avoided."""
    visited = walk([[0, 1], [0, 0]], [[-0.1, -0.1], [-0.1, -0.1]], [[1.0, 0.5], [1.0, 0.9]], 60)
    assert visited[:RETURNS] == [(0, 0)] * RETURNS
    around = [(0, 1), (1, 0)] * RETURNS
    assert visited[RETURNS : RETURNS + len(around)] == around
    assert (0, 0) in visited[RETURNS + len(around) :]


@pytest.mark.parametrize("optimism", [1.0, 1.02, 1.2])
def test_an_optimistic_psi_does_not_give_up_the_best_loop(optimism):
    """A ring of ten states with a reward per lap; the other actions wait a step. All values are too high alike."""
    gamma, size = 0.99, 10
    successors = [[(state + 1) % size, state, state] for state in range(size)]
    rewards = [[1.0 if state == size - 1 else 0.0, 0.0, 0.0] for state in range(size)]
    value = [gamma ** (size - 1 - state) / (1 - gamma**size) for state in range(size)]
    q = [[optimism * v, optimism * gamma * v, optimism * gamma * v] for v in value]
    visited = walk(successors, rewards, q, 200, gamma)
    assert [action for _, action in visited] == [0] * 200


def test_what_leaves_loops():
    assert leaves_loops(Gpi())
    assert leaves_loops(Cautious())
    assert not leaves_loops(Follow())  # following a policy is not improving on it


def standing_still(memories, previous_actions=(0,) * 30):
    """For every step, whether each of two actions is avoided, by an agent that takes the first for nothing."""
    loops, avoided = Loops(torch.ones(1, 1), GAMMA), []
    for memory, previous_action in zip(memories, previous_actions, strict=False):
        legal = loops.avoid(present(np.zeros((1, 3)), memory=memory, previous_action=previous_action))
        loops.add(torch.tensor([[1.0, 0.5]]), np.zeros(1, np.int64), np.zeros((1, 1)), np.zeros(1, np.bool_))
        avoided.append((~legal[0]).tolist())
    return avoided


def test_a_recurrent_agent_loops_where_its_memory_returns_as_well():
    settling = [(torch.full((1, 4), 0.5**t), torch.full((1, 4), 3 * 0.5**t)) for t in range(20)]
    settled = next(t for t in range(20) if 3 * 0.5**t < 0.01)  # rounded to 0 from here on
    steps = settled + RETURNS_WITH_MEMORY
    assert standing_still(settling) == [[False, False]] * steps + [[True, False]] * (20 - steps)


@pytest.mark.parametrize("step", [0.2, 0.02])
def test_a_recurrent_agent_that_counts_does_not_loop(step):
    assert standing_still((torch.full((1, 4), step * t),) for t in range(30)) == [[False, False]] * 30


def test_counts_are_compared_exactly():
    assert standing_still((torch.tensor([[2**30 + t]]),) for t in range(30)) == [[False, False]] * 30


def test_the_previous_action_is_part_of_what_a_recurrent_agent_knows():
    same = [(torch.ones(1, 4),)] * 3
    assert standing_still(same)[-1] == [True, False]
    assert standing_still(same, [0, 1, 2])[-1] == [False, False]


def test_the_memory_of_the_last_episode_is_not_that_of_the_next():
    """The network resets it; until then it is the old one."""
    loops = Loops(torch.ones(2, 1), GAMMA)
    for t in range(RETURNS_WITH_MEMORY + 1):
        memory = torch.tensor([[0.7], [0.0]]) if t == 0 else torch.zeros(2, 1)
        legal = loops.avoid(present(np.zeros((2, 3)), memory=(memory,), first=True))
        assert legal[0].tolist() == legal[1].tolist()
        loops.add(torch.tensor([[1.0, 0.5]] * 2), np.zeros(2, np.int64), np.zeros((2, 1)), np.zeros(2, np.bool_))
    assert legal.tolist() == [[False, True]] * 2


def test_episodes_and_environments_do_not_share_loops():
    loops = Loops(torch.ones(2, 1), GAMMA)
    now, q = present(np.ones((2, 3))), torch.tensor([[1.0, 0.5]] * 2)
    for _ in range(RETURNS + 1):
        legal = loops.avoid(now)
        loops.add(q, np.zeros(2, np.int64), np.array([[-1.0], [1.0]]), np.zeros(2, np.bool_))
    assert legal.tolist() == [[False, True], [True, True]]  # in the second, staying pays
    loops.avoid(now)
    loops.add(q, np.zeros(2, np.int64), np.array([[-1.0], [1.0]]), np.array([True, False]))
    assert loops.avoid(now)[0].all()  # a new episode


def test_an_exact_psi_is_never_overruled():
    """By the theorem of GPI, the value of its policy, hence of its loops, is at least what any action promises."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        successors = rng.integers(6, size=(6, 3)).tolist()
        mdp = deterministic(successors, rng.normal(size=(6, 3, 2)).tolist(), GAMMA)
        z, w = torch.from_numpy(rng.normal(size=(3, 2))), torch.from_numpy(rng.normal(size=2))
        psi = torch.stack([successor_features(mdp, optimal_policy(mdp, one)) for one in z])
        q = (psi @ w).amax(dim=0).float()  # [S, A]
        loops, state = Loops(w[None].float(), GAMMA), 0
        for _ in range(40):
            legal = loops.avoid(present(np.eye(6)[[state]], 3))
            assert legal.all()
            action = int(q[state].argmax())
            phi = mdp.phi[state, action, successors[state][action]].numpy()[None]
            loops.add(q[[state]], np.array([action]), phi, np.zeros(1, np.bool_))
            state = successors[state][action]


STAY_OR_LEAVE = deterministic([[0, 1], [1, 1]], [[[0.01, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]], GAMMA)
"""Staying in state 0 has 0.01 a step, worth 0.1, and leaving has 1, once."""


class FreezingNetwork(ExactNetwork):
    """ψ of staying is 50 times too large."""

    def tables(self, z):
        psi = torch.zeros(2, 2, 2)
        psi[0] = torch.tensor([[5.0, 0.0], [0.0, 1.0]])
        return psi.expand(*z.shape[:-1], 2, 2, 2)


class FreezingUsfa(ExactUsfa):
    def build_network(self):
        return FreezingNetwork(self.mdp, self.promise)


@pytest.mark.parametrize(("loop_gamma", "collected"), [(None, [0.2, 0.0]), (GAMMA, [0.01 * RETURNS, 1.0])])
def test_episodes_are_played_without_loops_if_the_discount_is_given(loop_gamma, collected):
    agent = FreezingUsfa(STAY_OR_LEAVE)
    source = source_of(STAY_OR_LEAVE, lambda env: TimeLimit(env, 20))
    w = np.array([[1.0, 1.0]])
    batch = episode_batch(source, w, CandidateSet.believed(w[:, None]), 1, np.random.default_rng(0))
    network = agent.make_network()
    found = vector_returns(agent, network, batch, Gpi(), 0.0, np.random.default_rng(0), loop_gamma=loop_gamma)
    np.testing.assert_allclose(found.undiscounted, [collected], atol=1e-6)


@pytest.fixture
def policy():
    return untrained(spec=AgentSpec(ObservationSpec((2,), 2), 3, 2)).policy([1.0, 1.0], "task", "gpi")


def test_a_policy_leaves_loops_if_it_is_given_phi(policy):
    first = policy(0)
    actions = [policy(0, phi=[-1.0, -1.0]) for _ in range(RETURNS)]
    assert actions[:-1] == [first] * (RETURNS - 1)
    assert actions[-1] != first
    policy.reset()
    assert policy(0) == first


@pytest.mark.parametrize("ended", [None, [True, True]])
def test_loops_are_left_in_every_episode_of_a_batch(policy, ended):
    first = policy([0, 0])
    for _ in range(2):
        policy.reset(ended)
        policy([0, 0])
        last = [policy([0, 0], phi=[[-1.0, -1.0]] * 2) for _ in range(RETURNS)][-1]
        assert (last != first).all()


def test_a_recurrent_policy_leaves_loops_if_it_is_given_phi():
    spec = AgentSpec(ObservationSpec((2,), 2), 3, 2)
    policy = untrained(spec=spec, memory=4).policy([1.0, 1.0], "task", "gpi")
    actions = [policy(0)] + [policy(0, phi=[-1.0, -1.0]) for _ in range(100)]
    assert len(set(actions)) > 1
    policy.reset()
    assert len({policy(0) for _ in range(100)}) == 1


def test_a_policy_that_is_followed_keeps_its_loops(policy):
    policy.rule = "follow"
    first = policy(0)
    assert [policy(0, phi=[-1.0, -1.0]) for _ in range(2 * RETURNS)] == [first] * 2 * RETURNS


def test_a_policy_without_phi_follows_its_rule(policy):
    first = policy(0)
    assert [policy(0) for _ in range(2 * RETURNS)] == [first] * 2 * RETURNS


def test_a_step_without_phi_starts_anew(policy):
    first = policy(0)
    for _ in range(3):  # episodes without reset()
        actions = [policy(0, phi=[-1.0, -1.0]) for _ in range(RETURNS)]
        assert actions[:-1] == [first] * (RETURNS - 1)
        assert actions[-1] != first
        assert policy(0) == first


def test_another_task_has_other_loops(policy):
    for step in range(RETURNS):
        policy(0, phi=None if step == 0 else [-1.0, -1.0])
    policy.task = [1.0, 1.1]
    first = policy(0, phi=[-1.0, -1.0])
    assert [policy(0, phi=[-1.0, -1.0]) for _ in range(RETURNS - 1)] == [first] * (RETURNS - 1)


def test_environments_of_a_batch_leave_loops_on_their_own(policy):
    first = policy([0, 0])
    rewards = [[-1.0, -1.0], [1.0, 1.0]]
    last = [policy([0, 0], phi=rewards) for _ in range(RETURNS)][-1]
    assert last[0] != first[0]
    assert last[1] == first[1]


@pytest.mark.parametrize("phi", [[1.0], "text", [np.nan, 0.0], [[1.0, 0.0]] * 2])
def test_wrong_features_are_refused_in_a_sentence(policy, phi):
    policy(0)
    with pytest.raises(InputError, match=r"phi is .*; expected 2 numbers, the features of the last step"):
        policy(0, phi=phi)

import gymnasium as gym
import numpy as np
import pytest
import torch

from fake_environments import SavableWalk, Scripted
from random_mdps import random_mdp
from usfa.agents import AgentSpec, exact_sf_gpi, make_agent
from usfa.environments import EnvironmentBatch, EnvironmentSource, ObservationSpec, TabularEnv, Trip, make, trip_mdp
from usfa.errors import InputError
from usfa.evaluation import exact_mdp, exact_scores
from usfa.evaluation.episodes import EpisodeBatch, episode_returns, vector_returns
from usfa.evaluation.exact import greedy_tables
from usfa.evaluation.scoring import ScoringProtocol, score
from usfa.functional import optimal_return
from usfa.networks import NetworkConfig, select_run, stack_runs

SPEC = AgentSpec(ObservationSpec((2,), 2), 8, 2)
W = np.array([[1.0, 0.0], [0.7, 0.7], [-1.0, 0.5], [0.3, 0.9], [-0.2, -0.4]])


def random_agents(kind, runs, spec=SPEC):
    """Untrained agents: their greedy policies are arbitrary, which is what a check of scores wants."""
    agent = make_agent(kind, spec, NetworkConfig(trunk=(16,), embedding=(8,), head=(16,)))
    drawn = [agent.initial_parameters(torch.Generator().manual_seed(seed)) for seed in range(runs)]
    return agent, stack_runs([{name: 3 * x for name, x in run.items()} for run in drawn])


def batch_of(create, size):
    return EnvironmentBatch([create() for _ in range(size)], 1.0, range(size))


def random_candidates(runs, count=3):
    return np.random.default_rng(0).standard_normal((runs, len(W), count, 2))


def one_episode(agent, parameters, w, z):
    """The greedy policy on one task, step by step in the environment."""
    env = Trip()
    state, info = env.reset(seed=0)
    total, terminated = 0.0, False
    while not terminated:
        observation = torch.eye(2)[int(state)][None]
        present = agent.at_start(observation)
        legal = torch.from_numpy(info["action_mask"]).bool()[None]
        present = present._replace(legal=legal)
        task, policies = torch.from_numpy(w).float()[None], torch.from_numpy(z).float()[None]
        action, _ = agent.act(parameters, present, task, policies)
        state, phi, terminated, _, info = env.step(int(action))
        total += phi @ w
    return total


@pytest.mark.parametrize("kind", ["usfa", "uvfa"])
@pytest.mark.parametrize("runs", [1, 8])
def test_scores_are_what_the_greedy_policy_collects(kind, runs):
    agent, parameters = random_agents(kind, runs)
    z = random_candidates(runs)
    scores = exact_scores(agent, parameters, trip_mdp(), W, z)
    assert scores.shape == (runs, len(W))
    for run, task in np.ndindex(runs, len(W)):
        expected = one_episode(agent, select_run(parameters, run), W[task], z[run, task])
        assert scores[run, task] == pytest.approx(expected, abs=1e-12)
    if runs > 1:
        assert len(np.unique(scores.round(6), axis=0)) > 2  # the agents do different things


def test_episodes_agree_with_exact_scores_in_a_deterministic_mdp():
    agent, parameters = random_agents("usfa", 4)
    z = random_candidates(4)
    scores = exact_scores(agent, parameters, trip_mdp(), W, z)
    for run in range(4):
        batch, rng = batch_of(Trip, len(W)), np.random.default_rng(run)
        returns = episode_returns(agent, select_run(parameters, run), EpisodeBatch(batch, W, z[run]), 0.0, rng)
        np.testing.assert_allclose(returns, scores[run], atol=1e-6)


def test_mean_of_episodes_comes_to_the_exact_score_in_a_random_mdp():
    """γ = 1 and terminations; 400 episodes, within 5 standard errors."""
    mdp = random_mdp(np.random.default_rng(5), 4, 3, 2, 1.0)
    spec = AgentSpec(ObservationSpec((4,), 4), 3, 2)
    agent, parameters = random_agents("usfa", 1, spec)
    w, z = W[1:3], random_candidates(1)[:, 1:3]
    names = (tuple("abcd"), tuple("xyz"))
    returns = episode_returns(
        agent,
        select_run(parameters, 0),
        EpisodeBatch(batch_of(lambda: TabularEnv(mdp, *names), 800), np.tile(w, (400, 1)), np.tile(z[0], (400, 1, 1))),
        0.0,
        np.random.default_rng(0),
    ).reshape(400, 2)
    assert returns.std(axis=0).min() > 0.1
    scores = exact_scores(agent, parameters, mdp, w, z)[0]
    assert (np.abs(returns.mean(axis=0) - scores) < 5 * returns.std(axis=0) / 20).all()


def test_exploration_lowers_the_score_of_a_good_policy():
    actor, tables = exact_sf_gpi(trip_mdp(), torch.eye(2, dtype=torch.float64))
    w, z = np.tile([[1.0, 0.0]], (200, 1)), np.tile(np.eye(2), (200, 1, 1))
    greedy = episode_returns(actor, tables, EpisodeBatch(batch_of(Trip, 200), w, z), 0.0, np.random.default_rng(0))
    random = episode_returns(actor, tables, EpisodeBatch(batch_of(Trip, 200), w, z), 1.0, np.random.default_rng(0))
    assert greedy.tolist() == [1.0] * 200
    # C 1, F 0, and E: -0.05 plus the mean of cos kπ/12.
    expected = (1 + 0 - 0.05 + np.cos(np.arange(7) * np.pi / 12).mean()) / 3
    assert abs(random.mean() - expected) < 5 * random.std() / 200**0.5


def test_episodes_repeat_with_their_generator():
    agent, parameters = random_agents("usfa", 1)
    runs = [
        episode_returns(
            agent,
            select_run(parameters, 0),
            EpisodeBatch(batch_of(Trip, len(W)), W, random_candidates(1)[0]),
            0.7,
            np.random.default_rng(s),
        )
        for s in (1, 1, 2)
    ]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_an_episode_without_end_is_cut_and_counts_with_what_it_has_collected():
    agent, parameters = random_agents("usfa", 1, AgentSpec(ObservationSpec((2,)), 3, 2))
    w, z = np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros((2, 1, 2))
    without_end, short = [([1.0, 2.0], "")] * 60, [([1.0, 2.0], "")] * 2 + [([1.0, 2.0], "terminated")]
    batch = EnvironmentBatch([Scripted([without_end]), Scripted([short])], 1.0, [0, 1])
    sentence = "^1 of 2 episodes had not ended after 50 steps and were cut there; expected an environment with a time"
    with pytest.warns(UserWarning, match=sentence):
        found = vector_returns(
            agent, select_run(parameters, 0), EpisodeBatch(batch, w, z), 0.0, np.random.default_rng(0), 0.9, patience=50
        )
    assert found.undiscounted.tolist() == [[50, 100], [3, 6]]
    assert found.discounted[:, 0] == pytest.approx([(1 - 0.9**50) / 0.1, 2.71])


def test_truncated_episodes_count_with_what_they_collected():
    agent, parameters = random_agents("usfa", 1, AgentSpec(ObservationSpec((5,), 5), 2, 2))
    w, z = np.tile([[1.0, 0.0]], (50, 1)), np.zeros((50, 1, 2))
    batch = batch_of(SavableWalk, 50)
    returns = episode_returns(
        agent, select_run(parameters, 0), EpisodeBatch(batch, w, z), 1.0, np.random.default_rng(0)
    )
    assert set(returns.tolist()) == {0.0, 1.0}  # cut off, or at the edge


def test_only_the_first_episode_counts():
    """A short episode is over long before its neighbour's; what comes after it must not count."""
    short = Scripted([[([1, 0], "terminated")], [([100, 0], "terminated")]])
    long = Scripted([[([0, 1], "")] * 5 + [([0, 1], "truncated")]])
    batch = EnvironmentBatch([short, long], 1.0, [0, 1])
    agent, parameters = random_agents("usfa", 1, AgentSpec(ObservationSpec((2,)), 3, 2))
    w, z = np.ones((2, 2)), np.zeros((2, 1, 2))
    returns = episode_returns(
        agent, select_run(parameters, 0), EpisodeBatch(batch, w, z), 0.0, np.random.default_rng(0)
    )
    assert returns.tolist() == [1.0, 6.0]


def test_tasks_of_another_length_are_refused():
    agent, parameters = random_agents("usfa", 1)
    with pytest.raises(InputError, match=r"^The environment has 1 features; the agent's tasks have 2 entries\.$"):
        episode_returns(
            agent,
            select_run(parameters, 0),
            EpisodeBatch(batch_of(lambda: make("one-state"), len(W)), W, random_candidates(1)[0]),
            0.0,
            np.random.default_rng(0),
        )


def test_exact_sf_gpi_is_optimal_on_its_training_tasks_only():
    mdp = trip_mdp()
    actor, tables = exact_sf_gpi(mdp, torch.eye(2, dtype=torch.float64))
    w = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
    stacked = {name: x[None] for name, x in tables.items()}
    scores = exact_scores(actor, stacked, mdp, w, np.broadcast_to(np.eye(2), (1, 3, 2, 2)).copy())[0]
    gap = optimal_return(mdp, torch.from_numpy(w)).numpy() - scores
    assert gap[:2] == pytest.approx([0, 0], abs=1e-12)
    assert gap[2] == pytest.approx(0.7 * (2**0.5 - 0.1) - 0.7)


def test_greedy_tables_are_legal():
    agent, parameters = random_agents("usfa", 3)
    policy = greedy_tables(agent, parameters, trip_mdp(), W, random_candidates(3))
    assert policy.shape == (3, len(W), 2)
    assert trip_mdp().legal[torch.arange(2), policy].all()


def test_only_environments_with_tables_have_an_exact_mdp():
    env = Trip()
    assert exact_mdp(env) is env.mdp
    assert exact_mdp(gym.wrappers.OrderEnforcing(env)) is env.mdp
    assert exact_mdp(SavableWalk()) is None


@pytest.mark.parametrize(
    "wrapped",
    [
        gym.wrappers.TimeLimit(Trip(), 1),
        gym.wrappers.FlattenObservation(Trip()),
        gym.wrappers.TransformReward(Trip(), lambda phi: 2 * phi),
    ],
    ids=["cut short", "shown otherwise", "paid otherwise"],
)
def test_tables_say_nothing_about_wrapped_environments(wrapped):
    assert exact_mdp(wrapped) is None


def test_all_tasks_meet_the_same_worlds():
    """Episode by episode, whatever the run, and other worlds in every episode."""
    asked = []

    def create_batch(seeds, gamma):
        asked.append(list(seeds))
        return EnvironmentBatch([SavableWalk() for _ in seeds], gamma, seeds)

    agent, parameters = random_agents("usfa", 2, AgentSpec(ObservationSpec((5,), 5), 2, 2))
    rngs = [np.random.default_rng(seed) for seed in (0, 1)]
    scores = score(
        agent,
        parameters,
        EnvironmentSource(SavableWalk, create_batch),
        np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
        np.zeros((2, 3, 1, 2)),
        rngs,
        ScoringProtocol(episodes=4, epsilon=0.0),
    )
    assert scores.returns.shape == (2, 4, 3)
    for seeds in asked:
        worlds = np.array(seeds).reshape(4, 3)
        assert (worlds == worlds[:, :1]).all()
        assert len(np.unique(worlds)) == 4
    assert asked[0] != asked[1]
    np.testing.assert_array_equal(scores.returns[:, :, 0], scores.returns[:, :, 1])  # the same task and world twice
    assert np.isnan(scores.optimal).all()

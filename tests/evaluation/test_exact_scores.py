import gymnasium as gym
import numpy as np
import pytest
import torch

from fake_agents import untrained
from fake_environments import SavableWalk, Scripted
from random_mdps import random_mdp
from usfa.agents import AGENTS, AgentSpec, exact_sf_gpi
from usfa.decisions import CandidateSet, Cautious, Decision, Follow, Gpi
from usfa.environments import EnvironmentBatch, EnvironmentSource, ObservationSpec, TabularEnv, Trip, make, trip_mdp
from usfa.errors import InputError
from usfa.evaluation import Scorer, ScoringProtocol, decision_tables, exact_mdp, exact_scores
from usfa.evaluation.episodes import EpisodeBatch, repeated, vector_returns
from usfa.functional import optimal_return
from usfa.networks import NetworkConfig

SPEC = AgentSpec(ObservationSpec((2,), 2), 8, 2)
W = np.array([[1.0, 0.0], [0.7, 0.7], [-1.0, 0.5], [0.3, 0.9], [-0.2, -0.4]])


def episode_returns(actor, network, batch, rule, epsilon, rng):
    """Undiscounted return Σ φ_t·w of one episode for each of B tasks -> [B]."""
    return np.einsum("bd,bd->b", vector_returns(actor, network, batch, rule, epsilon, rng).undiscounted, batch.w)


def random_agents(kind, runs, spec=SPEC):
    """Untrained agents: their greedy policies are arbitrary, which is what a check of scores wants."""
    agent = AGENTS.make(kind, spec, NetworkConfig(trunk=(16,), embedding=(8,), head=(16,)))
    networks = [agent.make_network(seed) for seed in range(runs)]
    for network in networks:
        network.load_state_dict({name: 3 * x for name, x in network.state_dict().items()})
    return agent, networks


def batch_of(create, size):
    return EnvironmentBatch([create() for _ in range(size)], 1.0, range(size))


def random_candidates(runs, count=3):
    """Policies that are doubted, each differently."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((runs, len(W), count, 2))
    horizon, gap_scale = rng.uniform([[1.0], [0.1]], [[30.0], [1.0]], (2, runs * len(W))).reshape(2, runs, len(W))
    step_error, optimism = rng.uniform(0, 0.05, (runs, len(W), 2)), rng.uniform(0, 0.5, z.shape[:-1])
    return CandidateSet(z, step_error, optimism, horizon, gap_scale)


def of(candidates, *index):
    return candidates.map(lambda values: values[index])


def scores_of_runs(agent, networks, candidates, rule):
    """Exact scores on Trip, [R, K]."""
    runs = range(len(candidates.z))
    each = [exact_scores(agent, networks[r], trip_mdp(), W, of(candidates, r), rule) for r in runs]
    return np.stack(each)


def tables_of_runs(agent, networks, candidates, rule):
    """Decisions on Trip, [R, K, S]."""
    runs = range(len(candidates.z))
    each = [decision_tables(agent, networks[r], trip_mdp(), W, of(candidates, r), rule) for r in runs]
    return torch.stack(each)


def no_policies(batch):
    return CandidateSet.believed(np.zeros((batch, 1, 2)))


def one_episode(agent, network, w, candidates, rule):
    """What a rule decides on one task, step by step in the environment."""
    env = Trip()
    state, info = env.reset(seed=0)
    total, terminated = 0.0, False
    while not terminated:
        observation = torch.eye(2)[int(state)][None]
        present = agent.at_start(observation)
        legal = torch.from_numpy(info["action_mask"]).bool()[None]
        present = present._replace(legal=legal)
        task, believed = torch.from_numpy(w).float()[None], candidates.tensors().map(lambda values: values[None])
        decision, _ = agent.act(network, present, task, believed, rule)
        state, phi, terminated, _, info = env.step(int(decision.action))
        total += phi @ w
    return total


@pytest.mark.parametrize("kind", ["usfa", "uvfa"])
@pytest.mark.parametrize("runs", [1, 8])
@pytest.mark.parametrize("rule", [Gpi(), Follow(), Cautious(), Cautious(2)], ids=lambda rule: rule.name)
def test_scores_are_what_a_rule_collects(kind, runs, rule):
    agent, networks = random_agents(kind, runs)
    candidates = random_candidates(runs)
    scores = scores_of_runs(agent, networks, candidates, rule)
    assert scores.shape == (runs, len(W))
    for run, task in np.ndindex(runs, len(W)):
        expected = one_episode(agent, networks[run], W[task], of(candidates, run, task), rule)
        assert scores[run, task] == pytest.approx(expected, abs=1e-12)
    if runs > 1:
        assert len(np.unique(scores.round(6), axis=0)) > 2  # the agents do different things


def test_episodes_agree_with_exact_scores_in_a_deterministic_mdp():
    agent, networks = random_agents("usfa", 4)
    candidates = random_candidates(4)
    for rule in (Gpi(), Follow(), Cautious()):
        scores = scores_of_runs(agent, networks, candidates, rule)
        for run in range(4):
            batch = EpisodeBatch(batch_of(Trip, len(W)), W, of(candidates, run))
            rng = np.random.default_rng(run)
            returns = episode_returns(agent, networks[run], batch, rule, 0.0, rng)
            np.testing.assert_allclose(returns, scores[run], atol=1e-6)


def test_rules_decide_differently():
    """Otherwise the checks above would say nothing about them."""
    agent, networks = random_agents("usfa", 8)
    rules = (Gpi(), Follow(), Cautious(), Cautious(2))
    tables = [tables_of_runs(agent, networks, random_candidates(8), rule) for rule in rules]
    assert len({tuple(table.flatten().tolist()) for table in tables}) == 4


def test_mean_of_episodes_comes_to_the_exact_score_in_a_random_mdp():
    """γ = 1 and terminations; 400 episodes, within 5 standard errors."""
    mdp = random_mdp(np.random.default_rng(5), 4, 3, 2, 1.0)
    spec = AgentSpec(ObservationSpec((4,), 4), 3, 2)
    agent, networks = random_agents("usfa", 1, spec)
    w, candidates = W[1:3], of(random_candidates(1), slice(None), slice(1, 3))
    names = (tuple("abcd"), tuple("xyz"))
    returns = episode_returns(
        agent,
        networks[0],
        repeated(batch_of(lambda: TabularEnv(mdp, *names), 800), w, of(candidates, 0), 400),
        Gpi(),
        0.0,
        np.random.default_rng(0),
    ).reshape(400, 2)
    assert returns.std(axis=0).min() > 0.1
    scores = exact_scores(agent, networks[0], mdp, w, of(candidates, 0), Gpi())
    assert (np.abs(returns.mean(axis=0) - scores) < 5 * returns.std(axis=0) / 20).all()


def test_exploration_lowers_the_score_of_a_good_policy():
    actor, tables = exact_sf_gpi(trip_mdp(), torch.eye(2, dtype=torch.float64))
    w, candidates = np.tile([[1.0, 0.0]], (200, 1)), CandidateSet.believed(np.tile(np.eye(2), (200, 1, 1)))
    greedy, random = (
        episode_returns(
            actor,
            tables,
            EpisodeBatch(batch_of(Trip, 200), w, candidates),
            Gpi(),
            epsilon,
            np.random.default_rng(0),
        )
        for epsilon in (0.0, 1.0)
    )
    assert greedy.tolist() == [1.0] * 200
    # C 1, F 0, and E: -0.05 plus the mean of cos kπ/12.
    expected = (1 + 0 - 0.05 + np.cos(np.arange(7) * np.pi / 12).mean()) / 3
    assert abs(random.mean() - expected) < 5 * random.std() / 200**0.5


def test_episodes_repeat_with_their_generator():
    agent, networks = random_agents("usfa", 1)
    runs = [
        episode_returns(
            agent,
            networks[0],
            EpisodeBatch(batch_of(Trip, len(W)), W, of(random_candidates(1), 0)),
            Gpi(),
            0.7,
            np.random.default_rng(s),
        )
        for s in (1, 1, 2)
    ]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_an_episode_without_end_is_cut_and_counts_with_what_it_has_collected():
    agent, networks = random_agents("usfa", 1, AgentSpec(ObservationSpec((2,)), 3, 2))
    w = np.array([[1.0, 0.0], [0.0, 1.0]])
    without_end, short = [([1.0, 2.0], "")] * 60, [([1.0, 2.0], "")] * 2 + [([1.0, 2.0], "terminated")]
    batch = EnvironmentBatch([Scripted([without_end]), Scripted([short])], 1.0, [0, 1])
    sentence = "^1 of 2 episodes were cut after 50 steps; expected an environment with a time"
    with pytest.warns(UserWarning, match=sentence):
        found = vector_returns(
            agent,
            networks[0],
            EpisodeBatch(batch, w, no_policies(2)),
            Gpi(),
            0.0,
            np.random.default_rng(0),
            0.9,
            patience=50,
        )
    assert found.undiscounted.tolist() == [[50, 100], [3, 6]]
    assert found.discounted[:, 0] == pytest.approx([(1 - 0.9**50) / 0.1, 2.71])


def test_truncated_episodes_count_with_what_they_collected():
    agent, networks = random_agents("usfa", 1, AgentSpec(ObservationSpec((5,), 5), 2, 2))
    batch = EpisodeBatch(batch_of(SavableWalk, 50), np.tile([[1.0, 0.0]], (50, 1)), no_policies(50))
    returns = episode_returns(agent, networks[0], batch, Gpi(), 1.0, np.random.default_rng(0))
    assert set(returns.tolist()) == {0.0, 1.0}  # cut off, or at the edge


def test_only_the_first_episode_counts():
    """A short episode is over long before its neighbour's; what comes after it must not count."""
    short = Scripted([[([1, 0], "terminated")], [([100, 0], "terminated")]])
    long = Scripted([[([0, 1], "")] * 5 + [([0, 1], "truncated")]])
    batch = EnvironmentBatch([short, long], 1.0, [0, 1])
    agent, networks = random_agents("usfa", 1, AgentSpec(ObservationSpec((2,)), 3, 2))
    batch = EpisodeBatch(batch, np.ones((2, 2)), no_policies(2))
    returns = episode_returns(agent, networks[0], batch, Gpi(), 0.0, np.random.default_rng(0))
    assert returns.tolist() == [1.0, 6.0]


def test_tasks_of_another_length_are_refused():
    agent, networks = random_agents("usfa", 1)
    with pytest.raises(InputError, match=r"^The environment has 1 feature; expected 2, the length of"):
        episode_returns(
            agent,
            networks[0],
            EpisodeBatch(batch_of(lambda: make("one-state"), len(W)), W, of(random_candidates(1), 0)),
            Gpi(),
            0.0,
            np.random.default_rng(0),
        )


def test_exact_sf_gpi_is_optimal_on_its_training_tasks_only():
    mdp = trip_mdp()
    actor, tables = exact_sf_gpi(mdp, torch.eye(2, dtype=torch.float64))
    w = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
    candidates = CandidateSet.believed(np.broadcast_to(np.eye(2), (3, 2, 2)).copy())
    scores = exact_scores(actor, tables, mdp, w, candidates, Gpi())
    gap = optimal_return(mdp, torch.from_numpy(w)).numpy() - scores
    assert gap[:2] == pytest.approx([0, 0], abs=1e-12)
    assert gap[2] == pytest.approx(0.7 * (2**0.5 - 0.1) - 0.7)


@pytest.mark.parametrize("rule", [Gpi(), Follow(), Cautious()], ids=lambda rule: rule.name)
def test_decisions_are_legal(rule):
    agent, networks = random_agents("usfa", 3)
    policy = tables_of_runs(agent, networks, random_candidates(3), rule)
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
    """Episode by episode, and other worlds in every episode and with every seed."""
    asked = []

    def create_batch(seeds, gamma):
        asked.append(list(seeds))
        return EnvironmentBatch([SavableWalk() for _ in seeds], gamma, seeds)

    agent = untrained(environment="fake_environments:SavableWalk", spec=AgentSpec(ObservationSpec((5,), 5), 2, 2))
    environments, tasks = EnvironmentSource(SavableWalk, create_batch), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    protocols = [ScoringProtocol(episodes=4, epsilon=0.0, seed=seed) for seed in (0, 1)]
    scores = [Scorer(environments).score(agent, tasks, np.zeros((1, 2)), Gpi(), protocol) for protocol in protocols]
    for seeds in asked:
        worlds = np.array(seeds).reshape(4, 3)
        assert (worlds == worlds[:, :1]).all()
        assert len(np.unique(worlds)) == 4
    assert asked[0] != asked[1]
    for one in scores:
        assert one.returns.shape == (4, 3)
        np.testing.assert_array_equal(one.returns[:, 0], one.returns[:, 1])  # the same task and world twice
        assert np.isnan(one.optimal).all()


# --- rules ---


class Alternating:
    """Takes action 1 on every second step, else 0: it has to remember which it is."""

    remembers = True

    def decide(self, situation):
        batch = len(situation.w)
        clock = torch.zeros(batch) if situation.state is None else situation.state[0]
        nothing = torch.zeros(batch, dtype=torch.int64)
        q = torch.zeros(batch, situation.psi.shape[-2])
        return Decision((clock % 2).long(), nothing, nothing > 0, q, (clock + 1,))


class SteppedOn(gym.Env):
    """Four steps; φ is one-hot in the action."""

    observation_space = gym.spaces.Discrete(2)
    action_space = gym.spaces.Discrete(2)
    reward_space = gym.spaces.Box(0, 1, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock, self.taken = 0, []
        return 0, {}

    def step(self, action):
        self.clock += 1
        self.taken.append(int(action))
        return 0, np.eye(2, dtype=np.float32)[action], self.clock == 4, False, {}


def test_a_rules_memory_lasts_as_long_as_an_episode():
    envs = [SteppedOn(), SteppedOn()]
    agent, networks = random_agents("usfa", 1, AgentSpec(ObservationSpec((2,), 2), 2, 2))
    batch = EpisodeBatch(EnvironmentBatch(envs, 1.0, [0, 1]), np.eye(2), no_policies(2))
    found = vector_returns(agent, networks[0], batch, Alternating(), 0.0, np.random.default_rng(0))
    assert found.undiscounted.tolist() == [[2, 2], [2, 2]]


def test_a_rule_with_memory_has_no_table():
    agent, networks = random_agents("usfa", 1)
    sentence = r"^The rule 'Alternating' has a state, so it cannot be scored exactly; set .*remembers = True, or exact"
    with pytest.raises(InputError, match=sentence):
        tables_of_runs(agent, networks, random_candidates(1), Alternating())

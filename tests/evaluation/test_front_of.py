import itertools

import gymnasium as gym
import mo_gymnasium
import numpy as np
import pandas as pd
import pytest
import torch

import usfa
from fake_agents import untrained
from fake_environments import Scripted, Walk
from usfa.agents import AGENTS, AgentFile, AgentSpec, TrainedAgent, exact_sf_gpi
from usfa.decisions import CandidateSet, Gpi
from usfa.environments import EnvironmentBatch, ObservationSpec, Trip, trip_mdp
from usfa.errors import InputError
from usfa.evaluation import (
    environment_front,
    evaluate,
    front_indicators,
    front_of,
    known_front,
    known_table,
    write_table,
)
from usfa.evaluation.episodes import EpisodeBatch, vector_returns
from usfa.functional import TabularMDP, best_utility, expected_utility, hypervolume, nondominated, optimal_return
from usfa.networks import NetworkConfig
from usfa.tasks import simplex_lattice, spread_over_simplex

pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered by casting")  # Gymnasium's, about their Box

SHORT = [([1, 0], "terminated")]
LONG = [([1, 0], ""), ([0, 1], ""), ([2, 4], "truncated")]
THREE = "1,0;0,1;0.6,0.4"  # policies, too few for all preferences, so that rules differ
NEVER = [([100, 100], "terminated")]  # what comes after the first episode must not count
PLACES = np.stack([np.cos(np.arange(7) * np.pi / 12), np.sin(np.arange(7) * np.pi / 12)], axis=-1)


@pytest.fixture(scope="module")
def agent():
    return usfa.load("trip")


@pytest.fixture(scope="module")
def expert():
    """Exact successor features of all that is worth doing in the Trip MDP: GPI over them is optimal for every w ≥ 0."""
    z = torch.from_numpy(spread_over_simplex(300, 2))
    actor, tables = exact_sf_gpi(trip_mdp(), z)
    kind = f'sf-gpi-tables{{"policies": {len(z)}}}'
    file = AgentFile(kind, actor.spec, "trip", {}, 1.0, tuple(map(tuple, z.tolist())), "train", (0,))
    return TrainedAgent(file, tables.state_dict(), 0)


@pytest.fixture
def acting_in(request):
    """An untrained agent with two features for an environment of the test's own."""

    def make(create):
        gym.register("Fronts-v0", entry_point=create)
        request.addfinalizer(lambda: gym.registry.pop("Fronts-v0", None))
        env = create()
        spec = AgentSpec(ObservationSpec.of(env.observation_space), int(env.action_space.n), 2)
        return untrained(environment="Fronts-v0", spec=spec)

    return make


def vectors(table, name):
    return table.filter(regex=rf"^{name}\d$").to_numpy()


# --- vector returns ---


def returns_of(*scripts, gamma):
    batch = EnvironmentBatch([Scripted([script, NEVER]) for script in scripts], 1.0, range(len(scripts)))
    agent = AGENTS.make(
        "usfa", AgentSpec(ObservationSpec((2,)), 3, 2), NetworkConfig(trunk=(8,), embedding=(8,), head=(8,))
    )
    network = agent.make_network()
    w, candidates = np.ones((len(scripts), 2)), CandidateSet.believed(np.zeros((len(scripts), 1, 2)))
    episodes = EpisodeBatch(batch, w, candidates)
    return vector_returns(agent, network, episodes, Gpi(), 0.0, np.random.default_rng(0), gamma)


def test_features_are_summed_with_and_without_discount():
    returns = returns_of(SHORT, LONG, gamma=0.5)
    assert returns.discounted.tolist() == [[1, 0], [1 + 0.25 * 2, 0.5 + 0.25 * 4]]
    assert returns.undiscounted.tolist() == [[1, 0], [3, 5]]


def test_discounts_are_not_rounded_to_floats():
    returns = returns_of([([1, 0], "")] * 40 + [([0, 1], "truncated")], gamma=0.99)
    np.testing.assert_allclose(returns.discounted, [[sum(0.99**t for t in range(40)), 0.99**40]], rtol=1e-14)


def test_without_discount_both_are_the_same():
    returns = returns_of(SHORT, LONG, gamma=1.0)
    assert returns.discounted.tolist() == returns.undiscounted.tolist()


# --- what the agent reaches ---


def test_a_row_for_each_preference(agent):
    front = front_of(agent, "simplex:11", "task", gamma=0.9, episodes=2)
    assert len(front) == 11
    assert vectors(front, "w").tolist() == spread_over_simplex(11, 2).tolist()
    np.testing.assert_allclose(front.utility, (vectors(front, "value") * vectors(front, "w")).sum(axis=1))
    assert front.nondominated.tolist() == nondominated(vectors(front, "value")).tolist()
    assert (front.supported <= front.nondominated).all()
    assert front["std"].tolist() == [0] * 11  # nothing is random here
    assert front.optimal.isna().all()
    assert front[["candidates", "rule", "gamma", "episodes", "epsilon"]].drop_duplicates().values.tolist() == [
        ["task", "cautious", 0.9, 2, 0.0]
    ]


def test_values_are_discounted_and_returns_are_not(agent):
    """Explore first (−0.05), then go to a place: the place is discounted."""
    front = front_of(agent, "0.5,0.5", "task", gamma=0.5)
    np.testing.assert_allclose(vectors(front, "return"), [PLACES[3] - 0.05], rtol=1e-6)
    np.testing.assert_allclose(vectors(front, "value"), [0.5 * PLACES[3] - 0.05], rtol=1e-6)


def test_utilities_agree_with_exact_scores(agent):
    w = spread_over_simplex(20, 2)
    front = front_of(agent, w)
    np.testing.assert_allclose(front.utility, evaluate(agent, w).score, atol=1e-6)
    assert front.candidates.unique().tolist() == ["train+task"]
    assert front.gamma.unique().tolist() == [agent.file.gamma]


@pytest.mark.parametrize("rule", ["gpi", "follow", "cautious:3", Gpi()])
def test_a_rule_decides_for_every_preference(agent, rule):
    w = spread_over_simplex(20, 2)
    front = front_of(agent, w, THREE, rule)
    np.testing.assert_allclose(front.utility, evaluate(agent, w, THREE, rule).score, atol=1e-6)
    assert front.rule.unique().tolist() == ["gpi" if isinstance(rule, Gpi) else rule]


def test_rules_reach_different_things(agent):
    """Otherwise the checks above would say nothing about them."""
    utilities = [front_of(agent, "simplex:20", THREE, rule).utility for rule in ("gpi", "follow", "cautious:3")]
    assert len({tuple(utility.round(4)) for utility in utilities}) > 1


@pytest.mark.parametrize(("candidates", "name"), [("sample:2", "sample:2"), (np.eye(2), "own")])
def test_fronts_follow_their_seed(agent, candidates, name):
    fronts = [front_of(agent, "simplex:20", candidates, epsilon=0.3, episodes=3, seed=seed) for seed in (0, 0, 1)]
    assert fronts[0].equals(fronts[1])
    assert not fronts[0].equals(fronts[2])
    assert fronts[0]["std"].max() > 0.01
    assert fronts[0].candidates[0] == name


def test_means_over_episodes(acting_in):
    """The walk ends at its edge sooner or later."""
    agent = acting_in(Walk)
    w = [[1.0, 0.0], [0.3, 0.7]]
    many, one = (front_of(agent, w, "task", epsilon=1.0, episodes=n, gamma=0.9) for n in (400, 1))
    assert one["std"].tolist() == [0, 0]
    assert many["std"].min() > 0.1
    assert not np.allclose(many.utility, one.utility)
    assert (vectors(many, "return")[:, 0] >= vectors(many, "value")[:, 0]).all()


def test_time_in_deep_sea_treasure_is_a_geometric_sum():
    """Each of n steps costs 1: Σ γ^t = (1 - γ^n)/(1 - γ); who never finds a treasure is cut off after 100."""
    agent = untrained(environment="deep-sea-treasure-v0", spec=AgentSpec(ObservationSpec((144,)), 4, 2))
    front = front_of(agent, "simplex:30", "task", gamma=0.99, episodes=1, epsilon=0.8)
    assert front.return2.nunique() > 3
    assert front.return2.min() >= -100
    np.testing.assert_allclose(front.value2, -(1 - 0.99**-front.return2) / (1 - 0.99))
    np.testing.assert_allclose(front.value1, front.return1 * 0.99 ** (-front.return2 - 1))


# --- what is possible ---


def test_the_known_front_of_deep_sea_treasure():
    env = mo_gymnasium.make("deep-sea-treasure-v0")
    w = spread_over_simplex(100, 2)
    front = environment_front(env, 0.99, w)
    assert front.shape == (10, 2)
    np.testing.assert_allclose(front[0], [0.7, -1])
    assert round(expected_utility(front, w), 3) == 5.563
    assert round(hypervolume(front, [0, -50]), 2) == 854.85


def tables_of_the_sea(env, gamma):
    """Deep Sea Treasure as an exact MDP: every cell of water, every action tried."""
    sea = env.unwrapped
    water = [cell for cell in np.ndindex(sea.sea_map.shape) if sea.sea_map[cell] == 0]
    transition = torch.zeros(len(water), 4, len(water), dtype=torch.float64)
    phi, discount = torch.zeros(*transition.shape, 2, dtype=torch.float64), torch.zeros_like(transition)
    for (number, cell), action in itertools.product(enumerate(water), range(4)):
        sea.current_state = np.array(cell, np.int32)
        position, reward, terminated, _, _ = sea.step(action)
        target = 0 if terminated else water.index(tuple(position))
        transition[number, action, target] = 1
        phi[number, action, target] = torch.from_numpy(reward)
        discount[number, action, target] = 0 if terminated else gamma
    start = torch.eye(len(water), dtype=torch.float64)[0]
    return TabularMDP(transition, phi, discount, torch.ones(len(water), 4, dtype=torch.bool), start)


def test_no_policy_beats_the_ceiling_of_deep_sea_treasure():
    """The exact optimum over all policies, found without the front that the environment knows."""
    env, w = mo_gymnasium.make("deep-sea-treasure-v0"), spread_over_simplex(100, 2)
    best = optimal_return(tables_of_the_sea(env, 0.99), torch.from_numpy(w)).numpy()
    np.testing.assert_allclose(best, best_utility(environment_front(env, 0.99, w), w), atol=2e-6)
    assert round(best.mean(), 3) == 5.563


def test_the_known_front_of_a_fruit_tree_is_its_fruits():
    """Depth 5, every path walked; all fruits matter, and the ceiling is that of the best ones."""
    env, gamma, w = mo_gymnasium.make("fruit-tree-v0", depth=5), 0.99, spread_over_simplex(100, 6)
    fruits = []
    for path in itertools.product(range(2), repeat=5):
        env.reset()
        *_, (_, reward, terminated, _, _) = [env.step(action) for action in path]
        assert terminated
        fruits.append(gamma**4 * reward.astype(np.float64))
    front = environment_front(env, gamma, w)
    assert front.shape == (32, 6)
    np.testing.assert_allclose(front, np.unique(fruits, axis=0), rtol=1e-6)
    assert expected_utility(front, w) == pytest.approx(4.74295, abs=5e-6)


def test_a_concave_front_is_served_at_its_ends_only():
    front = environment_front(mo_gymnasium.make("deep-sea-treasure-concave-v0"), 1.0, np.eye(2))
    table = known_table(front)
    assert vectors(table, "value").tolist() == front.tolist()
    assert vectors(table[table.supported], "value").tolist() == [[1, -1], [124, -19]]


def test_the_known_front_of_the_minecart_serves_as_well_as_its_coverage_set():
    env = mo_gymnasium.make("minecart-v0")
    w = simplex_lattice(20, 3)
    ccs = env.unwrapped.convex_coverage_set(0.98)
    assert expected_utility(environment_front(env, 0.98, w), w) == expected_utility(ccs, w)


def test_the_known_front_of_the_trip_is_what_its_tables_say(agent):
    gamma = 0.9
    expected = np.concatenate([PLACES[[0, 6]], gamma * PLACES[1:6] - 0.05])
    expected = expected[np.lexsort((expected[:, 1], expected[:, 0]))]
    front = known_front(agent, "simplex:10", gamma=gamma)
    useful = [row for row in expected if any(np.allclose(row, found) for found in front)]
    np.testing.assert_allclose(front, useful, atol=1e-12)
    assert known_front(agent).shape == (7, 2)  # without discount every place is best for someone


def test_most_environments_do_not_know_their_front(acting_in):
    agent = acting_in(lambda: Scripted([SHORT, LONG]))
    assert known_front(agent) is None
    front = front_of(agent, "simplex:5")
    assert front.optimal.isna().all()


def test_an_environment_may_know_its_coverage_set_only(acting_in):
    class Knowing(Scripted):
        def convex_coverage_set(self, gamma):
            return [[1.0, 0.0], [0.0, gamma], [0.0, 0.1]]

    assert known_front(acting_in(lambda: Knowing([SHORT])), gamma=0.5).tolist() == [[0, 0.5], [1, 0]]


def test_the_front_of_other_rewards_is_not_known():
    class Dearer(gym.Wrapper):
        reward_space = gym.spaces.Box(-np.inf, np.inf, (2,))

    assert environment_front(Dearer(Trip()), 1.0, np.eye(2)) is None
    assert environment_front(gym.wrappers.TimeLimit(Trip(), 2), 1.0, np.eye(2)) is None  # not everything is in time
    assert environment_front(gym.wrappers.OrderEnforcing(Trip()), 1.0, np.eye(2)).shape == (7, 2)


def test_an_environment_without_features_has_no_front():
    with pytest.raises(InputError, match=r"has the reward_space None; expected a Box"):
        environment_front(gym.make("CartPole-v1"), 1.0, np.eye(2))


# --- how good it is ---


def indicators_of(front, *arguments):
    return front_indicators(front, *arguments).set_index("indicator")


def test_an_optimal_agent_loses_nothing(expert):
    known = known_front(expert)
    front = front_of(expert, known=known, episodes=1)
    found = indicators_of(front, known, [0, 0])
    assert found.agent["expected utility"] == pytest.approx(found.known["expected utility"], abs=1e-6)
    assert found.agent["maximum utility loss"] < 1e-6
    assert found.best_of_set["maximum utility loss"] < 1e-6
    assert found.known["hypervolume"] == pytest.approx(hypervolume(known, [0, 0]))
    np.testing.assert_allclose(front.optimal, evaluate(expert, spread_over_simplex(100, 2)).optimal)


def test_indicators_by_hand(agent):
    w, values = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]), np.array([[2.0, 1.0], [0.0, 1.0], [1.0, 3.0]])
    known = np.array([[3.0, 1.0], [1.0, 4.0]])
    front = front_of(agent, w, episodes=1, gamma=0.5).assign(
        **{"value1": values[:, 0], "value2": values[:, 1], "utility": [2.0, 0.5, 3.0], "optimal": [3.0, 2.5, 4.0]}
    )
    table = front_indicators(front, known, "-1,0")
    assert list(table.columns) == [
        "indicator", "agent", "best_of_set", "known", "gamma", "reference", "preferences", "episodes",
    ]  # fmt: skip
    found = table.set_index("indicator")
    assert found.loc["expected utility", ["agent", "best_of_set", "known"]].tolist() == pytest.approx(
        [5.5 / 3, 7 / 3, 9.5 / 3]
    )
    assert found.loc["mean utility loss", ["agent", "best_of_set"]].tolist() == pytest.approx([4 / 3, 2.5 / 3])
    assert found.loc["maximum utility loss", ["agent", "best_of_set"]].tolist() == [2, 1]
    assert found.loc["hypervolume", ["best_of_set", "known"]].tolist() == [3 * 1 + 2 * 2, 4 * 1 + 2 * 3]
    assert found.loc["sparsity", ["best_of_set", "known"]].tolist() == [1 + 4, 4 + 9]
    assert found.reference.tolist() == ["", "", "", "-1,0", ""]
    assert found[["gamma", "preferences", "episodes"]].drop_duplicates().values.tolist() == [[0.5, 3, 1]]


def test_without_reference_and_known_front(agent):
    found = indicators_of(front_of(agent, "simplex:5"))
    assert found.agent.notna().tolist() == [True, False, False, False, False]
    assert found.best_of_set.notna().tolist() == [True, False, False, False, True]
    assert found.known.isna().all()
    assert found.preferences.tolist() == [5, 0, 0, 5, 5]


def test_known_fronts_say_nothing_about_negative_preferences(agent):
    known = known_front(agent, [[1.0, 0.0], [1.0, -1.0]])
    front = front_of(agent, [[1.0, 0.0], [1.0, -1.0]], known=known)
    assert front.optimal.isna().tolist() == [False, True]
    assert front.utility[1] == pytest.approx(1)  # it is served all the same
    found = indicators_of(front, known)
    assert found.preferences.tolist() == [2, 1, 1, 2, 2]
    assert np.isnan(found.known["expected utility"])


def test_tables_survive_a_file(agent, tmp_path):
    front = front_of(agent, "simplex:7")
    write_table(tmp_path / "front.csv", front)
    pd.testing.assert_frame_equal(front_indicators(pd.read_csv(tmp_path / "front.csv")), front_indicators(front))


# --- input ---


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"preferences": "simplex:1"}, r"^The task set is 'simplex:1'; expected simplex:N,D"),
        ({"preferences": "simplex:9,3"}, r"has 3 entries; expected 2"),
        ({"preferences": []}, r"not a list of vectors"),
        ({"gamma": 0.0}, r"^gamma is 0\.0; expected a number above 0, at most 1\.$"),
        ({"gamma": 1.1}, r"^gamma is 1\.1"),
        ({"episodes": 0}, r"^episodes is 0; expected at least 1\.$"),
        ({"epsilon": 2.0}, r"^epsilon is 2\.0; expected a number from 0 to 1\.$"),
        ({"candidates": "trian"}, r"did you mean 'train'\?"),
        ({"rule": "folow"}, r"^Unknown rule 'folow': did you mean 'follow'\?"),
        ({"rule": "single"}, r"^The rule is 'single', which is only for evaluations, in hindsight"),
        ({"known": [[1.0, 2.0, 3.0]]}, r"^The points have 3 entries and the preferences 2; expected as many\.$"),
    ],
)
def test_bad_input(agent, arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        front_of(agent, **arguments)


def test_one_feature_leaves_nothing_to_prefer():
    single = untrained(environment="one-state", spec=AgentSpec(ObservationSpec((1,), 1), 2, 1), tasks=((1.0,),))
    with pytest.raises(InputError, match=r"^The agent has 1 feature; expected at least 2 for preferences between"):
        front_of(single)


def test_reference_points_have_an_entry_per_feature(agent):
    with pytest.raises(InputError, match=r"^The reference point '0,0,0' cannot be used; expected 2 numbers"):
        front_indicators(front_of(agent, "simplex:3", episodes=1), reference="0,0,0")


def test_modules_of_strangers_are_not_imported(agent):
    stranger = TrainedAgent(
        AgentFile(**{**vars(agent.file), "environment": "payload:Env-v0"}), agent.network.state_dict(), 0
    )
    for ask in (front_of, known_front):
        with pytest.raises(InputError, match=r"would import and run the module 'payload'"):
            ask(stranger)

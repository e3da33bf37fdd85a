import io

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console

import usfa
from fake_agents import untrained
from usfa.agents import AgentFile, AgentSpec, TrainedAgent
from usfa.decisions import Decision, Follow, Gpi
from usfa.environments import ObservationSpec, trip_mdp
from usfa.errors import InputError
from usfa.evaluation import ScoringProtocol
from usfa.evaluation.score import _best_in_hindsight
from usfa.functional import optimal_return
from usfa.tasks import parse_task


@pytest.fixture(scope="module")
def agent():
    return usfa.load("trip")


@pytest.mark.parametrize(
    ("tasks", "names"),
    [
        ([0.5, -1.0], ["0.5,-1"]),
        (np.array([1.0, 0.0]), ["10"]),
        ([[1, 0], [0.5, 0.5]], ["10", "0.5,0.5"]),
        (np.eye(2), ["10", "01"]),
        ("1,0;0.5,0.5", ["10", "0.5,0.5"]),
        (["1-1", "0.5,0.5"], ["1-1", "0.5,0.5"]),
        ("trip-train", ["10", "01"]),
    ],
)
def test_tasks_come_in_many_forms(agent, tasks, names):
    assert usfa.evaluate(agent, tasks).task.tolist() == names


@pytest.mark.parametrize(
    ("candidates", "names"),
    [
        (None, ["train+task"]),
        ("task", ["task"]),
        (["task", "train", "sample:5"], ["task", "train", "sample:5"]),
        (("task", "1,0;0.5,0.5"), ["task", "1,0;0.5,0.5"]),
        (np.eye(2), ["own"]),
        ([[1.0, 0.0], [0.5, 0.5]], ["own"]),
    ],
)
def test_candidates_come_in_many_forms(agent, candidates, names):
    table = usfa.evaluate(agent, [[0.7, 0.7], [1.0, 0.0]], candidates)
    assert table.candidates.tolist() == [name for name in names for _ in range(2)]


def test_candidates_matter(agent):
    table = usfa.evaluate(agent, [0.7, 0.7], ["task", "train"])
    own = usfa.evaluate(agent, [0.7, 0.7], np.eye(2))
    assert table.score[0] > table.score[1] == own.score[0]


def test_exact_scores_come_with_the_optimum(agent):
    table = usfa.evaluate(agent, "trip-directions", "task")
    w = torch.from_numpy(np.array([parse_task(task) for task in table.task]))
    np.testing.assert_allclose(table.optimal, optimal_return(trip_mdp(), w), rtol=1e-12)
    np.testing.assert_allclose(table.gap, table.optimal - table.score)
    assert (table.gap > -1e-9).all()
    assert (table["std"] == 0).all()


def test_episodes_agree_with_exact_scores(agent):
    exact = usfa.evaluate(agent, [[0.7, 0.7], [1, -0.5]], "task", exact=True)
    played = usfa.evaluate(agent, [[0.7, 0.7], [1, -0.5]], "task", exact=False, epsilon=0.0, episodes=3)
    np.testing.assert_allclose(played.score, exact.score, atol=1e-6)
    assert played.optimal.isna().all()
    assert played.gap.isna().all()
    assert played["std"].max() < 1e-6


def test_episodes_show_how_far_they_are(agent):
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    usfa.evaluate(agent, "1,0", "task", exact=False, episodes=3, epsilon=0.5, console=console)
    assert "C = task, cautious: 3 episodes" in console.file.getvalue()
    usfa.evaluate(agent, "1,0", "train+task", "single", exact=False, episodes=3, epsilon=0.5, console=console)
    assert "C = train+task, single: 9 episodes" in console.file.getvalue()  # three for each policy alone


def test_exploration_in_episodes_has_a_spread_and_repeats(agent):
    tables = [usfa.evaluate(agent, [0.7, 0.7], exact=False, epsilon=0.5, episodes=30, seed=s) for s in (0, 0, 1)]
    assert tables[0]["std"][0] > 0.01
    assert tables[0].score[0] == tables[1].score[0] != tables[2].score[0]
    assert usfa.evaluate(agent, [0.7, 0.7], exact=False, episodes=1)["std"][0] == 0


def test_samples_follow_the_seed(agent):
    scores = [usfa.evaluate(agent, "trip-directions", "sample:2", seed=seed).score.tolist() for seed in (0, 0, 1)]
    assert scores[0] == scores[1] != scores[2]


def test_environment_arguments_of_the_agent_are_used(tiny_run):
    agent = usfa.load(tiny_run.path)
    dear = AgentFile(**{**vars(agent.file), "environment_arguments": {"exploration_cost": 0.3}})
    table = usfa.evaluate(TrainedAgent(dear, agent.network.state_dict(), 0), [0.7, 0.7])
    assert table.optimal[0] == pytest.approx(max(0.7, 0.7 * (2**0.5 - 0.6)))


def test_environments_without_tables_are_played():
    agent = untrained(environment="fake_environments:Walk", spec=AgentSpec(ObservationSpec((5,), states=5), 2, 2))
    table = usfa.evaluate(agent, [[1, 0], [0, 1]], episodes=50, trust=True)
    assert table.optimal.isna().all()
    assert 0 < table.score[0] <= 1  # how often the right edge is reached, which ends an episode
    with pytest.raises(InputError, match=r"Walk.* has no tables; expected exact=False"):
        usfa.evaluate(agent, [1, 0], exact=True, trust=True)


def test_environments_without_features_are_refused():
    agent = untrained(environment="CartPole-v1", spec=AgentSpec(ObservationSpec((4,)), 2, 2))
    with pytest.raises(InputError, match=r"has the reward_space None"):
        usfa.evaluate(agent, [1, 0])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"tasks": [1, 0, 0]}, r"has 3 entries; expected 2"),
        ({"tasks": "trip-direction"}, r"did you mean 'trip-directions'\?"),
        ({"tasks": []}, r"^Task \[\] has shape \(0,\); expected a vector"),
        ({"tasks": [[1, 0], [1]]}, r"^Task \[1\] has 1 entry; expected 2, one per feature\.$"),
        ({"tasks": [1, np.nan]}, r"holds NaN or infinity"),
        ({"candidates": "trian"}, r"did you mean 'train'\?"),
        ({"candidates": []}, r"^The candidate set is empty; expected at least one policy z\.$"),
        ({"candidates": np.zeros((0, 2))}, r"^The candidate set is empty"),
        ({"candidates": ["task", "sample:x"]}, r"needs a size from 1 to 10000"),
        ({"candidates": np.eye(3)}, r"^The candidates have shape \(3, 3\); expected \[N, 2\]"),
        ({"rules": "gpy"}, r"^Unknown rule 'gpy': did you mean 'gpi'\?"),
        ({"rules": ["gpi", "trust"]}, r"^Unknown rule 'trust'"),
        ({"rules": "cautious:abc"}, r"^The rule is 'cautious:abc'; expected a number from 0 after the colon"),
        ({"rules": "gpi:1"}, r"^The rule is 'gpi:1'; expected 'gpi', which has no setting\.$"),
        ({"rules": 3}, r"^The rule is 3; expected a name"),
        ({"rules": [3]}, r"^The rule is 3; expected a name \(cautious, steady, gpi, follow\) or an object"),
        (
            {"rules": ["gpi", "cautious", Gpi()]},
            r"^The rules are \['gpi', 'cautious', 'gpi'\]; expected each name once\.$",
        ),
        ({"rules": []}, r"^The rules are empty; expected at least one, such as 'gpi'\.$"),
        ({"episodes": 0}, r"^episodes is 0; expected at least 1\.$"),
        ({"epsilon": -0.1}, r"^epsilon is -0\.1; expected a number from 0 to 1\.$"),
    ],
)
def test_bad_input(agent, arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        usfa.evaluate(agent, **{"tasks": [1, 0], **arguments})


# --- rules ---

COLUMNS = ["candidates", "rule", "task", "score", "std", "optimal", "gap"]
MIXED = np.array([[0.7, 0.7], [1.0, -0.5], [-0.3, 1.0], [0.2, 0.9]])


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        (None, ["cautious"]),
        ("gpi", ["gpi"]),
        (["gpi", "single", "cautious:2", "follow"], ["gpi", "single", "cautious:2", "follow"]),
        ("cautious:1.0", ["cautious"]),
        (Follow(), ["follow"]),
        ((Gpi(), "follow"), ["gpi", "follow"]),
    ],
)
def test_rules_come_in_many_forms(agent, rules, names):
    table = usfa.evaluate(agent, [[0.7, 0.7], [1.0, 0.0]], ["task", "train"], rules)
    assert list(table.columns) == COLUMNS
    assert table.rule.tolist() == [name for _ in ("task", "train") for name in names for _ in range(2)]
    assert table.candidates.tolist() == [name for name in ("task", "train") for _ in names for _ in range(2)]


def test_a_table_of_many_rules_is_the_tables_of_each(agent):
    """Also where candidates are sampled and actions explored: no rule disturbs another."""
    settings = {"exact": False, "epsilon": 0.3, "episodes": 4}
    rules = ["follow", "gpi", "single", "cautious"]
    together = usfa.evaluate(agent, MIXED, "sample:4", rules, **settings)
    alone = [usfa.evaluate(agent, MIXED, "sample:4", rule, **settings) for rule in rules]
    pd.testing.assert_frame_equal(together, pd.concat(alone, ignore_index=True))
    assert len({tuple(table.score) for table in alone}) > 1


class Stubborn:
    """Always the last legal action."""

    def decide(self, situation):
        batch, actions = situation.legal.shape
        action = (situation.legal * torch.arange(actions)).argmax(dim=-1)
        nothing = torch.zeros(batch, dtype=torch.int64)
        return Decision(action, nothing, nothing > 0, torch.zeros(batch, actions))


class Named(Stubborn):
    name = "my own"


def test_a_rule_of_ones_own_has_the_name_of_its_class_or_its_own(agent):
    table = usfa.evaluate(agent, [1.0, 2.0], rules=[Stubborn(), Named()])
    assert table.rule.tolist() == ["Stubborn", "my own"]
    # Explore (action 7 in the first state), then the last of the places, where φ is (0, 1).
    assert table.score.tolist() == pytest.approx([2 - 0.05 * 3] * 2)
    played = usfa.evaluate(agent, [1.0, 2.0], rules=Stubborn(), exact=False, epsilon=0.0, episodes=1)
    assert played.score[0] == pytest.approx(table.score[0])


class SecondThoughts(Stubborn):
    """Explores, and then takes the first of the places; it knows the time by its memory only."""

    remembers = True

    def decide(self, situation):
        if situation.state is None:
            return super().decide(situation)._replace(state=(torch.ones(len(situation.w), 1),))
        decision = super().decide(situation)
        return decision._replace(action=situation.legal.int().argmax(dim=-1), state=situation.state)


def test_a_rule_with_memory_is_scored_by_episodes(agent):
    table = usfa.evaluate(agent, [[1.0, 2.0], [2.0, 1.0]], rules=[SecondThoughts(), "gpi"], epsilon=0.0, episodes=2)
    assert table.optimal.isna().tolist() == [True, True, False, False]
    assert table.score[:2].tolist() == pytest.approx([1 - 0.05 * 3, 2 - 0.05 * 3])
    with pytest.raises(InputError, match=r"^The rule 'SecondThoughts' has a state; expected exact=False\.$"):
        usfa.evaluate(agent, [1.0, 2.0], rules=SecondThoughts(), exact=True)


def test_a_rule_that_does_not_tell_of_its_memory_is_found_out(agent):
    class Silent(SecondThoughts):
        remembers = False

    for exact in (None, True):
        with pytest.raises(InputError, match=r"^The rule 'Silent' has a state, .* set .* remembers = True, or"):
            usfa.evaluate(agent, [1.0, 2.0], rules=Silent(), exact=exact)
    table = usfa.evaluate(agent, [1.0, 2.0], rules=Silent(), exact=False, epsilon=0.0, episodes=2)
    assert table.score[0] == pytest.approx(1 - 0.05 * 3)


def alone(agent, candidates):
    """Scores of each policy in C, followed by itself, on each of the mixed tasks: [K, N]."""
    sets = agent.candidates(MIXED, candidates, ScoringProtocol().rng()).z
    scores = [
        [usfa.evaluate(agent, task, policy[None], "follow").score[0] for policy in z]
        for task, z in zip(MIXED, sets, strict=True)
    ]
    return np.array(scores)


@pytest.mark.parametrize("candidates", ["task", "train", "sample:6", "1,0;0.3,0.3;-1,0.5"])
def test_single_is_the_best_policy_in_hindsight(agent, candidates):
    table = usfa.evaluate(agent, MIXED, candidates, "single")
    assert table.score.tolist() == alone(agent, candidates).max(axis=1).tolist()
    assert table.gap.tolist() == (table.optimal - table.score).tolist()
    assert table.gap.min() > -1e-9


def test_policies_alone_differ(agent):
    """Otherwise the best of them would be any of them; and the best is another one on another task."""
    scores = alone(agent, "1,0;0,1;0.5,0.5")
    assert len(set(scores.argmax(axis=1))) > 1
    assert (scores.max(axis=1) - scores.min(axis=1)).min() > 0.1


def test_single_in_episodes_is_the_policy_with_the_best_mean(agent):
    settings = {"exact": False, "episodes": 3, "epsilon": 0.0}
    table = usfa.evaluate(agent, MIXED, "1,0;0,1;0.5,0.5", "single", **settings)
    exact = usfa.evaluate(agent, MIXED, "1,0;0,1;0.5,0.5", "single")
    np.testing.assert_allclose(table.score, exact.score, atol=1e-6)
    assert table.optimal.isna().all()


def test_single_keeps_all_episodes_of_one_policy():
    """Those of the policy with the best mean, not of the best policy in every episode."""
    first, second = np.array([[1.0, 5.0], [1.0, 5.0]]), np.array([[0.0, 7.0], [9.0, 0.0]])  # [episodes, tasks]
    assert _best_in_hindsight([first, second]).tolist() == [[0.0, 5.0], [9.0, 5.0]]
    first, second = np.array([[4.0, 0.0], [4.0, 2.0]]), np.array([[0.0, 1.0], [0.0, 1.0]])
    assert _best_in_hindsight([first, second]).tolist() == [[4.0, 0.0], [4.0, 2.0]]


def test_to_a_uvfa_all_rules_are_the_same():
    agent = untrained("uvfa")
    table = usfa.evaluate(agent, MIXED, rules=["gpi", "follow", "cautious", "cautious:5", "single"])
    scores = table.score.to_numpy().reshape(5, len(MIXED))
    assert (scores == scores[0]).all()
    assert len(set(scores[0])) > 1
    assert usfa.evaluate(agent, MIXED).rule.unique().tolist() == ["gpi"]


def test_uvfa_has_its_task_only():
    agent = untrained("uvfa")
    assert usfa.evaluate(agent, [1, 0]).candidates.tolist() == ["task"]
    with pytest.raises(InputError, match=r"^candidates is 'train'; expected 'task', the only candidate set"):
        usfa.evaluate(agent, [1, 0], ["task", "train"])

import io

import numpy as np
import pytest
import torch
from rich.console import Console

import usfa
from fake_agents import untrained
from usfa.agents import AgentFile, AgentSpec, TrainedAgent
from usfa.environments import ObservationSpec, trip_mdp
from usfa.errors import InputError
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
    assert "C = task: 3 episodes" in console.file.getvalue()


def test_exploration_in_episodes_has_a_spread_and_repeats(agent):
    tables = [usfa.evaluate(agent, [0.7, 0.7], exact=False, epsilon=0.5, episodes=30, seed=s) for s in (0, 0, 1)]
    assert tables[0]["std"][0] > 0.01
    assert tables[0].score[0] == tables[1].score[0] != tables[2].score[0]
    assert usfa.evaluate(agent, [0.7, 0.7], exact=False, episodes=1)["std"][0] == 0


def test_samples_follow_the_seed(agent):
    scores = [usfa.evaluate(agent, "trip-directions", "sample:1", seed=seed).score.tolist() for seed in (0, 0, 1)]
    assert scores[0] == scores[1] != scores[2]


def test_environment_arguments_of_the_agent_are_used(tiny_run):
    agent = usfa.load(tiny_run.path)
    dear = AgentFile(**{**vars(agent.file), "environment_arguments": {"exploration_cost": 0.3}})
    table = usfa.evaluate(TrainedAgent(dear, agent.parameters, 0), [0.7, 0.7])
    assert table.optimal[0] == pytest.approx(max(0.7, 0.7 * (2**0.5 - 0.6)))


def test_environments_without_tables_are_played():
    agent = untrained(environment="fake_environments:Walk", spec=AgentSpec(ObservationSpec((5,), states=5), 2, 2))
    table = usfa.evaluate(agent, [[1, 0], [0, 1]], episodes=50, trust=True)
    assert table.optimal.isna().all()
    assert 0 < table.score[0] <= 1  # how often the right edge is reached, which ends an episode
    with pytest.raises(InputError, match=r"Walk.* has no tables; expected exact=False for it"):
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
        ({"tasks": [[1, 0], [1]]}, r"^Task \[1\] has 1 entries; expected 2, one per feature\.$"),
        ({"tasks": [1, np.nan]}, r"holds NaN or infinity"),
        ({"candidates": "trian"}, r"did you mean 'train'\?"),
        ({"candidates": []}, r"^The candidate set is empty; expected at least one policy z\.$"),
        ({"candidates": np.zeros((0, 2))}, r"^The candidate set is empty"),
        ({"candidates": ["task", "sample:x"]}, r"needs a size from 1 to 10000"),
        ({"candidates": np.eye(3)}, r"^The candidates have shape \(3, 3\); expected \[N, 2\]"),
        ({"episodes": 0}, r"^episodes is 0 and epsilon 0\.001; expected at least 1, and 0 to 1\.$"),
        ({"epsilon": -0.1}, r"^episodes is 20 and epsilon -0\.1"),
    ],
)
def test_bad_input(agent, arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        usfa.evaluate(agent, **{"tasks": [1, 0], **arguments})


def test_uvfa_has_its_task_only():
    agent = untrained("uvfa")
    assert usfa.evaluate(agent, [1, 0]).candidates.tolist() == ["task"]
    with pytest.raises(InputError, match=r"^A UVFA has no candidate set but 'task'; given was 'train'\.$"):
        usfa.evaluate(agent, [1, 0], ["task", "train"])

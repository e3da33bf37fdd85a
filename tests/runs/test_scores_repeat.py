"""`usfa evaluate` with the seed of a training run repeats the scores of its last snapshot."""

import io
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import usfa
from usfa.cli import main
from usfa.evaluation import read_scores
from usfa.runs import TrainConfig, preset, train

KEY = ["candidates", "rule", "task"]


def trained_in_a_walk(path, **network):
    """Two runs in an environment without tables, with much exploration and candidate sets of different sizes."""
    config = preset("trip-usfa")
    config = replace(
        config,
        network=replace(config.network, **network),
        environment="fake_environments:SavableWalk",
        seeds=(3, 1),
        saved_weights="fp16",
        learner=replace(config.learner, budget=12, replay_ratio=2, replay_capacity=8),
        evaluation=replace(
            config.evaluation,
            tasks=("1,0;0,1", "1,-1;0.5,0.5;-1,1"),
            candidates=("task", "train", "sample:4", "train+task"),
            snapshots=2,
            episodes=5,
            epsilon=0.3,
        ),
    )
    return train(config, path)


@pytest.fixture(scope="module")
def played_run(tmp_path_factory):
    return trained_in_a_walk(tmp_path_factory.mktemp("runs") / "walk")


@pytest.fixture(params=["exact", "episodes"])
def run(request, tiny_run, played_run):
    return {"exact": tiny_run, "episodes": played_run}[request.param]


def last_scores(run, config, seed, tasks):
    """The rows of scores.csv for one seed and set of tasks, by candidates, rule and task."""
    scores = read_scores(run.scores)
    chosen = (scores.seed == seed) & (scores.task_set == tasks) & (scores.snapshot == config.milestones[-1])
    rows = scores[chosen].set_index(KEY).sort_index()
    assert set(rows.index.unique("candidates")) == set(config.evaluation.candidates)
    assert set(rows.index.unique("rule")) == {"gpi", "cautious", "single"}
    return rows


def assert_repeated(expected, table):
    found = table.set_index(KEY).loc[expected.index]
    np.testing.assert_array_equal(found.score, expected.score)
    np.testing.assert_array_equal(found.optimal, expected.optimal)


def test_evaluate_repeats_the_last_scores_of_a_run(run):
    config = run.config(TrainConfig)
    settings = config.evaluation
    for seed in config.seeds:
        agent = usfa.load(run.path, seed)
        for tasks in settings.tasks:
            table = usfa.evaluate(
                agent,
                tasks,
                settings.candidates,
                ["gpi", "cautious", "single"],
                episodes=settings.episodes,
                epsilon=settings.epsilon,
                seed=seed,
                trust=True,
            )
            assert_repeated(last_scores(run, config, seed, tasks), table)


def test_runs_of_recurrent_agents_are_scored_with_their_loops(tmp_path):
    run = trained_in_a_walk(tmp_path / "walk", memory=4)
    config = run.config(TrainConfig)
    settings = config.evaluation
    agent, tasks = usfa.load(run.path, 3), settings.tasks[1]
    play = partial(usfa.evaluate, agent, tasks, settings.candidates, ["gpi", "cautious", "single"], seed=3, trust=True)
    table = play(episodes=settings.episodes, epsilon=settings.epsilon, break_loops=False)
    assert_repeated(last_scores(run, config, 3, tasks), table)


def test_the_command_line_repeats_the_last_scores_of_a_run(run, capsys):
    config = run.config(TrainConfig)
    settings = config.evaluation
    words = ["evaluate", str(run.path), "--candidates", *settings.candidates, "--rule", "gpi", "cautious", "single"]
    words += ["--episodes", str(settings.episodes), "--epsilon", str(settings.epsilon), "--trust", "--csv"]
    for seed in config.seeds:
        seeds = ["--seed", str(seed), "--rng", str(seed)]
        for tasks in settings.tasks:
            assert main([*words, "--task", tasks, *seeds]) == 0
            printed = io.StringIO(capsys.readouterr().out)
            table = pd.read_csv(printed, dtype=str, keep_default_na=False)
            table = table.assign(**{name: [float(x or "nan") for x in table[name]] for name in ("score", "optimal")})
            assert_repeated(last_scores(run, config, seed, tasks), table)


def test_another_seed_gives_other_scores(played_run):
    """Otherwise the tests above would show nothing about seeds."""
    config = played_run.config(TrainConfig)
    tasks = config.evaluation.tasks[1]
    expected = last_scores(played_run, config, 3, tasks)
    agent = usfa.load(played_run.path, 3)
    settings = {"episodes": 5, "epsilon": 0.3, "trust": True}
    found = usfa.evaluate(agent, tasks, "sample:4", "gpi", seed=1, **settings).set_index(KEY)
    assert (found.score != expected.score.loc[found.index]).any()

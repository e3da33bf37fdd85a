"""A treasure that ε-greedy actions never reach, and repeated ones do."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from usfa.environments import register
from usfa.learning import Learner
from usfa.learning.exploration import Exploration
from usfa.runs import build_agent, settings_for

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "studies"))
from ladder import Ladder
from mo_settings import expected_utility, preferences

sys.path.pop(0)


def heights(exponent, steps=4000):
    """Rungs reached by exploring around a policy that lets go at once."""
    exploration, rng, ladder = Exploration((1, 1), exponent), np.random.default_rng(0), Ladder(45)
    first, reached = True, [0]
    ladder.reset()
    for _ in range(steps):
        yes = np.ones((1, 1, 2), bool)
        action = exploration.actions(np.zeros((1, 1), np.int64), yes, np.array([[first]]), 0.5, [rng])
        *_, first, _, _ = ladder.step(int(action[0, 0]))
        reached.append(ladder.rung)
        if first:
            ladder.reset()
    return max(reached)


def test_only_repeated_actions_climb_a_ladder_of_45_rungs():
    assert heights(None) < 15
    assert heights(2.0) == 45


@pytest.mark.parametrize(("exponent", "low", "high"), [(None, 0.0, 0.2), (2.0, 0.95, 1.01)])
def test_the_treasure_is_learned_of_with_repeated_actions_only(exponent, low, high):
    register("ladder", Ladder)
    config = settings_for("ladder", {"rungs": 20})
    learner = replace(
        config.learner,
        environments=16,
        replay_ratio=3,
        updates_per_round=4,
        epsilon=0.3,
        epsilon_max=None,
        repeat_exponent=exponent,
        task_duration="episode",
        budget=30_000 if exponent else 5_000,
    )
    config = replace(config, learner=learner)
    trained = Learner(build_agent(config), learner, config.environments, config.tasks, (0,))
    while not trained.done:
        trained.step()
    w = preferences(2, tuning=False)
    best = (w @ np.array(Ladder(20).pareto_front(learner.gamma)).T).max(axis=1).mean()
    assert low <= expected_utility(trained, config, 0, w, 1) / best <= high

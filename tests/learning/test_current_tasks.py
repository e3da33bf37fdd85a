"""Tasks that environments keep for an episode, or have for a trajectory only."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from usfa.learning import CurrentTasks, Draws, LearnerConfig

EPISODES = LearnerConfig(tasks="simplex", task_duration="episode", environments=4, trajectory_length=5, gamma=1.0)


def current(config, runs=2):
    device = torch.device("cpu")
    return CurrentTasks(Draws(config, np.eye(3), device), config, runs, 3, device)


def rngs(seed=0, runs=2):
    return [np.random.default_rng([seed, run]) for run in range(runs)]


def test_a_task_is_kept_until_its_episode_ends():
    tasks, generators = current(EPISODES), rngs()
    before = tasks.next(generators)
    tasks.ended(np.array([], np.int64))
    assert torch.equal(tasks.next(generators), before)
    tasks.ended(np.array([1, 6, 6]))  # the second environment of the first run, the third of the second run
    changed = (tasks.next(generators) != before).any(dim=-1)
    assert changed.tolist() == [[False, True, False, False], [False, False, True, False]]


def test_by_default_every_trajectory_has_a_new_task_as_before():
    config = replace(EPISODES, task_duration="trajectory")
    tasks, generators, draws = current(config), rngs(), Draws(config, np.eye(3), torch.device("cpu"))
    same = rngs()
    for _ in range(3):
        assert torch.equal(tasks.next(generators), draws.tasks(same))
        tasks.ended(np.array([], np.int64))
    assert tasks.tensors() == {}


@pytest.mark.parametrize("gamma", [0.9, 0.98])
def test_without_an_end_tasks_change_after_the_horizon_of_the_discount(gamma):
    config = replace(EPISODES, gamma=gamma, environments=200)
    tasks, generators = current(config), rngs()
    before, changes = tasks.next(generators), 0
    for _ in range(100):
        tasks.ended(np.array([], np.int64))
        after = tasks.next(generators)
        changes += int((after != before).any(dim=-1).sum())
        before = after
    steps = 100 * config.trajectory_length * 400 / changes
    assert steps == pytest.approx(1 / (1 - gamma), rel=0.1)


def test_the_state_restores_the_tasks():
    tasks = current(EPISODES)
    tasks.next(rngs())
    tasks.ended(np.array([0]))
    other = current(EPISODES)
    for name, tensor in other.tensors().items():
        tensor.copy_(tasks.tensors()[name])
    assert torch.equal(tasks.next(rngs(1)), other.next(rngs(1)))

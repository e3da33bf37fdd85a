from dataclasses import replace

import numpy as np
import pytest

import usfa
from usfa.errors import InputError
from usfa.phi import Laplacian, LearnedPhi, NetworkFit, TaskStream
from usfa.phi.stream import _inferred


def test_phi_grows_with_tasks_that_it_cannot_express():
    stream = TaskStream("trip")
    first = stream.observe("task:10")
    assert (first.fitted, first.phi.features) == (True, 1)
    second = stream.observe("task:0.3,1")
    assert (second.fitted, second.phi.features) == (True, 2)
    third = stream.observe("task:1,-0.5", steps=60)
    assert third.phi is second.phi
    assert not third.fitted
    np.testing.assert_allclose(third.task.w @ [[1, 0], [0.3, 1]], [1, -0.5], atol=1e-5)  # in the features of φ
    assert third.task.unexplained < 1e-9
    assert (third.task.std < 1e-6).all()
    assert stream.rewards == ("task:10", "task:0.3,1", "task:1,-0.5")


def noisy_stay(observation, action, next_observation):
    """A reward with noise, which depends on nothing that φ could."""
    return float(action == 0) + 0.2 * np.random.default_rng(noisy_stay.calls.pop()).standard_normal()


noisy_stay.calls = list(range(10_000))


def test_observing_a_task_again_refines_it():
    stream = TaskStream("one-state")
    stream.observe("task:2")
    before = stream.observe(noisy_stay, steps=200)
    after = stream.observe(noisy_stay, steps=2000)
    assert after.task.std.max() < 0.6 * before.task.std.max()


def test_transitions_count_by_their_weights():
    stream = TaskStream("trip")
    phi = stream.observe("task:10").phi
    data = stream._data
    noisy = data.rewards + np.random.default_rng(0).standard_normal(data.rewards.shape).astype(np.float32)
    weighted = replace(data, rewards=noisy, weight=np.where(data.action == 0, 3, 1).astype(np.float32))
    repeated = weighted.rows(np.repeat(np.arange(len(data)), weighted.weight.astype(int)))
    repeated = replace(repeated, weight=np.ones(len(repeated), np.float32))
    np.testing.assert_allclose(_inferred(phi, weighted, 0).w, _inferred(phi, repeated, 0).w)


def test_errors_of_phi_do_not_pass_for_features(monkeypatch):
    """The second feature is hardly more than noise, and no reward tells its entry of w."""
    stream = TaskStream("trip")
    stream.observe("task:10")
    phi = LearnedPhi(stream.phi.model, replace(stream.phi.report, squared_error=(0.01,)))
    data = replace(stream._data.rows(np.arange(2)), rewards=np.float32([[0.7], [0.05]]))
    monkeypatch.setattr("usfa.phi.stream.predict", lambda model, own: np.array([[1.0, 0.001], [0.0, 0.02]]))
    np.testing.assert_allclose(_inferred(phi, data, 0).w, [0.7, 0.1], atol=0.02)


def test_a_learner_that_does_not_fit_is_refused_before_acting():
    with pytest.raises(InputError, match="observations are vectors"):
        TaskStream("trip", NetworkFit(mirrored_actions=(1, 0)))


def test_one_reward_at_a_time():
    with pytest.raises(InputError, match=r"^The rewards are \('task:10', 'task:01'\); expected one at a time\.$"):
        TaskStream("trip").observe("tasks:trip-train")
    with pytest.raises(InputError, match=r"; expected one that learns from rewards\.$"):
        TaskStream("trip", Laplacian())


def test_an_agent_acts_on_a_task_that_was_inferred_from_200_rewarded_steps(tmp_path, tiny_config):
    stream = usfa.TaskStream("trip")
    stream.observe("tasks:1,0")
    phi = stream.observe("tasks:0,1").phi
    config = usfa.TrainConfig(
        **{**vars(tiny_config), "phi": phi, "seeds": (0,), "training_tasks": phi.tasks, "checkpoint_every": 1000}
    )
    agent = usfa.load(usfa.train(config, tmp_path / "run", console=None).path)
    estimate = stream.observe("task:0.8,0.5", steps=200)
    scores = [
        usfa.evaluate(agent, [w], "task", rewards=["task:0.8,0.5"], episodes=1).score[0]
        for w in (estimate.task.w, [0.8, 0.5])
    ]
    assert scores[0] >= 0.9 * scores[1] > 0.5

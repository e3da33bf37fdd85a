"""Calls from Python with arguments that cannot be: one sentence instead of an exception from deep inside."""

import numpy as np
import pytest

import usfa
from usfa.errors import InputError
from usfa.evaluation import diagnose, front_of

TRIP = usfa.preset("trip-usfa")


@pytest.fixture(scope="module")
def agent():
    return usfa.load("trip")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda _: usfa.load(None), r"^path is None; expected the name of a shipped agent, or a directory\.$"),
        (lambda _: usfa.load("trip", seed="0"), r"has no seed '0'; expected one of \[0\]\.$"),
        (lambda _: usfa.preset(3), r"^Unknown preset 3: known are "),
        (
            lambda _: usfa.train("trip-usfa", "runs/x"),
            r"^config is 'trip-usfa'; expected a TrainConfig, such as",
        ),
        (lambda _: usfa.train(TRIP, None), r"^path is None; expected a directory for the run"),
        (lambda _: usfa.train(TRIP, "runs/x", console="x"), r"^console is 'x'; expected a rich"),
        (lambda _: usfa.train(TRIP, "runs/x", cluster="local"), r"^cluster is 'local'; expected a ClusterConfig"),
        (lambda _: usfa.evaluate("trip", [1, 0]), r"^The agent is 'trip'; expected one from usfa\.load\.$"),
        (lambda _: front_of("trip"), r"^The agent is 'trip'; expected one from usfa\.load\.$"),
        (lambda _: diagnose("trip", [1, 0]), r"^The agent is 'trip'; expected one from usfa\.load\.$"),
        (lambda agent: usfa.evaluate(agent, [1, 0], episodes="5"), r"^episodes is '5'; expected a whole number\.$"),
        (lambda agent: usfa.evaluate(agent, [1, 0], episodes=2.5), r"^episodes is 2\.5; expected a whole number\.$"),
        (lambda agent: usfa.evaluate(agent, [1, 0], epsilon="x"), r"^epsilon is 'x'; expected a finite number\.$"),
        (lambda agent: usfa.evaluate(agent, [1, 0], seed=-1), r"^seed is -1; expected a whole number from 0\.$"),
        (lambda agent: usfa.evaluate(agent, [1, 0], seed=None), r"^seed is None; expected a whole number\.$"),
        (lambda agent: front_of(agent, gamma="x"), r"^gamma is 'x'; expected a number above 0, at most 1\.$"),
        (lambda agent: agent.policy([1, 0], seed="a"), r"^seed is 'a'; expected a whole number from 0\.$"),
        (
            lambda agent: agent.policy([1, 0])((0, {"action_mask": [1] * 8}), [1] * 8),
            r"^The observation is the pair that env\.reset\(\) returns; expected its first entry\.$",
        ),
        (lambda agent: agent.policy([1, 0])([[0], [0, 1]], [1] * 8), r"^The observation is a list that is no array"),
        (lambda agent: agent.q_values(0, [1, 0], legal=[1, 0]), r"^legal is \[1, 0\]; expected 8 entries"),
        (lambda _: usfa.make(3), r"^The environment is 3; expected its name, such as 'trip'"),
        (lambda _: usfa.register(3, object), r"^The environment cannot be registered as 3; expected a new name"),
        (
            lambda _: usfa.register("new", 5),
            r"^The environment is 5; expected a class, a function",
        ),
        (lambda _: usfa.check_environment("trip", steps=10.5), r"^steps is 10\.5 and seed 0; expected whole numbers"),
        (lambda _: usfa.settings_for("trip", [1]), r"^arguments is \[1\]; expected a dict"),
        (lambda _: usfa.AGENTS.register(3, object), r"^The name of the agent is 3; expected letters"),
    ],
)
def test_a_wrong_call_is_one_sentence(agent, tmp_path, monkeypatch, call, sentence):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=sentence) as raised:
        call(agent)
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_lists_are_as_good_as_arrays(agent):
    rng = np.random.default_rng(0)
    assert agent.candidates([1, 0], "task", rng).z.tolist() == [[1, 0]]
    assert agent.distance([[0.5, 0.5]]).tolist() == agent.distance(np.array([[0.5, 0.5]])).tolist()

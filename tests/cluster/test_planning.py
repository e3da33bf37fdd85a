"""The model that predicts a cluster's speed, on cases that can be done in one's head, and against a simulation."""

import heapq
from dataclasses import replace

import pytest

from usfa.cli import main
from usfa.cluster.config import requests_per_actor
from usfa.cluster.planning import Costs, Site, actors_until, predict
from usfa.errors import InputError
from usfa.figures.cluster import plan

COSTS = Costs(frames=1000, act=0.9, send=0.1, learn=0.08, publish=0.02, trajectory_bytes=25e6, weights_bytes=1e6)
FAR = Site(gigabits=10.0)


def test_one_actor_is_as_fast_as_it_acts():
    row = predict(COSTS, FAR, [1]).iloc[0]
    assert (row.frames_per_second, row.limit, row.staleness) == (1000, "actors", 1)


@pytest.mark.parametrize(
    ("costs", "site", "limit", "at", "speed"),
    [
        (COSTS, FAR, "learner", 11, 10_000),  # a turn takes 1.1 seconds, learning 0.1 of it
        (COSTS, Site(gigabits=1.0), "network", 6, 5_000),  # 125 MB/s are 5 trajectories of 25 MB
        (replace(COSTS, weights_bytes=250e6), FAR, "network", 6, 5_000),
        (COSTS, Site(shared_cores=4), "cores", 4, 4_000 / 1.1),
        (replace(COSTS, learn=1.18), FAR, "learner", 1, 1_000 / 1.2),
    ],
)
def test_more_actors_help_until_something_else_is_the_limit(costs, site, limit, at, speed):
    assert actors_until(costs, site) == (at, limit)
    table = predict(costs, site, range(1, 1001)).set_index("actors")
    before, after = table[table.index < at], table[table.index >= at]
    assert set(before.limit) <= {"actors"}
    expected = [1000 * count / (1.0 if count == 1 else 1.1) for count in before.index]  # one alone has two in flight
    assert before.frames_per_second.tolist() == pytest.approx(expected)
    assert set(after.limit[after.index > at]) == {limit}
    assert after.frames_per_second.tolist() == pytest.approx([speed] * len(after))
    assert table.staleness[1000] == 999


def simulated(costs, actors, in_flight, trajectories=4000):
    """Event by event: actors answer their requests one by one, the learner takes the oldest answer there is."""
    act, learn = costs.act + costs.send, costs.learn + costs.publish
    free = [0.0] * actors
    answers = []
    now, rounds, staleness = 0.0, 0, []

    def ask(actor):
        free[actor] = max(free[actor], now) + act * (1 + 0.1 * (actor % 5))
        heapq.heappush(answers, (free[actor], actor, rounds))

    for actor in range(actors):
        for _ in range(in_flight):
            ask(actor)
    for _ in range(trajectories):
        arrived, actor, version = heapq.heappop(answers)
        now = max(now, arrived) + learn
        staleness.append(rounds - version)
        rounds += 1
        ask(actor)
    return costs.frames * trajectories / now, sum(staleness) / trajectories


@pytest.mark.parametrize("actors", [1, 3, 8, 20, 100])
def test_bounds_are_reached_when_events_are_simulated(actors):
    """Actors differ here by up to 40 %; the prediction takes the mean of them."""
    mean = sum(1 / (1 + 0.1 * (actor % 5)) for actor in range(actors)) / actors
    costs = replace(COSTS, act=COSTS.act / mean, send=COSTS.send / mean)
    predicted = predict(costs, FAR, [actors]).iloc[0]
    speed, staleness = simulated(COSTS, actors, requests_per_actor(actors))
    assert speed == pytest.approx(predicted.frames_per_second, rel=0.15)
    assert staleness == pytest.approx(predicted.staleness, rel=0.1, abs=0.5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Site(gigabits=0.0), "gigabits is 0.0; expected a positive number."),
        (lambda: Site(shared_cores=0), "shared_cores is 0; expected at least 1."),
    ],
)
def test_what_cannot_be(call, sentence):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == sentence


def test_the_figure_shows_every_bound():
    axes = plan(predict(COSTS, FAR, [1, 10, 100]), predict(COSTS, FAR, [1, 2])).axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["actors alone", "learner alone", "network alone", "predicted", "measured"]


def test_the_command_predicts_from_what_it_measures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("usfa.cli.plan_cluster._measured", lambda command: COSTS)
    assert main(["plan-cluster", "room-laptop", "--actors", "1", "10", "100", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "11 actors are enough: with more, the learner is the limit." in said
    assert (tmp_path / "plan.png").exists()
    assert (tmp_path / "plan.csv").read_text().splitlines()[1].startswith("1,1000.0,actors,1,")


def test_a_faster_learner_feeds_on_more_actors(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("usfa.cli.plan_cluster._measured", lambda command: COSTS)
    assert main(["plan-cluster", "room-laptop", "--learner-speedup", "4", "--out", str(tmp_path)]) == 0
    assert "26 actors are enough: with more, the learner is the limit." in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--actors", "--rounds", "--learner-speedup"])
def test_the_command_refuses_nonsense(flag, capsys):
    assert main(["plan-cluster", "room-laptop", flag, "0"]) == 2
    assert flag in capsys.readouterr().err

"""Section 4.1 and Appendix B, rule by rule, written out again."""

import math

import numpy as np
import pytest

from usfa.environments import Trip, trip_mdp
from usfa.errors import InputError


def after(actions, **arguments):
    """What the last of some actions brought: state, φ, terminated, legal actions."""
    env = Trip(**arguments)
    env.reset(seed=0)
    for action in actions:
        state, phi, terminated, _, info = env.step(env.action_names.index(action))
    return int(state), phi.tolist(), terminated, np.flatnonzero(info["action_mask"]).tolist()


def test_a_trip_starts_in_s1_with_three_choices():
    env = Trip()
    for seed in range(5):
        state, info = env.reset(seed=seed)
        assert env.state_names[state] == "s1"
        assert [env.action_names[a] for a in np.flatnonzero(info["action_mask"])] == ["C", "F", "E"]


def test_names():
    assert Trip().action_names == ("C", "P1", "P2", "P3", "P4", "P5", "F", "E")
    assert Trip(places=1).action_names == ("C", "F", "E")
    assert Trip().state_names == ("s1", "s2")


def test_coffee_and_food_end_the_trip():
    assert after("C")[1:3] == ([1.0, 0.0], True)
    _, phi, terminated, _ = after("F")
    assert phi == pytest.approx([0, 1])
    assert terminated


@pytest.mark.parametrize("cost", [0.05, 0.3, 0.0, -0.1])
def test_exploring_costs_and_shows_every_place(cost):
    state, phi, terminated, legal = after("E", exploration_cost=cost)
    assert state == 1
    assert phi == [-cost, -cost]
    assert not terminated
    assert legal == list(range(7))  # all places, and no second look around


@pytest.mark.parametrize("places", [1, 2, 5, 6, 9])
def test_places_lie_on_the_quarter_circle(places):
    names = ["C", *(f"P{k}" for k in range(1, places)), "F"]
    for k, name in enumerate(names):
        _, phi, terminated, _ = after(["E", name], places=places)
        angle = k * math.pi / (2 * places)
        assert phi == pytest.approx([math.cos(angle), math.sin(angle)], abs=1e-12)
        assert terminated


def test_sizes():
    env = Trip(places=4, exploration_cost=0.2)
    assert env.observation_space.n == 2
    assert env.action_space.n == 6
    assert env.reward_space.low.tolist() == pytest.approx([-0.2, -0.2])
    assert env.reward_space.high.tolist() == pytest.approx([1, 1])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"places": 0}, "places is 0; expected at least 1."),
        ({"exploration_cost": math.inf}, "exploration_cost is inf; expected a finite number."),
        ({"exploration_cost": math.nan}, "exploration_cost is nan; expected a finite number."),
    ],
)
def test_impossible_trips(arguments, sentence):
    for make in (trip_mdp, Trip):
        with pytest.raises(InputError) as error:
            make(**arguments)
        assert str(error.value) == sentence

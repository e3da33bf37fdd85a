"""ε-greedy exploration with repeated random actions."""

import numpy as np
import pytest

from usfa.learning.exploration import LONGEST, Exploration

GREEDY, ACTIONS = 4, 5


def play(exploration, steps, batch, epsilon=0.1, seed=0, first=None, legal=None):
    """Actions [steps, batch] of one run whose greedy action is always the last."""
    rng = np.random.default_rng(seed)
    greedy = np.full((1, batch), GREEDY)
    legal = np.ones((steps, 1, batch, ACTIONS), bool) if legal is None else legal
    first = np.zeros((steps, 1, batch), bool) if first is None else first
    taken = [exploration.actions(greedy, legal[t], first[t], epsilon, [rng]) for t in range(steps)]
    return np.stack(taken)[:, 0]


def repetitions(actions):
    """Lengths of stretches of the same action other than the greedy one."""
    lengths = []
    for column in actions.T:
        edges = np.flatnonzero(np.diff(column)) + 1
        lengths += [len(part) for part in np.split(column, edges) if part[0] != GREEDY]
    return np.array(lengths)


def test_lengths_have_the_probability_of_their_power():
    """P(n) ∝ n^-2, within 5 standard deviations; stretches rarely follow each other at ε = 0.01."""
    found = repetitions(play(Exploration((1, 500), 2.0), 2000, 500, epsilon=0.01))
    total = (np.arange(1, LONGEST + 1) ** -2.0).sum()
    for n in (1, 2, 3, 5):
        p = n**-2.0 / total
        assert abs((found == n).mean() - p) < 5 * np.sqrt(p * (1 - p) / len(found)) + 0.01
    assert found.max() > 100


def test_distant_states_are_reached():
    """40 steps in one direction: never by independent random actions, often by repeated ones."""

    def longest(exponent):
        return repetitions(play(Exploration((1, 200), exponent), 500, 200)).max()

    assert longest(None) < 10
    assert longest(2.0) >= 40


@pytest.mark.parametrize(("batch", "repeating"), [(8, [0, 4]), (6, [0, 4]), (1, [0])])
def test_a_share_of_the_environments_repeats(batch, repeating):
    actions = play(Exploration((1, batch), 1.0, share=0.25), 2000, batch)
    longest = [repetitions(column[:, None]).max() for column in actions.T]
    assert [index for index, length in enumerate(longest) if length > 10] == repeating


def test_without_an_exponent_it_is_epsilon_greedy():
    actions = play(Exploration((1, 1000), None), 100, 1000)
    assert (actions != GREEDY).mean() == pytest.approx(0.1 * 4 / 5, abs=0.005)
    assert repetitions(actions).mean() < 1.1


def test_an_action_ends_with_its_episode_and_where_it_is_illegal():
    exploration = Exploration((1, 3), 1.0)
    exploration.action[:], exploration.left[:] = 2, 10
    first = np.zeros((2, 1, 3), bool)
    first[1, 0, 0] = True
    legal = np.ones((2, 1, 3, ACTIONS), bool)
    legal[1, 0, 1, 2] = False
    actions = play(exploration, 2, 3, epsilon=0.0, first=first, legal=legal)
    assert actions.tolist() == [[2, 2, 2], [GREEDY, GREEDY, 2]]
    assert exploration.left.tolist() == [[0, 0, 8]]


def test_the_state_continues_identically():
    one, two = Exploration((1, 50), 1.5), Exploration((1, 50), 1.5)
    play(one, 30, 50)
    for name, tensor in two.tensors().items():
        tensor.copy_(one.tensors()[name])
    assert np.array_equal(play(one, 30, 50, seed=1), play(two, 30, 50, seed=1))
    assert Exploration((1, 50)).tensors() == {}

import numpy as np
import pytest

from usfa.environments.room import Oracle, RoomBatch, RoomRules, random_policy
from usfa.environments.room.oracle import Greedy
from usfa.environments.room.planning import choose
from usfa.environments.room.routes import times_to_collect
from usfa.environments.room.yardstick import as_markdown, returns, yardstick
from usfa.errors import InputError

RULES = RoomRules(decisions=300)
MAZE = ".....\n.###.\n...#.\n.#.#.\n.#..."


@pytest.fixture(scope="module")
def oracle():
    return Oracle(RULES)


LONG = (pytest.param(w, marks=pytest.mark.long) for w in ([1, 0, 0, 0], [-1, 1, 0, 0]))


@pytest.mark.parametrize("w", [[1, 1, 1, 1], [0, 0.7, 0.2, 0.1], [-1, 1, -1, 1], *LONG])
def test_the_oracle_is_far_above_greedy_and_random(oracle, w):
    found = {
        name: returns(policy, w, RULES, range(8)).mean()
        for name, policy in (("oracle", oracle), ("greedy", Greedy(RULES)), ("random", random_policy(0)))
    }
    assert found["oracle"] > 1.2 * found["greedy"]
    assert found["oracle"] > 15
    assert found["random"] < 4


def test_the_oracle_avoids_what_has_negative_value(oracle):
    for w in ([-1, 1, 0, 0], [-1, 1, -1, 0]):
        gained, lost = returns_of_parts(oracle, w, np.column_stack([w, np.minimum(w, 0)])).T
        assert gained.mean() > 20
        assert lost.mean() > -0.5


def returns_of_parts(policy, w, part):
    """Σφ·part of episodes that are played for the task w; of several parts, one in each column."""

    class Fixed:
        def act(self, world, _):
            return policy.act(world, w)

    return returns(Fixed(), part, RULES, range(8))


@pytest.mark.parametrize("w", [[-1, 0, 0, 0], [-1, -1, 0, 0], [0, 0, 0, 0]])
def test_without_anything_to_gain_it_collects_nothing(oracle, w):
    np.testing.assert_array_equal(returns_of_parts(oracle, w, np.ones(4)), 0)


def test_it_finds_its_way_around_walls_and_to_the_last_object():
    maze = RoomRules(layout=MAZE, side=12.0, objects_per_type=2, decisions=300)
    found = returns(Oracle(maze), [1, 1, 0, 0], maze, range(6))
    assert found.min() > 5
    assert found.mean() > 2 * returns(Greedy(maze), [1, 1, 0, 0], maze, range(6)).mean()
    finite = RoomRules(respawn=False, decisions=400)
    np.testing.assert_array_equal(returns(Oracle(finite), [1, 0, 0, 0], finite, range(6)), 5)


def test_times_are_those_of_walking_and_turning():
    times = times_to_collect(RULES)
    here = times.shape[1] - 1  # the row of what is neither ahead nor behind; a row is 0.1 metres
    assert times[here, 0] == 0
    assert times[here + 5, 0] == 0  # within reach
    assert times[here + 55, 0] == pytest.approx(5.0 / 0.25, abs=0.3)  # straight ahead
    assert times[here - 15, 0] == pytest.approx(1.0 / 0.25, abs=0.3)  # backwards
    assert times[here, 15] == pytest.approx(1.0 / 0.25, abs=0.3)  # to the side
    half_turn = np.pi / RULES.turn
    assert 9.5 / 0.25 < times[here - 100, 0] <= 9.5 / 0.25 + half_turn


def test_rooms_that_differ_only_in_their_objects_share_the_table():
    assert times_to_collect(RULES) is times_to_collect(RoomRules(types=2, objects_per_type=1))
    assert not times_to_collect(RULES).flags.writeable
    assert times_to_collect(RoomRules(side=5.0)).shape != times_to_collect(RULES).shape


def test_tasks_of_the_wrong_size_are_refused(oracle):
    with pytest.raises(InputError, match=r"The tasks have shape \(3,\); expected \[4\] or \[2, 4\], finite."):
        returns(oracle, [1, 0, 0], RULES, range(2))
    with pytest.raises(InputError, match="discount is 1; expected"):
        Oracle(RULES, discount=1)


def test_the_table_has_a_row_per_set_task_and_policy():
    table = yardstick(2, RoomRules(decisions=3))
    assert len(table) == (4 + 8 + 5 + 8 + 16) * 3
    assert (table["low"] <= table["mean"]).all()
    assert as_markdown(table).count("\n| room-") == 41
    with pytest.raises(InputError, match="episodes is 1; expected"):
        yardstick(1)


def test_tasks_of_each_room_do_not_need_another_compilation(oracle):
    """It takes ten seconds."""
    world = RoomBatch(2, RULES, image_size=8).world
    np.testing.assert_array_equal(oracle.act(world, [1, 0, 0, 0]), oracle.act(world, np.eye(4)[[0, 0]]))
    assert len(choose.signatures) == 1


def test_the_oracle_refuses_rooms_of_other_rules():
    with pytest.raises(InputError, match=r"have 20 objects of 4 types; the oracle's rules have 10 of 2"):
        Oracle(RoomRules(types=2)).act(RoomBatch(2, image_size=8).world, [1, 0, 0, 0])

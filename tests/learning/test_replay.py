from functools import partial

import numpy as np
import pytest
import torch

from usfa.errors import InputError
from usfa.learning.replay import LEAST_PRIORITY, PrioritisedReplay, Replay, join, part
from usfa.trajectory import Trajectory

R, T, B, A, D = 2, 3, 2, 4, 2


def numbered(number, batch=B, memory=1):
    """A trajectory [R, T, B, ...] whose every entry tells its number and its run: number + run/10."""
    stamp = number + torch.arange(R) / 10

    def filled(*shape):
        return stamp.view(R, *[1] * len(shape)).expand(R, *shape).clone()

    return Trajectory(
        observation=filled(T + 1, batch, 5),
        previous_action=torch.full((R, T + 1, batch), number),
        legal=torch.ones(R, T + 1, batch, A, dtype=torch.bool),
        first=torch.zeros(R, T + 1, batch, dtype=torch.bool),
        action=torch.full((R, T, batch), number),
        phi=filled(T, batch, D),
        discount=filled(T, batch),
        reward=filled(T, batch),
        w=filled(batch, D),
        core_state=tuple(filled(batch, 6) for _ in range(memory)),
    )


def rngs(seed=0):
    return [np.random.default_rng([seed, run]) for run in range(R)]


def test_what_is_sampled_was_added_and_is_one_trajectory_throughout():
    replay = Replay(10)
    for number in range(3):
        replay.add(numbered(number))
    past = replay.sample(40, rngs())
    assert past.observation.shape == (R, T + 1, 40 * B, 5)
    assert past.action.shape == (R, T, 40 * B)
    assert past.previous_action.shape == (R, T + 1, 40 * B)
    assert past.w.shape == (R, 40 * B, D)
    assert past.core_state[0].shape == (R, 40 * B, 6)
    for run in range(R):
        for column in range(40 * B):
            (number,) = past.action[run, :, column].unique().tolist()
            assert past.previous_action[run, :, column].unique().tolist() == [number]
            stamp = torch.tensor(number + run / 10)
            fields = (past.observation[run, :, column], past.phi[run, :, column], past.discount[run, :, column])
            for field in (*fields, past.w[run, column], past.core_state[0][run, column]):
                assert field.unique().tolist() == [pytest.approx(float(stamp))]
        assert set(past.action[run].flatten().tolist()) == {0, 1, 2}


def test_the_oldest_are_overwritten():
    replay = Replay(4)
    for number in range(10):
        replay.add(numbered(number))
    assert set(replay.sample(200, rngs()).action.flatten().tolist()) == {6, 7, 8, 9}


def test_trajectories_are_copied():
    replay, trajectory = Replay(4), numbered(1)
    replay.add(trajectory)
    trajectory.action.fill_(99)
    assert set(replay.sample(5, rngs()).action.flatten().tolist()) == {1}


def test_a_run_draws_from_its_own_generator():
    replay = Replay(100)
    for number in range(100):
        replay.add(numbered(number))
    both = replay.sample(20, rngs(0)).action
    other = replay.sample(20, [np.random.default_rng([0, 0]), np.random.default_rng([7, 1])]).action
    assert torch.equal(both[0], other[0])
    assert not torch.equal(both[1], other[1])


def test_join_puts_environments_side_by_side():
    fresh, past = numbered(1, batch=2), numbered(2, batch=3)
    joined = join(fresh, past)
    for name in ("observation", "previous_action", "legal", "first", "action", "phi", "discount"):
        new, old, both = (getattr(x, name) for x in (fresh, past, joined))
        assert torch.equal(both[:, :, :2], new)
        assert torch.equal(both[:, :, 2:], old)
    assert torch.equal(joined.w, torch.cat([fresh.w, past.w], dim=1))
    assert torch.equal(joined.core_state[0], torch.cat([fresh.core_state[0], past.core_state[0]], dim=1))


# --- prioritised ---


def prioritised(losses, exponent=0.6):
    """A buffer with a trajectory for each row of losses [K, R, B], and those as their last losses."""
    replay = PrioritisedReplay(len(losses), exponent)
    for number, loss in enumerate(losses):
        replay.add(one_per_environment(number))
        replay.sample(0, rngs())
        replay.learned([loss])
    return replay


def one_per_environment(number):
    """A trajectory whose actions tell its number and its environment: 10 · number + environment."""
    trajectory = numbered(number)
    return trajectory._replace(action=10 * trajectory.action + torch.arange(B))


def test_trajectories_are_drawn_by_the_root_of_their_loss():
    losses = torch.tensor([[[1.0, 4.0], [9.0, 0.0]], [[16.0, 0.25], [1.0, 1.0]]])
    found = prioritised(losses).sample(20_000, rngs()).action[:, 0]
    for run in range(R):
        root = losses[:, run].sqrt().flatten()
        expected = (root / root.max()).clamp(min=LEAST_PRIORITY) ** 0.6
        shares = torch.stack([(found[run] == number).float().mean() for number in (0, 1, 10, 11)])
        torch.testing.assert_close(shares, expected / expected.sum(), atol=1e-3, rtol=0)


def test_parts_of_a_drawn_trajectory_belong_together():
    replay = prioritised(torch.rand(3, R, B))
    past = replay.sample(40, rngs())
    assert past.observation.shape == (R, T + 1, 40 * B, 5)
    assert past.core_state[0].shape == (R, 40 * B, 6)
    for run in range(R):
        for column in range(40 * B):
            (place,) = past.action[run, :, column].unique().tolist()
            stamp = pytest.approx(place // 10 + run / 10)
            fields = (past.observation[run, :, column], past.phi[run, :, column], past.w[run, column])
            for field in (*fields, past.core_state[0][run, column]):
                assert field.unique().tolist() == [stamp]


def test_new_trajectories_have_the_highest_priority():
    replay = prioritised(torch.tensor([[[1.0, 4.0]] * R] * 2), exponent=1.0)
    replay.add(one_per_environment(7))  # replaces the oldest
    found = replay.sample(10_000, rngs()).action
    shares = [float((found == number).float().mean()) for number in (70, 71, 10, 11)]
    assert shares == pytest.approx([2 / 7, 2 / 7, 1 / 7, 2 / 7], abs=1e-3)


def test_a_large_exponent_draws_the_largest_loss():
    losses = torch.tensor([[[1.0, 1e-8]] * R, [[1e8, 1e8]] * R])
    assert set(prioritised(losses, exponent=200.0).sample(50, rngs()).action.flatten().tolist()) == {10, 11}


def test_losses_without_differences_draw_all_alike():
    found = prioritised(torch.zeros(2, R, B)).sample(1000, rngs()).action[:, 0]
    assert [int((found == number).sum()) for number in (0, 1, 10, 11)] == pytest.approx([1000] * 4, abs=8)


@pytest.mark.parametrize("before", [2, 6])
@pytest.mark.parametrize("make", [Replay, partial(PrioritisedReplay, exponent=0.6)])
def test_state_goes_on_the_same(before, make):
    """Before all places are taken and after; only what is there is saved."""
    replay, other = make(4), make(4)
    for number in range(before):
        replay.add(numbered(number))
        replay.sample(1, rngs(number))
        replay.learned([torch.rand(R, 2 * B, generator=torch.Generator().manual_seed(number))])
    stored, added = replay.state()
    assert {x.shape[1] for x in stored.values()} == {min(before, 4)}
    other.load_state({name: x.clone() for name, x in stored.items()}, added, torch.device("cpu"))
    for both in (replay, other):
        both.add(numbered(6))
    for one, two in zip(replay.sample(9, rngs())[:-1], other.sample(9, rngs())[:-1], strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_damaged_priorities_are_refused(value):
    stored, added = prioritised(torch.ones(2, R, B)).state()
    stored["priority"][0, 1, 0] = value
    with pytest.raises(InputError, match=r"^The priorities of the replay buffer are damaged; expected finite numbers"):
        PrioritisedReplay(2, 0.6).load_state(stored, added, torch.device("cpu"))


def test_state_goes_where_the_learner_is():
    """The "meta" device stands for a GPU."""
    replay, other = Replay(4), Replay(4)
    replay.add(numbered(1))
    stored, added = replay.state()
    other.load_state(stored, added, torch.device("meta"))
    assert {x.device.type for x in other.state()[0].values()} == {"meta"}


@pytest.mark.parametrize("parts", [1, 2, 3, 6])
def test_parts_hold_every_environment_once(parts):
    """In their order, all fields of one together, and without copying."""
    whole = join(join(numbered(1, batch=2), numbered(2, batch=3)), numbered(3, batch=1))
    pieces = [part(whole, index, parts) for index in range(parts)]
    for name, axis in {"observation": 2, "previous_action": 2, "legal": 2, "first": 2, "action": 2, "w": 1}.items():
        found = [getattr(piece, name) for piece in pieces]
        assert {x.shape[axis] for x in found} == {6 // parts}
        assert torch.equal(torch.cat(found, dim=axis), getattr(whole, name))
        assert found[-1].untyped_storage().data_ptr() == getattr(whole, name).untyped_storage().data_ptr()
    for name in ("phi", "discount"):
        assert torch.equal(torch.cat([getattr(piece, name) for piece in pieces], dim=2), getattr(whole, name))
    assert torch.equal(torch.cat([piece.core_state[0] for piece in pieces], dim=1), whole.core_state[0])


def test_more_than_fits_into_memory_is_refused_at_the_first_trajectory():
    trajectory = numbered(1)
    size = sum(x.nbytes for x in trajectory[:-1]) + trajectory.core_state[0].nbytes
    capacity = 17 * 2**30 // size
    with pytest.raises(InputError) as error:
        Replay(capacity).add(trajectory)
    assert str(error.value) == (
        f"replay_capacity is {capacity} trajectories, which take 17 GiB; expected at most 16 GiB."
    )

import numpy as np
import pytest
import torch

from usfa.learners.replay import Replay, join
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


def test_state_goes_on_the_same():
    replay, other = Replay(4), Replay(4)
    for number in range(6):
        replay.add(numbered(number))
    stored, added = replay.state()
    other.load_state({name: x.clone() for name, x in stored.items()}, added)
    for both in (replay, other):
        both.add(numbered(6))
    for one, two in zip(replay.sample(9, rngs())[:-1], other.sample(9, rngs())[:-1], strict=True):
        assert torch.equal(one, two)

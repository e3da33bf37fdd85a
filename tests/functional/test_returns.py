import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from random_mdps import generators
from usfa.functional import lambda_return, watkins_lambda


def forward_view(phi, discount, v, lambda_):
    """The λ-return as it is defined: every n-step return, weighted by how far λ reaches. Scalars [T]."""
    steps = len(phi)
    targets = np.zeros(steps)
    for i in range(steps):
        total, reach, summed, survival = 0.0, 1.0, 0.0, 1.0
        for k in range(i, steps):
            summed += survival * phi[k]
            survival *= discount[k]
            stop = 1.0 if k == steps - 1 else 1 - lambda_[k]
            total += reach * stop * (summed + survival * v[k])
            reach *= lambda_[k]
        targets[i] = total
    return targets


def random_returns(rng, steps, *shape):
    phi, v = rng.standard_normal((2, steps, *shape))
    discount = 0.9 * (rng.random((steps, *shape)) > 0.2)
    lambda_ = rng.random((steps, *shape))
    return phi, discount, v, lambda_


def tensors(*arrays):
    return [torch.from_numpy(np.asarray(x)) for x in arrays]


@given(generators, st.integers(1, 7))
def test_recursion_is_the_forward_view(rng, steps):
    phi, discount, v, lambda_ = random_returns(rng, steps)
    found = lambda_return(*tensors(phi, discount, v, lambda_))
    np.testing.assert_allclose(found, forward_view(phi, discount, v, lambda_), atol=1e-12)


def test_golden_values():
    # By hand, backwards: 4 + ½·8 = 8;  2 + ½(½·6 + ½·8) = 5.5;  1 + ½(½·2 + ½·5.5) = 2.875
    phi, v = torch.tensor([[1.0, 2.0, 4.0], [2.0, 6.0, 8.0]], dtype=torch.float64)
    found = lambda_return(phi, torch.full((3,), 0.5, dtype=torch.float64), v, 0.5)
    assert found.tolist() == [2.875, 5.5, 8.0]


def test_zero_lambda_is_one_step():
    phi, discount, v, _ = random_returns(np.random.default_rng(0), 6)
    np.testing.assert_allclose(lambda_return(*tensors(phi, discount, v), 0.0), phi + discount * v)


def test_one_lambda_bootstraps_only_at_the_end():
    phi, _, v, _ = random_returns(np.random.default_rng(0), 6)
    gamma = 0.9
    expected = [sum(gamma ** (k - i) * phi[k] for k in range(i, 6)) + gamma ** (6 - i) * v[-1] for i in range(6)]
    found = lambda_return(*tensors(phi, np.full(6, gamma), v), 1.0)
    np.testing.assert_allclose(found, expected)


def test_nothing_crosses_a_termination():
    phi, discount, v, lambda_ = random_returns(np.random.default_rng(0), 6)
    discount[:] = 0.9
    discount[2] = 0
    found = lambda_return(*tensors(phi, discount, v, lambda_))
    assert found[2].item() == phi[2]
    phi[3:], v[2:] = 1e6, -1e6
    torch.testing.assert_close(lambda_return(*tensors(phi, discount, v, lambda_))[:3], found[:3])


def test_last_lambda_has_no_effect():
    phi, discount, v, lambda_ = random_returns(np.random.default_rng(0), 4)
    other = lambda_.copy()
    other[-1] = 0
    torch.testing.assert_close(
        lambda_return(*tensors(phi, discount, v, lambda_)), lambda_return(*tensors(phi, discount, v, other))
    )


def test_axes_broadcast():
    rng = np.random.default_rng(0)
    steps, batch, policies, features = 4, 2, 3, 2
    phi, v = (
        rng.standard_normal((steps, batch, 1, features)),
        rng.standard_normal((steps, batch, policies, features)),
    )
    discount, lambda_ = rng.random((steps, batch, 1, 1)), rng.random((steps, batch, policies, 1))
    found = lambda_return(*tensors(phi, discount, v, lambda_))
    assert found.shape == v.shape
    for b, n, d in np.ndindex(v.shape[1:]):
        slow = forward_view(phi[:, b, 0, d], discount[:, b, 0, 0], v[:, b, n, d], lambda_[:, b, n, 0])
        np.testing.assert_allclose(found[:, b, n, d], slow)


def test_lambda_survives_only_greedy_actions():
    action = torch.tensor([[0], [1]])
    greedy = torch.tensor([[[0, 1]], [[0, 1]]])
    assert watkins_lambda(0.5, action, greedy).tolist() == [[[0.5, 0.0]], [[0.0, 0.5]]]


@given(generators)
def test_watkins_sums_until_the_behaviour_leaves_the_policy(rng):
    """λ = 1, per z: the sum of φ up to the first action that π_z would not take, then its value there."""
    steps, policies = 6, 3
    phi = rng.standard_normal(steps)
    v = rng.standard_normal((steps, policies))
    action, greedy = rng.integers(2, size=steps), rng.integers(2, size=(steps, policies))
    lambda_t = watkins_lambda(1.0, *tensors(action[:, None], greedy[:, None]))[:, 0]
    found = lambda_return(*tensors(phi[:, None], np.full((steps, 1), 0.9), v), lambda_t)
    for i, n in np.ndindex(steps, policies):
        total, survival = 0.0, 1.0
        for k in range(i, steps):
            total += survival * phi[k]
            survival *= 0.9
            if action[k] != greedy[k, n] or k == steps - 1:
                break
        assert found[i, n].item() == pytest.approx(total + survival * v[k, n])


@given(generators)
def test_one_feature_and_own_task_is_watkins_q_lambda(rng):
    """Sutton & Barto's backward view: TD errors δ_t times a trace that a non-greedy action wipes out."""
    steps, actions, gamma, lambda_ = 8, 3, 0.9, 0.5
    q = rng.standard_normal((steps + 1, actions))  # every step visits a state of its own
    reward = rng.standard_normal(steps)
    greedy = q.argmax(axis=1)
    explore = rng.integers(actions, size=steps)
    action = np.where(rng.random(steps) < 0.7, greedy[:-1], explore)
    trace, update = np.zeros(steps), np.zeros(steps)
    for t in range(steps):
        trace *= gamma * lambda_ if action[t] == greedy[t] else 0.0
        trace[t] = 1.0
        delta = reward[t] + gamma * q[t + 1].max() - q[t, action[t]]
        update += delta * trace

    next_action = np.append(action[1:], 0)
    lambda_t = watkins_lambda(lambda_, *tensors(next_action[:, None], greedy[1:, None, None]))[:, 0, 0]
    target = lambda_return(*tensors(reward, np.full(steps, gamma), q[1:].max(axis=1)), lambda_t)
    np.testing.assert_allclose(target.numpy() - q[np.arange(steps), action], update, atol=1e-12)

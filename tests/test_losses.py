import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from random_mdps import generators
from usfa.losses import squared_along, squared_td, td_errors, with_action_gap
from usfa.trajectory import Trajectory, is_seam

GAMMA = 0.9
A = 3


def trajectory_of(action, phi, discount, first):
    """A Trajectory with the fields that a loss reads, [T, B] and [T+1, B]; the rest is empty."""
    steps, batch = action.shape
    return Trajectory(
        observation=torch.zeros(steps + 1, batch),
        previous_action=torch.zeros(steps + 1, batch, dtype=torch.int64),
        legal=torch.ones(steps + 1, batch, A, dtype=torch.bool),
        first=first,
        action=action,
        phi=phi,
        discount=discount,
        reward=torch.full_like(discount, torch.nan),
        w=torch.zeros(batch, phi.shape[-1], dtype=torch.float64),
        core_state=(),
    )


def random_case(rng, steps=6, batch=2, policies=3, features=2, per_policy=False):
    """ψ, targets, greedy actions, cumulant and a trajectory with terminations, seams and exploration."""
    psi, targets = rng.standard_normal((2, steps + 1, batch, policies, A, features))
    greedy = rng.integers(A, size=(steps + 1, batch, policies))
    action = np.where(rng.random((steps, batch)) < 0.6, greedy[:-1, :, 0], rng.integers(A, size=(steps, batch)))
    discount = GAMMA * (rng.random((steps, batch)) > 0.2)
    first = np.concatenate([np.ones((1, batch), bool), (discount == 0) | (rng.random((steps, batch)) < 0.2)])
    cumulant = rng.standard_normal((steps, batch, policies if per_policy else 1, features))
    tensors = [torch.from_numpy(x) for x in (psi, targets, greedy, cumulant, action, discount, first)]
    psi, targets, greedy, cumulant, action, discount, first = tensors
    return psi, targets, greedy, cumulant, trajectory_of(action, cumulant[:, :, 0], discount, first)


def slow_error(psi, targets, greedy, cumulant, trajectory, lambda_, t, b, n):
    """The definition, forwards: n-step returns, as far as the behaviour follows π_z without a seam."""
    steps = len(trajectory.action)

    def seam(k):
        return bool(trajectory.first[k + 1, b]) and float(trajectory.discount[k, b]) > 0

    if seam(t):
        return torch.zeros(psi.shape[-1], dtype=torch.float64)
    of_policy = min(n, cumulant.shape[2] - 1)
    target, summed, survival, reach = 0.0, 0.0, 1.0, 1.0
    for k in range(t, steps):
        s = k + 1  # the state that step k leads to
        own = greedy[s, b, n]
        summed = summed + survival * cumulant[k, b, of_policy]
        survival = survival * trajectory.discount[k, b]
        n_step = summed + survival * targets[s, b, n, own]
        if s == steps or trajectory.action[s, b] != own or seam(s):
            target = target + reach * n_step
            break
        target = target + reach * (1 - lambda_) * n_step
        reach *= lambda_
    return target - psi[t, b, n, trajectory.action[t, b]]


@given(generators, st.booleans(), st.sampled_from([0.0, 0.5, 1.0]))
def test_errors_are_the_literal_loop(rng, per_policy, lambda_):
    case = random_case(rng, per_policy=per_policy)
    errors = td_errors(*case, lambda_)
    for t, b, n in np.ndindex(*errors.shape[:-1]):
        torch.testing.assert_close(errors[t, b, n], slow_error(*case, lambda_, t, b, n))


def test_greedy_action_of_the_next_state_bootstraps():
    """Erratum 1: a' = π_z(s'), not π_z(s) as Algorithm 1 prints."""
    psi = torch.tensor([[10.0, 20.0, 30.0], [1.0, 2.0, 4.0]], dtype=torch.float64).reshape(2, 1, 1, A, 1)
    greedy = torch.tensor([2, 1]).reshape(2, 1, 1)
    phi = torch.full((1, 1, 1), 5.0, dtype=torch.float64)
    discount = torch.full((1, 1), 0.5, dtype=torch.float64)
    trajectory = trajectory_of(torch.tensor([[0]]), phi, discount, torch.tensor([[True], [False]]))
    error = td_errors(psi, psi, greedy, phi[:, :, None], trajectory, 0.5)
    assert error.item() == 5 + 0.5 * 2 - 10


def test_gradient_flows_only_through_the_taken_action():
    psi, targets, greedy, cumulant, trajectory = random_case(np.random.default_rng(0))
    psi.requires_grad_()
    td_errors(psi, targets, greedy, cumulant, trajectory, 0.5).sum().backward()
    expected = torch.zeros_like(psi)
    for t, b in np.ndindex(*trajectory.action.shape):
        if not is_seam(trajectory)[t, b]:
            expected[t, b, :, trajectory.action[t, b]] = -1
    assert is_seam(trajectory).any()
    assert torch.equal(psi.grad, expected)


@given(generators, st.sampled_from([0.0, 0.5, 0.9]))
def test_the_action_gap_is_subtracted(rng, share):
    _, targets, greedy, cumulant, trajectory = random_case(rng)
    found = with_action_gap(cumulant, targets, greedy, trajectory.action, share)
    for t, b, n in np.ndindex(*found.shape[:-1]):
        own, taken = (targets[t, b, n, action] for action in (greedy[t, b, n], trajectory.action[t, b]))
        torch.testing.assert_close(found[t, b, n], cumulant[t, b, 0] - share * (own - taken))


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_a_wider_gap_keeps_values_and_best_actions(share):
    """In a random MDP, iterated over all states and actions: the gap grows by 1 / (1 - share)."""
    rng = np.random.default_rng(0)
    states, features = 5, 2
    to = torch.from_numpy(rng.integers(states, size=(states, A)))
    phi, z = (
        torch.from_numpy(rng.standard_normal((states, A, features))),
        torch.tensor([0.6, -0.3], dtype=torch.float64),
    )

    def iterated(share):
        psi = torch.zeros(states, A, features, dtype=torch.float64)
        for _ in range(600):
            best = (psi @ z).argmax(-1)
            own = psi[torch.arange(states), best]
            psi = phi + GAMMA * own[to] - share * (own[:, None] - psi)
        return psi, best

    (psi, best), (wide, best_wide) = iterated(0.0), iterated(share)
    assert torch.equal(best, best_wide)
    own = psi[torch.arange(states), best][:, None]
    torch.testing.assert_close(wide, own - (own - psi) / (1 - share))


def test_seam_is_a_first_observation_without_termination():
    first = torch.tensor([[True], [False], [True], [True]])
    discount = torch.tensor([[GAMMA], [GAMMA], [0.0]])
    trajectory = trajectory_of(torch.zeros(3, 1, dtype=torch.int64), torch.zeros(3, 1, 1), discount, first)
    assert is_seam(trajectory).tolist() == [[False], [True], [False]]


def test_truncation_bootstraps_and_nothing_crosses_its_seam():
    """s0 → s1 (cut off by the clock) ⇢ s2 (opens another episode) → s3."""
    case = random_case(np.random.default_rng(1), steps=3, batch=1, policies=1)
    psi, targets, greedy, cumulant, trajectory = case
    trajectory = trajectory._replace(
        action=greedy[:-1, :, 0],
        discount=torch.full((3, 1), GAMMA, dtype=torch.float64),
        first=torch.tensor([[True], [False], [True], [False]]),
    )
    errors = td_errors(psi, targets, greedy, cumulant, trajectory, 1.0)
    bootstrap = cumulant[0, 0, 0] + GAMMA * targets[1, 0, 0, greedy[1, 0, 0]]
    torch.testing.assert_close(errors[0, 0, 0], bootstrap - psi[0, 0, 0, greedy[0, 0, 0]])
    assert errors[1].eq(0).all()
    assert errors[2].ne(0).all()


def test_squared_td_sums_features_and_averages_the_rest():
    errors = torch.tensor([[3.0, 4.0], [0.0, 1.0]]).reshape(2, 1, 1, 2)
    assert squared_td(errors).item() == pytest.approx(0.5 * (25 + 1) / 2)


@pytest.mark.parametrize(
    "loss",
    [squared_td, lambda errors, per_trajectory=False: squared_along(errors, torch.ones(5, 3, 2), per_trajectory)],
)
def test_losses_of_each_trajectory_have_the_same_mean(loss):
    errors = torch.rand(4, 5, 3, 2, generator=torch.Generator().manual_seed(0))
    each = loss(errors, per_trajectory=True)
    assert each.shape == (5,)
    torch.testing.assert_close(each.mean(), loss(errors))
    one = loss(errors[:, 2:3]) if loss is squared_td else squared_along(errors[:, 2:3], torch.ones(1, 3, 2))
    torch.testing.assert_close(each[2], one)


def test_squared_along_is_the_part_that_a_policy_sees():
    errors = torch.tensor([[[[3.0, 4.0], [1.0, 0.0], [2.0, -1.0]]]])  # [1, 1, 3, 2]
    z = torch.tensor([[[0.6, 0.8], [0.0, 2.0], [0.0, 0.0]]])
    assert squared_along(errors, z).item() == pytest.approx(0.5 * 25 / 3)

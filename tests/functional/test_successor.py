import pytest
import torch

from usfa.errors import InputError
from usfa.functional import gpi, greedy_actions, mask_illegal, policy_actions, q_values, take_actions

T, B, N, A, D = 3, 2, 4, 5, 3


def random_case(seed=0):
    """ψ [T,B,N,A,D], w [T,B,D], z [T,B,N,D] and a mask [T,B,A] with at least one legal action."""
    draw = torch.Generator().manual_seed(seed)
    psi = torch.randn(T, B, N, A, D, generator=draw, dtype=torch.float64)
    w = torch.randn(T, B, D, generator=draw, dtype=torch.float64)
    z = torch.randn(T, B, N, D, generator=draw, dtype=torch.float64)
    legal = torch.rand(T, B, A, generator=draw) < 0.5
    legal[..., 2] = True
    return psi, w, z, legal


def points():
    return [(t, b) for t in range(T) for b in range(B)]


def dot(x, y):
    return sum(float(x[d]) * float(y[d]) for d in range(D))


def test_q_is_psi_times_w():
    psi, w, _, _ = random_case()
    q = q_values(psi, w)
    assert q.shape == (T, B, N, A)
    for t, b in points():
        slow = [[dot(psi[t, b, n, a], w[t, b]) for a in range(A)] for n in range(N)]
        torch.testing.assert_close(q[t, b], torch.tensor(slow, dtype=torch.float64))


def test_one_task_serves_every_step():
    psi, w, _, legal = random_case()
    one = w[0, 0]
    torch.testing.assert_close(q_values(psi, one), q_values(psi, one.expand(T, B, D)))
    assert torch.equal(gpi(psi, one, legal).action, gpi(psi, one.expand(T, B, D), legal).action)


def test_ties_go_to_the_lowest_action():
    q = torch.tensor([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0]])
    assert greedy_actions(q).tolist() == [1, 0]
    assert greedy_actions(q, torch.tensor([True, False, True, True])).tolist() == [2, 0]


def test_illegal_actions_are_minus_infinity_and_never_chosen():
    q = torch.tensor([-5.0, 9.0, -7.0])
    legal = torch.tensor([True, False, True])
    assert mask_illegal(q, legal).tolist() == [-5.0, -torch.inf, -7.0]
    assert greedy_actions(q, legal) == 0
    assert mask_illegal(q, None) is q


def test_gpi_is_the_literal_triple_loop():
    psi, w, _, legal = random_case()
    found = gpi(psi, w, legal)
    for t, b in points():
        best, best_action, best_policy = -torch.inf, None, None
        for a in range(A):
            highest = -torch.inf
            for n in range(N):
                value = dot(psi[t, b, n, a], w[t, b]) if legal[t, b, a] else -torch.inf
                highest = max(highest, value)
                if value > best:
                    best, best_action, best_policy = value, a, n
            torch.testing.assert_close(found.q_max[t, b, a].item(), highest)
        assert (found.action[t, b], found.policy[t, b]) == (best_action, best_policy)


def test_gpi_ties_go_to_the_lowest_action_then_the_lowest_policy():
    psi = torch.tensor([[0.0, 1.0, 2.0], [0.0, 2.0, 2.0], [1.0, 2.0, 0.0]])[..., None]
    found = gpi(psi, torch.ones(1))
    assert (found.action, found.policy) == (1, 1)


def test_gpi_trusts_no_policy_for_an_illegal_action():
    psi = torch.tensor([[0.0, 9.0], [1.0, 0.0]])[..., None]
    found = gpi(psi, torch.ones(1), torch.tensor([True, False]))
    assert (found.action, found.policy) == (0, 1)
    assert found.q_max.tolist() == [1.0, -torch.inf]


def test_policies_follow_their_own_z():
    psi, _, z, legal = random_case()
    found = policy_actions(psi, z, legal)
    assert found.shape == (T, B, N)
    for t, b in points():
        for n in range(N):
            values = {a: dot(psi[t, b, n, a], z[t, b, n]) for a in range(A) if legal[t, b, a]}
            assert found[t, b, n] == max(values, key=values.get)


def test_policies_do_not_follow_the_task():
    psi = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])  # one z, two actions: coffee and food
    z, w = torch.tensor([[1.0, 0.0]]), torch.tensor([0.0, 1.0])
    assert policy_actions(psi, z).tolist() == [0]
    assert greedy_actions(q_values(psi, w)).tolist() == [1]


def test_take_actions_picks_one_action_per_policy():
    psi, _, _, _ = random_case()
    action = torch.randint(A, (T, B, N), generator=torch.Generator().manual_seed(1))
    taken = take_actions(psi, action)
    assert taken.shape == (T, B, N, D)
    for t, b in points():
        for n in range(N):
            assert torch.equal(taken[t, b, n], psi[t, b, n, action[t, b, n]])
    with pytest.raises(InputError, match=rf"expected \[{T}, {B}, {N}\], one per policy"):
        take_actions(psi, action.transpose(0, 1))

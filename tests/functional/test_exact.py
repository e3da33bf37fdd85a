import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from random_mdps import generators, random_mdp, random_policies, random_tasks, tabular_mdps
from usfa.environments.tabular import one_state_mdp, trip_mdp
from usfa.errors import InputError
from usfa.functional import (
    TabularMDP,
    effective_horizon,
    gpi_policy,
    optimal_policy,
    optimal_return,
    optimal_values,
    policy_features,
    policy_return,
    policy_values,
    successor_features,
)
from usfa.tasks import task_set


def chain(transition, phi, discount):
    """An MDP with one action per state: transition [S, S], φ [S], one discount."""
    transition = torch.tensor(transition, dtype=torch.float64)[:, None, :]
    states = len(transition)
    return TabularMDP(
        transition=transition,
        phi=torch.tensor(phi, dtype=torch.float64)[:, None, None, None].expand(states, 1, states, 1),
        discount=torch.full_like(transition, discount),
        legal=torch.ones(states, 1, dtype=torch.bool),
        start=torch.eye(states, dtype=torch.float64)[0],
    )


def close(found, expected):
    torch.testing.assert_close(found, torch.as_tensor(expected), rtol=1e-8, atol=1e-8)


# --- values and successor features against brute force ------------------------------------------------------


@given(tabular_mdps(max_states=3, max_actions=3), generators)
def test_optimum_is_the_best_of_all_policies(mdp, rng):
    w = random_tasks(rng, mdp.features)
    continuation, reward = mdp.continuation.numpy(), (mdp.expected_phi @ w).numpy()
    choices = [np.flatnonzero(row) for row in mdp.legal.numpy()]
    rows = np.arange(mdp.states)
    best = np.full(mdp.states, -np.inf)
    for policy in itertools.product(*choices):
        value = np.linalg.solve(np.eye(mdp.states) - continuation[rows, policy], reward[rows, policy])
        best = np.maximum(best, value)
    expected = np.where(mdp.legal, reward + continuation @ best, -np.inf)
    close(optimal_values(mdp, w), expected)


@given(tabular_mdps(), generators)
def test_optimal_policy_earns_the_optimum(mdp, rng):
    w = random_tasks(rng, 3, mdp.features)
    earned = policy_values(mdp, optimal_policy(mdp, w), w)
    close(earned[:, mdp.legal], optimal_values(mdp, w)[:, mdp.legal])


def test_ties_of_the_optimum_go_to_the_lowest_action():
    mdp = one_state_mdp()
    # 0.1 + 0.2 is not 0.3 in floats; the rule decides, not the last bit.
    nearly = replace(mdp, phi=torch.tensor([0.3, 0.1 + 0.2], dtype=torch.float64).reshape(1, 2, 1, 1))
    nearly = replace(nearly, discount=torch.zeros_like(mdp.discount))
    assert optimal_policy(nearly, torch.ones(1)).tolist() == [0]


@given(tabular_mdps(), generators)
def test_successor_features_are_the_sum_of_all_powers(mdp, rng):
    policy = random_policies(rng, mdp)
    rows = torch.arange(mdp.states)
    p_pi, c_pi = mdp.continuation[rows, policy], mdp.expected_phi[rows, policy]
    power, total = torch.eye(mdp.states, dtype=torch.float64), torch.zeros_like(c_pi)
    for _ in range(600):
        total, power = total + power @ c_pi, power @ p_pi
    expected = mdp.expected_phi + torch.einsum("sat,td->sad", mdp.continuation, total)
    close(successor_features(mdp, policy), expected)


@given(tabular_mdps(), generators)
def test_values_are_psi_times_w(mdp, rng):
    policy, w = random_policies(rng, mdp, 3), random_tasks(rng, 3, mdp.features)
    psi = successor_features(mdp, policy)
    close(policy_values(mdp, policy, w), torch.einsum("ksad,kd->ksa", psi, w))


# --- generalised policy improvement -------------------------------------------------------------------------


@given(tabular_mdps(), generators, st.integers(1, 3))
def test_gpi_is_at_least_as_good_as_every_policy(mdp, rng, policies):
    old, w = random_policies(rng, mdp, policies), random_tasks(rng, mdp.features)
    improved = gpi_policy(mdp, successor_features(mdp, old), w)
    gain = policy_values(mdp, improved, w) - policy_values(mdp, old, w).amax(dim=0)
    assert gain[mdp.legal].min() >= -1e-9


@given(tabular_mdps(), generators)
def test_gpi_policy_is_the_literal_loop(mdp, rng):
    psi = random_tasks(rng, 3, mdp.states, mdp.actions, mdp.features)
    w = random_tasks(rng, mdp.features)
    found = gpi_policy(mdp, psi, w)
    for s in range(mdp.states):
        best = {a: max(float(psi[n, s, a] @ w) for n in range(3)) for a in range(mdp.actions) if mdp.legal[s, a]}
        assert found[s] == max(best, key=best.get)


# --- known optima -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tasks", "gap"), [("trip-directions", 0.05014), ("trip-diagonal", 0.15711)])
def test_trip_gap_of_coffee_and_food(tasks, gap):
    mdp, w = trip_mdp(), torch.from_numpy(task_set(tasks))
    psi = successor_features(mdp, optimal_policy(mdp, torch.eye(2, dtype=torch.float64)))
    improved = gpi_policy(mdp, psi, w)
    found = (optimal_return(mdp, w) - policy_return(mdp, improved, w)).mean()
    assert round(found.item(), 5) == gap


def test_trip_explores_only_when_both_matter():
    coffee, food, explore = 0, 6, 7
    w = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    policies = optimal_policy(trip_mdp(), w)
    assert policies[:, 0].tolist() == [coffee, food, explore]
    assert policies[2, 1] == 3  # the place in the middle
    close(optimal_return(trip_mdp(), w), torch.tensor([1, 1, 2**0.5 - 0.1], dtype=torch.float64))


def test_one_state_is_worth_the_positive_part_of_w():
    w = torch.tensor([[2.0], [0.5], [0.0], [-1.0]], dtype=torch.float64)
    close(optimal_return(one_state_mdp(), w), w[:, 0].clamp(min=0))


def test_one_state_leaves_for_positive_w_and_stays_otherwise():
    """Erratum 5: a2 for w > 0, a1 for w ≤ 0."""
    w = torch.tensor([[2.0], [0.5], [0.0], [-1.0]])
    assert optimal_policy(one_state_mdp(), w).tolist() == [[1], [1], [0], [0]]


def test_horizon_without_termination_is_one_over_one_minus_gamma():
    mdp = random_mdp(np.random.default_rng(0), states=4, actions=3, features=2, gamma=0.9)
    endless = replace(mdp, discount=torch.full_like(mdp.discount, 0.9))
    assert effective_horizon(endless) == pytest.approx(10)


def test_horizon_of_episodes_is_their_longest():
    assert effective_horizon(trip_mdp()) == 2
    assert effective_horizon(one_state_mdp(0.75)) == pytest.approx(4)


# --- batches, returns from the start ------------------------------------------------------------------------


@given(tabular_mdps(), generators)
def test_a_batch_is_each_of_its_parts(mdp, rng):
    w, policy = random_tasks(rng, 2, 2, mdp.features), random_policies(rng, mdp, 2, 2)
    tables = random_tasks(rng, 2, 2, 3, mdp.states, mdp.actions, mdp.features)
    for solve, *arguments in [
        (optimal_values, w),
        (optimal_policy, w),
        (optimal_return, w),
        (successor_features, policy),
        (policy_values, policy, w),
        (policy_return, policy, w),
        (gpi_policy, tables, w),
    ]:
        batch = solve(mdp, *arguments)
        for i in np.ndindex(2, 2):
            close(batch[i], solve(mdp, *(argument[i] for argument in arguments)))


@given(tabular_mdps(), generators)
def test_one_policy_serves_many_tasks_and_one_task_many_policies(mdp, rng):
    w, policy = random_tasks(rng, 3, mdp.features), random_policies(rng, mdp, 3)
    tables = random_tasks(rng, 2, mdp.states, mdp.actions, mdp.features)
    close(policy_values(mdp, policy[0], w), policy_values(mdp, policy[:1].expand(3, -1), w))
    close(policy_values(mdp, policy, w[0]), policy_values(mdp, policy, w[:1].expand(3, -1)))
    close(policy_return(mdp, policy[0], w), policy_return(mdp, policy[:1].expand(3, -1), w))
    close(gpi_policy(mdp, tables, w), gpi_policy(mdp, tables.expand(3, *tables.shape), w))


@given(tabular_mdps(), generators)
def test_returns_are_values_at_the_start(mdp, rng):
    policy, w = random_policies(rng, mdp), random_tasks(rng, mdp.features)
    q, best = policy_values(mdp, policy, w), optimal_values(mdp, w)
    earned = sum(float(mdp.start[s] * q[s, policy[s]]) for s in range(mdp.states))
    highest = sum(float(mdp.start[s] * best[s].max()) for s in range(mdp.states))
    assert policy_return(mdp, policy, w).item() == pytest.approx(earned)
    assert (policy_features(mdp, policy) @ w).item() == pytest.approx(earned)
    assert optimal_return(mdp, w).item() == pytest.approx(highest)


def test_only_transitions_that_can_happen_have_features():
    mdp = trip_mdp()
    s1, s2 = 3, 7  # legal actions, each with one successor
    assert mdp.possible_phi.shape == (s1 + s2, mdp.features)
    assert mdp.possible_phi.norm(dim=-1).max().item() == pytest.approx(1)


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["transition", "discount", "legal", "start"])
def test_a_table_of_another_shape_is_named(name):
    mdp = trip_mdp()
    with pytest.raises(InputError, match=rf"^The MDP's {name} has shape \(3,\); its phi asks for \(2"):
        replace(mdp, **{name: torch.ones(3, dtype=torch.float64)})


def test_phi_without_a_feature_axis_is_refused():
    mdp = trip_mdp()
    with pytest.raises(InputError, match=r"^The MDP's phi has shape \(2, 8, 2\)"):
        replace(mdp, phi=mdp.phi[..., 0])


@pytest.mark.parametrize("total", [0.5, 1.5])
def test_transitions_must_sum_to_one(total):
    mdp = trip_mdp()
    transition = mdp.transition.clone()
    transition[0, 0] *= total
    with pytest.raises(InputError, match=rf"^The MDP's transition probabilities sum to {total}, expected"):
        replace(mdp, transition=transition)


def test_illegal_actions_need_no_transitions():
    mdp = trip_mdp()
    assert replace(mdp, transition=mdp.transition * mdp.legal[..., None]).states == 2


def test_start_must_sum_to_one():
    with pytest.raises(InputError, match=r"^The MDP's start probabilities sum to 0.5, expected 1\.$"):
        replace(trip_mdp(), start=torch.tensor([0.5, 0.0]))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("transition", lambda p: torch.stack([p[..., 0] + 0.5, p[..., 1] - 0.5], dim=-1)),
        ("start", lambda p: torch.tensor([1.5, -0.5], dtype=torch.float64)),
        ("discount", lambda discount: discount - 0.1),
        ("discount", lambda discount: discount + 0.1),
    ],
)
def test_negative_probabilities_and_strange_discounts_are_refused(name, change):
    mdp = trip_mdp()  # its tables hold 0 and 1 everywhere
    with pytest.raises(InputError, match=r"^The MDP has a negative probability, or a discount outside of 0 to 1\.$"):
        replace(mdp, **{name: change(getattr(mdp, name))})


def test_every_state_needs_a_legal_action():
    mdp = trip_mdp()
    legal = mdp.legal.clone()
    legal[1] = False
    with pytest.raises(InputError, match=r"^The MDP has a state without a legal action; every state"):
        replace(mdp, legal=legal)


def test_an_illegal_policy_is_refused():
    with pytest.raises(InputError, match=r"^The policy takes an action that is not legal in its state\.$"):
        successor_features(trip_mdp(), torch.tensor([3, 0]))


@pytest.mark.parametrize("reward", [1.0, -1.0])
def test_an_endless_sum_has_no_optimum(reward):
    mdp = chain([[1.0]], [reward], discount=1.0)
    with pytest.raises(InputError, match=r"^Value iteration has not converged after 50 sweeps; expected"):
        optimal_values(mdp, torch.ones(1), sweeps=50)


@pytest.mark.parametrize(
    "transition",
    [[[1.0]], [[0.0, 1.0], [1.0, 0.0]], [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.6, 0.3, 0.1]]],
    ids=["stay", "cycle", "stochastic"],
)
def test_an_endless_policy_has_no_value(transition):
    states = len(transition)
    mdp = chain(transition, [1.0] * states, discount=1.0)
    with pytest.raises(InputError, match=r"^The policy's value is not defined: without discount it never ends"):
        policy_values(mdp, torch.zeros(states, dtype=torch.int64), torch.ones(1))


@pytest.mark.parametrize("gamma", [0.999, 0.9999])
def test_the_optimum_is_exact_near_gamma_one(gamma):
    mdp = one_state_mdp(gamma)
    slow = TabularMDP(mdp.transition, 1 - mdp.phi, torch.full_like(mdp.discount, gamma), mdp.legal, mdp.start)
    w = torch.tensor([1.0, -1.0], dtype=torch.float64)[:, None]
    expected = torch.tensor([1 / (1 - gamma), 0.0], dtype=torch.float64)
    torch.testing.assert_close(optimal_return(slow, w), expected, rtol=1e-12, atol=1e-12)
    assert optimal_return(slow, w).tolist() == policy_return(slow, optimal_policy(slow, w), w).tolist()
    assert effective_horizon(slow) == pytest.approx(1 / (1 - gamma), rel=1e-12)


def test_ties_do_not_depend_on_the_scale_of_the_task():
    w = torch.from_numpy(task_set("trip-directions"))
    assert torch.equal(optimal_policy(trip_mdp(), w), optimal_policy(trip_mdp(), 1e-9 * w))


def test_staying_forever_for_nothing_can_be_optimal_without_discount():
    mdp = one_state_mdp(0.9)
    endless = replace(mdp, discount=mdp.discount / 0.9)
    assert optimal_return(endless, torch.tensor([[-1.0], [1.0]], dtype=torch.float64)).tolist() == [0.0, 1.0]

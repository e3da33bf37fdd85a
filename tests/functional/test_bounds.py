from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from random_mdps import generators, random_mdp, random_tasks, tabular_mdps
from usfa.environments.tabular import trip_mdp
from usfa.functional import (
    TabularMDP,
    dual_norm,
    gpi_bound,
    gpi_policy,
    optimal_policy,
    optimal_values,
    policy_values,
    successor_features,
)

NORMS = ("1", "2", "inf")
norms = st.sampled_from(NORMS)


def true_gap(mdp, w, psi_tilde):
    """‖Q*_w' - Q^π_w'‖_∞ of the GPI policy, over legal actions."""
    gap = optimal_values(mdp, w) - policy_values(mdp, gpi_policy(mdp, psi_tilde, w), w)
    return gap[..., mdp.legal].amax(dim=-1)


def perturbed_case(mdp, rng, *shape, policies=3):
    """Tasks w' [*shape, D], C [*shape, N, D], exact ψ, and ψ̃ = ψ + noise of a random size."""
    w, z = random_tasks(rng, *shape, mdp.features), random_tasks(rng, *shape, policies, mdp.features)
    psi = successor_features(mdp, optimal_policy(mdp, z))
    noise = random_tasks(rng, *psi.shape) * rng.choice([0.0, 0.1, 1.0])
    return w, z, psi, psi + noise


@given(tabular_mdps(), generators, norms)
def test_gap_is_within_the_bound(mdp, rng, norm):
    w, z, psi, psi_tilde = perturbed_case(mdp, rng, 4)
    bound = gpi_bound(mdp, w, z, psi, psi_tilde, norm)
    assert bound.total.shape == (4,)
    assert (true_gap(mdp, w, psi_tilde) <= bound.total + 1e-9).all()


@given(generators, norms)
def test_gap_is_within_the_bound_without_discount(rng, norm):
    mdp = trip_mdp()
    w, z, psi, psi_tilde = perturbed_case(mdp, rng, 4)
    assert (true_gap(mdp, w, psi_tilde) <= gpi_bound(mdp, w, z, psi, psi_tilde, norm).total + 1e-9).all()


def test_trip_has_the_factor_four():
    mdp = trip_mdp()
    w, z = torch.tensor([0.0, 2.0]), torch.tensor([[0.0, 1.0], [5.0, 5.0]])
    psi = successor_features(mdp, optimal_policy(mdp, z))
    bound = gpi_bound(mdp, w, z, psi, psi + 0.5)
    assert bound.distance_term.item() == pytest.approx(4 * 1.0 * 1.0)  # 2H ‖φ‖ ‖w' - z‖
    assert bound.approximation_term.item() == pytest.approx(4 * 2.0 * 0.5 * 2**0.5)  # 2H ‖w'‖ ‖(½, ½)‖
    assert bound.total.item() == pytest.approx(4 + 4 * 2**0.5)


def length(x, norm):
    entries = [abs(float(entry)) for entry in x]
    return {"1": sum(entries), "2": sum(e * e for e in entries) ** 0.5, "inf": max(entries)}[norm]


@pytest.mark.parametrize("norm", NORMS)
def test_terms_are_the_literal_loops(norm):
    rng = np.random.default_rng(3)
    mdp = random_mdp(rng, states=3, actions=3, features=2, gamma=0.8)
    w, z, psi, psi_tilde = perturbed_case(mdp, rng)
    psi_tilde = psi + random_tasks(rng, *psi.shape)
    psi_tilde[:, ~mdp.legal] += 1e6  # never acted on
    bound = gpi_bound(mdp, w, z, psi, psi_tilde, norm)
    legal = [(s, a) for s, a in np.ndindex(3, 3) if mdp.legal[s, a]]
    for n in range(3):
        errors = [length(psi[n, s, a] - psi_tilde[n, s, a], norm) for s, a in legal]
        assert bound.delta_psi[n].item() == pytest.approx(max(errors))
        assert bound.delta_d[n].item() == pytest.approx(length(w - z[n], dual_norm(norm)))
    phi_norm = max(length(mdp.phi[s, a, t], norm) for s, a in legal for t in range(3) if mdp.transition[s, a, t] > 0)
    printed = length(w, dual_norm(norm)) * bound.delta_psi.max().item()
    assert bound.printed_approximation_term.item() == pytest.approx(printed)
    ratio = bound.approximation_term / bound.printed_approximation_term  # 2H
    assert bound.distance_term.item() == pytest.approx(ratio.item() * phi_norm * bound.delta_d.min().item())


@given(generators, norms)
def test_dual_norms_satisfy_hoelder(rng, norm):
    x, y = rng.standard_normal((2, 4))
    assert abs(x @ y) <= length(x, norm) * length(y, dual_norm(norm)) + 1e-12


@pytest.mark.parametrize(("norm", "direction"), [("1", [0, 1]), ("2", [0.6, 0.8]), ("inf", [1, 1])])
def test_dual_norms_are_the_smallest_that_do(norm, direction):
    """For y = (3, 4) some x of length 1 reaches ‖y‖_*."""
    assert length(direction, norm) == pytest.approx(1)
    assert np.dot(direction, [3, 4]) == pytest.approx(length([3, 4], dual_norm(norm)))


def test_printed_proposition_fails_where_ours_holds():
    """Erratum 2. Both actions stay, φ = 1 and 0, γ = 0.9: an error of ½ in ψ̃ makes GPI earn nothing."""
    mdp = TabularMDP(
        transition=torch.ones(1, 2, 1, dtype=torch.float64),
        phi=torch.tensor([1.0, 0.0], dtype=torch.float64).reshape(1, 2, 1, 1),
        discount=torch.full((1, 2, 1), 0.9, dtype=torch.float64),
        legal=torch.ones(1, 2, dtype=torch.bool),
        start=torch.ones(1, dtype=torch.float64),
    )
    w = torch.ones(1, dtype=torch.float64)
    psi = successor_features(mdp, optimal_policy(mdp, w[None]))
    torch.testing.assert_close(psi.flatten(), torch.tensor([10.0, 9.0], dtype=torch.float64))
    psi_tilde = torch.tensor([9.5 - 1e-6, 9.5], dtype=torch.float64).reshape(1, 1, 2, 1)
    assert gpi_policy(mdp, psi_tilde, w).tolist() == [1]
    gap = true_gap(mdp, w, psi_tilde).item()
    bound = gpi_bound(mdp, w, w[None], psi, psi_tilde)
    assert gap == pytest.approx(9)
    assert bound.printed.item() == pytest.approx(0.5, abs=1e-5)
    assert bound.total.item() == pytest.approx(10, abs=1e-4)
    assert bound.printed < gap <= bound.total


# --- rewards that φ cannot express: r = φ·w + e ---


def rewarded_case(seed):
    """A random MDP, a task with the reward φ·w + e, its bound, and the true gap of GPI for that reward."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, (4, 4, 4)).tolist()
    mdp = random_mdp(rng, *sizes, gamma=float(rng.uniform(0, 0.94)))
    w, z, psi, psi_tilde = perturbed_case(mdp, rng)
    z[0] = w  # no distance, so that the third term matters
    psi[0] = psi_tilde[0] = successor_features(mdp, optimal_policy(mdp, w))
    error = random_tasks(rng, *mdp.transition.shape) * rng.choice([0.01, 0.3, 3.0])
    reward = torch.einsum("satd,d->sat", mdp.phi, w) + error
    bound = gpi_bound(mdp, w, z, psi, psi_tilde, reward=reward)
    alone = replace(mdp, phi=reward[..., None])  # the same MDP, whose only feature is the reward
    policy, one = gpi_policy(mdp, psi_tilde, w), torch.ones(1, dtype=torch.float64)
    gap = (optimal_values(alone, one) - policy_values(alone, policy, one))[mdp.legal].amax()
    return bound, gap


def check_rewarded_bounds(seeds):
    needed = 0
    for seed in seeds:
        bound, gap = rewarded_case(seed)
        assert gap <= bound.total + 1e-9
        needed += bool(gap > bound.total - bound.reward_term + 1e-9)
    return needed


def test_gap_is_within_three_terms_and_not_within_two():
    assert check_rewarded_bounds(range(100)) > 3


@pytest.mark.long
def test_three_terms_hold_on_a_thousand_mdps():
    assert check_rewarded_bounds(range(1000)) > 30


def test_the_reward_term_is_the_literal_loop():
    rng = np.random.default_rng(3)
    mdp = random_mdp(rng, states=3, actions=3, features=2, gamma=0.8)
    w, z, psi, psi_tilde = perturbed_case(mdp, rng)
    reward = random_tasks(rng, 3, 3, 3)
    bound = gpi_bound(mdp, w, z, psi, psi_tilde, reward=reward)
    errors = []
    for s, a in np.ndindex(3, 3):
        if mdp.legal[s, a]:
            errors.append(abs(sum(float(mdp.transition[s, a, t] * (reward[s, a, t] - mdp.phi[s, a, t] @ w))
                                  for t in range(3) if mdp.transition[s, a, t] > 0)))  # fmt: skip
    assert bound.delta_r.item() == pytest.approx(max(errors))
    factor = bound.approximation_term / bound.printed_approximation_term  # 2H
    assert bound.reward_term.item() == pytest.approx(float(factor) * max(errors))
    assert gpi_bound(mdp, w, z, psi, psi_tilde).reward_term.item() == 0

from typing import NamedTuple

import numpy as np
import pytest
import torch

from random_mdps import random_mdp, random_tasks
from usfa.decisions import CandidateSet, Cautious, Situation, Steady
from usfa.functional import (
    Choice,
    TabularMDP,
    across_error,
    choose,
    choose_steadily,
    effective_horizon,
    gpi,
    optimal_policy,
    policy_actions,
    policy_values,
    stake,
    successor_features,
    take_actions,
    temper,
)

T, B, N, A, D = 5, 8, 3, 4, 2


# --- the literal formulas -----------------------------------------------------------------------------------


class Inputs(NamedTuple):
    """What `choose` takes, with axes [T, B] in front; all numbers are small integers, so ties are common and exact."""

    psi: torch.Tensor  # [T, B, N, A, D]
    w: torch.Tensor  # [T, B, D]
    z: torch.Tensor  # [T, B, N, D]
    legal: torch.Tensor  # [T, B, A]
    doubt: torch.Tensor  # [T, B, N]
    margin: torch.Tensor  # [T, B, N], a few of them infinite


def random_inputs(seed):
    rng = np.random.default_rng(seed)

    def integers(low, high, *shape):
        return torch.from_numpy(rng.integers(low, high, shape, endpoint=True).astype(np.float64))

    legal = torch.from_numpy(rng.random((T, B, A)) < 0.6)
    legal[..., 1] = True
    margin = integers(0, 3, T, B, N)
    margin[torch.from_numpy(rng.random((T, B, N)) < 0.2)] = torch.inf
    psi, w, z = integers(-2, 2, T, B, N, A, D), integers(-2, 2, T, B, D), integers(-2, 2, T, B, N, D)
    return Inputs(psi, w, z, legal, integers(0, 2, T, B, N), margin)


def slow_choice(psi, w, z, legal, doubt, margin):
    """Action, policy, improved and q of one state, in plain loops; ties go to the lowest action, then policy."""
    psi, w, z, doubt, margin = (x.tolist() for x in (psi, w, z, doubt, margin))
    actions = [a for a in range(A) if legal[a]]

    def dot(x, y):
        return sum(one * other for one, other in zip(x, y, strict=True))

    def value(n, a):
        return dot(psi[n][a], w) - doubt[n]

    own = [max(actions, key=lambda a, n=n: dot(psi[n][a], z[n])) for n in range(N)]
    leader = max(range(N), key=lambda n: value(n, own[n]))
    promises = {(a, n): value(n, a) - margin[n] for a in actions for n in range(N)}
    action, policy = max(promises, key=promises.get)
    if promises[action, policy] < value(leader, own[leader]):
        action, policy = own[leader], leader
    q = [max(value(n, a) for n in range(N)) if a in actions else -torch.inf for a in range(A)]
    return action, policy, action != own[policy], q


@pytest.mark.parametrize("seed", range(20))
def test_choice_is_the_literal_loop(seed):
    given = random_inputs(seed)
    found = choose(*given)
    for t, b in np.ndindex(T, B):
        action, policy, improved, q = slow_choice(*(x[t, b] for x in given))
        assert (found.action[t, b], found.policy[t, b], found.improved[t, b]) == (action, policy, improved)
        assert found.q[t, b].tolist() == q


def test_choices_without_a_mask_allow_everything():
    psi, w, z, legal, doubt, margin = random_inputs(0)
    everything = choose(psi, w, z, torch.ones_like(legal), doubt, margin)
    for found, expected in zip(choose(psi, w, z, None, doubt, margin), everything, strict=True):
        assert torch.equal(found, expected)


def test_own_actions_may_be_given():
    given = random_inputs(0)
    own = policy_actions(given.psi, given.z, given.legal)
    for found, expected in zip(choose(*given, own), choose(*given), strict=True):
        assert torch.equal(found, expected)
    other = (own + 1) % A
    assert torch.equal(choose(given.psi, given.w, given.z, None, 0.0, torch.inf, other).action, followed(given, other))


def followed(given, own):
    """The action of the policy that is worth most on w, without doubts."""
    worth = torch.einsum("...nd,...d->...n", take_actions(given.psi, own), given.w)
    return own.take_along_dim(worth.argmax(dim=-1, keepdim=True), dim=-1)[..., 0]


def test_a_batch_is_each_of_its_parts():
    given = random_inputs(1)
    batch = choose(*given)
    for t in range(T):
        for found, expected in zip(choose(*(x[t] for x in given)), batch, strict=True):
            assert torch.equal(found, expected[t])
    alone = choose(*(x[2, 3] for x in given))
    assert alone.action.shape == alone.policy.shape == alone.improved.shape == ()
    assert alone.q.shape == (A,)


def test_one_task_one_doubt_and_one_margin_serve_every_state():
    psi, w, z, legal, *_ = random_inputs(2)
    one = choose(psi, w[0, 0], z[0, 0], legal, 1.0, 0.5)
    numbers = [torch.full((T, B, N), number) for number in (1.0, 0.5)]
    each = choose(psi, w[:1, :1].expand(T, B, D), z[:1, :1].expand(T, B, N, D), legal, *numbers)
    for found, expected in zip(one, each, strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("seed", range(20))
def test_without_doubt_and_margin_it_is_gpi_with_its_ties(seed):
    psi, w, z, legal, *_ = random_inputs(seed)
    found, expected = choose(psi, w, z, legal), gpi(psi, w, legal)
    assert torch.equal(found.action, expected.action)
    assert torch.equal(found.policy, expected.policy)
    assert torch.equal(found.q, expected.q_max)


@pytest.mark.parametrize("seed", range(20))
def test_an_infinite_margin_selects_a_policy_and_follows_it(seed):
    psi, w, z, legal, doubt, _ = random_inputs(seed)
    found = choose(psi, w, z, legal, doubt, torch.inf)
    own = policy_actions(psi, z, legal)
    worth = torch.einsum("...nd,...d->...n", take_actions(psi, own), w) - doubt
    assert torch.equal(found.policy, worth.argmax(dim=-1))
    assert torch.equal(found.action, own.take_along_dim(found.policy[..., None], dim=-1)[..., 0])
    assert not found.improved.any()


def test_a_promise_that_equals_the_margin_is_enough():
    psi = torch.tensor([[[1.0, 0.0], [0.5, 1.5]]])  # one policy, two actions
    w, z = torch.tensor([1.0, 1.0]), torch.tensor([[1.0, 0.0]])  # following is worth 1, the other action promises 2
    found = choose(psi, w, z, margin=1.0)
    assert (found.action, found.improved) == (1, True)
    found = choose(psi, w, z, margin=1.001)
    assert (found.action, found.improved) == (0, False)


def test_stake_is_the_literal_sum():
    psi, w = random_tasks(np.random.default_rng(0), T, N, D), random_tasks(np.random.default_rng(1), T, D)
    found = stake(psi, w)
    assert found.shape == (T, N)
    for t, n in np.ndindex(T, N):
        expected = sum(abs(float(psi[t, n, d] * w[t, d])) for d in range(D))
        assert found[t, n].item() == pytest.approx(expected)


def test_stake_does_not_vanish_where_gains_and_losses_cancel():
    assert stake(torch.tensor([[3.0, 3.0]]), torch.tensor([1.0, -1.0])).tolist() == [6.0]


def error_inputs(seed=0):
    """ψ [T, N, D], w [T, D], z [T, N, D] and ρ [T, D]."""
    rng = np.random.default_rng(seed)
    shapes = ((T, N, D), (T, D), (T, N, D))
    return *(random_tasks(rng, *shape) for shape in shapes), torch.from_numpy(rng.random((T, D)))


def test_across_error_is_the_literal_formula():
    psi, w, z, relative = error_inputs()
    found = across_error(psi, w, z, relative)
    assert found.shape == (T, N)
    for t, n in np.ndindex(T, N):
        c = sum(float(w[t, d] * z[t, n, d]) for d in range(D)) / sum(float(z[t, n, d]) ** 2 for d in range(D))
        terms = [float(relative[t, d] * psi[t, n, d].abs()) * abs(float(w[t, d] - c * z[t, n, d])) for d in range(D)]
        assert found[t, n].item() == pytest.approx(sum(terms))


@pytest.mark.parametrize("factor", [1.0, 0.3, -2.0])
def test_nothing_is_across_a_parallel_task(factor):
    psi, w, _, relative = error_inputs()
    z = factor * w[:, None].expand(T, N, D)
    torch.testing.assert_close(across_error(psi, w, z, relative), torch.zeros(T, N, dtype=torch.float64))


def test_every_error_is_across_no_policy():
    psi, w, z, relative = error_inputs()
    expected = torch.einsum("td,tnd,td->tn", relative, psi.abs(), w.abs())
    torch.testing.assert_close(across_error(psi, w, 0 * z, relative), expected)


def test_across_error_scales_with_w_and_not_with_z():
    psi, w, z, relative = error_inputs()
    once = across_error(psi, w, z, relative)
    torch.testing.assert_close(across_error(psi, 2 * w, z, relative), 2 * once)
    torch.testing.assert_close(across_error(psi, w, 7 * z, relative), once)
    torch.testing.assert_close(across_error(psi, w, -z, relative), once)


def temper_inputs(seed=0):
    """ψ [T, N, A, D], z [T, N, D], π_z(s) [T, N], trust [T, N] and gap scale [T]."""
    rng = np.random.default_rng(seed)
    psi, z = random_tasks(rng, T, N, A, D), random_tasks(rng, T, N, D)
    return psi, z, policy_actions(psi, z), torch.from_numpy(rng.random((T, N))), torch.from_numpy(rng.random(T))


def test_temper_is_the_literal_formula():
    psi, z, own, trust, scale = temper_inputs()
    found = temper(psi, z, own, trust, scale)
    for t, n, a in np.ndindex(T, N, A):
        at_own = psi[t, n, own[t, n]]
        difference = psi[t, n, a] - at_own
        along = (difference @ z[t, n]) / (z[t, n] @ z[t, n]) * z[t, n]
        expected = at_own + scale[t] * (along + trust[t, n] * (difference - along))
        torch.testing.assert_close(found[t, n, a], expected)


def test_full_trust_leaves_psi_as_it_is_to_the_bit():
    psi, z, own, trust, scale = temper_inputs()
    assert torch.equal(temper(psi, z, own, 0 * trust + 1, 0 * scale + 1), psi)


def test_tempering_keeps_policies_and_their_values():
    psi, z, own, trust, scale = temper_inputs()
    found = temper(psi, z, own, trust, scale + 0.1)
    assert torch.equal(take_actions(found, own), take_actions(psi, own))
    assert torch.equal(policy_actions(found, z), own)


def test_everything_is_across_no_policy():
    psi, z, own, trust, scale = temper_inputs()
    at_own = take_actions(psi, own)[..., None, :]
    expected = at_own + (scale[:, None] * trust)[..., None, None] * (psi - at_own)
    torch.testing.assert_close(temper(psi, 0 * z, own, trust, scale), expected)


# --- docs/decision-rules.md: the theorems, on random MDPs -----------------------------------------------------

MDPS, STATES, POLICIES, FEATURES = 1500, 5, 3, 3
SLACK = 1e-9  # for rounding


class Solved(NamedTuple):
    """M random MDPs, each with a task w and the optimal policies of other tasks z, solved in one batch."""

    mdps: list[TabularMDP]
    phi: torch.Tensor  # [M, S, A, D]     E[φ | s,a]
    continuation: torch.Tensor  # [M, S, A, S]
    legal: torch.Tensor  # [M, S, A]
    start: torch.Tensor  # [M, S]
    w: torch.Tensor  # [M, D]
    z: torch.Tensor  # [M, N, D]
    own: torch.Tensor  # [M, S, N]        π_z(s)
    psi: torch.Tensor  # [M, S, N, A, D]  exact
    horizon: torch.Tensor  # [M]              H

    @property
    def q(self):
        """Q^z(s,a) on w, [M, S, N, A]; 0 where illegal."""
        return self.on_w(self.psi)

    @property
    def values(self):
        """V^z(s) on w, [M, S, N]."""
        return self.q.take_along_dim(self.own[..., None], dim=-1)[..., 0]

    @property
    def best(self):
        """V̄(s) = max_z V^z(s), [M, S]."""
        return self.values.amax(dim=-1)

    def on_w(self, psi):
        value = torch.einsum("msnad,md->msna", psi, self.w)
        return value.masked_fill(~self.legal[:, :, None], 0.0)

    def choose(self, psi, margin):
        """The choice in every state; `margin` [M, N] or [M, 1]."""
        policies = psi.shape[2]
        margin = margin[:, None].expand(MDPS, STATES, policies)
        return choose(psi, self.w[:, None], self.z[:, None, :policies], self.legal, margin=margin)

    def earned(self, action):
        """V^π(s) on w of actions [M, S], [M, S]."""
        reward = torch.einsum("msad,md->msa", self.phi, self.w)
        return evaluate(self.continuation, reward, action)

    def trusted(self, found):
        """Q^z(s,a) on w of the chosen action and the trusted policy, [M, S]."""
        of_policy = self.q.take_along_dim(found.policy[..., None, None], dim=2)[:, :, 0]
        return of_policy.take_along_dim(found.action[..., None], dim=-1)[..., 0]


def evaluate(continuation, reward, action):
    """v = r_π + P_π v: continuation [M, S, A, S], reward [M, S, A] and actions [M, S] -> [M, S]."""
    p_pi = continuation.take_along_dim(action[..., None, None], dim=2)[:, :, 0]
    r_pi = reward.take_along_dim(action[..., None], dim=2)
    return torch.linalg.solve(torch.eye(STATES, dtype=torch.float64) - p_pi, r_pi)[..., 0]


def optimise(continuation, reward, legal):
    """Policy iteration: optimal actions [M, S] for rewards [M, S, A], and their values."""
    action = legal.to(torch.int8).argmax(dim=-1)
    while True:
        values = evaluate(continuation, reward, action)
        q = reward + torch.einsum("msat,mt->msa", continuation, values)
        q = q.masked_fill(~legal, -torch.inf)
        better = q.amax(dim=-1) > values + SLACK
        if not better.any():
            return action, values
        action = torch.where(better, q.argmax(dim=-1), action)


@pytest.fixture(scope="module")
def solved():
    rng = np.random.default_rng(2017)
    mdps = [random_mdp(rng, STATES, A, FEATURES, gamma) for gamma in rng.uniform(0.5, 0.95, MDPS)]
    legal = torch.stack([mdp.legal for mdp in mdps])
    phi = torch.stack([mdp.expected_phi for mdp in mdps])
    continuation = torch.stack([mdp.continuation for mdp in mdps])
    w, z = random_tasks(rng, MDPS, FEATURES), random_tasks(rng, MDPS, POLICIES, FEATURES)
    own = [optimise(continuation, torch.einsum("msad,md->msa", phi, z[:, n]), legal)[0] for n in range(POLICIES)]
    psi = []
    for action in own:
        at_states = torch.stack([evaluate(continuation, phi[..., d], action) for d in range(FEATURES)], dim=-1)
        psi.append(phi + torch.einsum("msat,mtd->msad", continuation, at_states))
    horizon = optimise(continuation, torch.ones(MDPS, STATES, A, dtype=torch.float64), legal)[1].amax(dim=-1)
    start = torch.stack([mdp.start for mdp in mdps])
    own, psi = torch.stack(own, dim=-1), torch.stack(psi, dim=2)
    return Solved(mdps, phi, continuation, legal, start, w, z, own, psi, horizon)


def test_the_batch_is_what_exact_solves_one_by_one(solved):
    for m in range(0, MDPS, 50):
        mdp, w = solved.mdps[m], solved.w[m]
        policy = optimal_policy(mdp, solved.z[m])
        assert torch.equal(policy, solved.own[m].T)
        torch.testing.assert_close(successor_features(mdp, policy), solved.psi[m].transpose(0, 1))
        assert effective_horizon(mdp) == pytest.approx(solved.horizon[m].item())
        q = policy_values(mdp, solved.own[m, :, 0], w)
        torch.testing.assert_close(solved.q[m, :, 0], q.masked_fill(~mdp.legal, 0.0))
        torch.testing.assert_close(solved.earned(solved.own[..., 0])[m], solved.values[m, :, 0])


def wrong_everywhere(solved, seed=0):
    """ψ̃ with errors of any size and direction in all entries, and ε [M, N], the largest |q̃ - Q| of each policy.

    Where an error would make π_z(s) another action than the one ψ is about, the other actions lose as much along z.
    """
    rng = np.random.default_rng(seed)
    size = torch.from_numpy(rng.choice([0.01, 0.1, 0.3], (MDPS, 1, POLICIES, 1, 1)))
    psi = solved.psi + size * random_tasks(rng, *solved.psi.shape)
    own_q = torch.einsum("msnad,mnd->msna", psi, solved.z)
    excess = (own_q - own_q.take_along_dim(solved.own[..., None], dim=-1) + 1e-6).clamp(min=0)
    excess = excess.scatter(-1, solved.own[..., None], 0.0)
    z = solved.z[:, None, :, None]
    psi = psi - excess[..., None] * z / z.square().sum(dim=-1, keepdim=True)
    assert torch.equal(policy_actions(psi, solved.z[:, None], solved.legal), solved.own)
    return psi, (solved.on_w(psi) - solved.q).abs().amax(dim=(1, 3))


def wrong_between_actions(solved, seed=0):
    """ψ̃ that is right along the policies and wrong across z elsewhere, and ε [M, 1], the size of V̄ itself."""
    rng = np.random.default_rng(seed)
    along = torch.einsum("mnd,md->mn", solved.z, solved.w) / solved.z.square().sum(dim=-1)
    across = solved.w[:, None] - along[..., None] * solved.z
    across = across / torch.einsum("mnd,md->mn", across, solved.w)[..., None]  # worth 1 on w, 0 on z
    epsilon = solved.best.abs().mean(dim=-1, keepdim=True)
    error = epsilon[:, None, None] * torch.from_numpy(rng.uniform(-1, 1, solved.psi.shape[:-1]))
    error = error.scatter(-1, solved.own[..., None], 0.0)
    psi = solved.psi + error[..., None] * across[:, None, :, None]
    assert torch.equal(policy_actions(psi, solved.z[:, None], solved.legal), solved.own)
    return psi, epsilon


def test_theorem_1_no_improving_step_is_a_false_one(solved):
    psi, errors = wrong_everywhere(solved)
    epsilon = errors.amax(dim=-1, keepdim=True)
    found = solved.choose(psi, 2 * epsilon)
    gain = (solved.trusted(found) - solved.best)[found.improved]
    assert len(gain) > 500
    assert gain.min() >= -SLACK
    for_nothing = solved.choose(psi, 0 * epsilon)  # Eq. 3
    gain = (solved.trusted(for_nothing) - solved.best)[for_nothing.improved]
    assert (gain < -SLACK).double().mean() > 0.15


def test_theorem_1_keeps_the_bound_of_gpi(solved):
    psi, errors = wrong_everywhere(solved)
    epsilon = errors.amax(dim=-1, keepdim=True)
    loss = solved.best - solved.earned(solved.choose(psi, 2 * epsilon).action)
    assert (loss <= 2 * epsilon * solved.horizon[:, None] + SLACK).all()
    assert (loss > SLACK).any()  # selection among policies can be wrong


def test_theorem_1_with_a_margin_per_policy_improves_on_the_trusted_one(solved):
    psi, errors = wrong_everywhere(solved)
    found = solved.choose(psi, 2 * errors)
    of_trusted = solved.values.take_along_dim(found.policy[..., None], dim=-1)[..., 0]
    steps = solved.trusted(found)[found.improved]
    assert (steps - of_trusted[found.improved]).min() >= -SLACK
    assert (steps - solved.best[found.improved]).min() < -SLACK  # but V̄ needs the largest ε in C


def test_one_policy_is_never_made_worse(solved):
    psi, errors = wrong_everywhere(solved)
    gain = solved.earned(solved.choose(psi[:, :, :1], 2 * errors[:, :1]).action) - solved.values[..., 0]
    assert gain.min() >= -SLACK
    assert (gain > SLACK).any(dim=-1).double().mean() > 0.7
    eq_3 = solved.earned(solved.choose(psi[:, :, :1], 0 * errors[:, :1]).action) - solved.values[..., 0]
    assert (eq_3 < -SLACK).any(dim=-1).double().mean() > 0.04


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_theorem_2_the_rule_is_never_below_the_best_policy(solved, factor):
    psi, epsilon = wrong_between_actions(solved)
    gain = solved.earned(solved.choose(psi, factor * epsilon).action) - solved.best
    assert gain.min() >= -SLACK
    from_start = torch.einsum("ms,ms->m", gain, solved.start)
    assert (from_start > SLACK).double().mean() > 0.35


@pytest.mark.parametrize(("factor", "share"), [(0.0, 0.35), (0.5, 0.15), (0.9, 0.005)])
def test_theorem_2_needs_its_margin(solved, factor, share):
    """Eq. 3 and smaller margins fall below V̄ from the start in so many of the MDPs."""
    psi, epsilon = wrong_between_actions(solved)
    gain = solved.earned(solved.choose(psi, factor * epsilon).action) - solved.best
    from_start = torch.einsum("ms,ms->m", gain, solved.start)
    assert (from_start < -SLACK).double().mean() > share


def test_theorem_1_needs_the_factor_two():
    """Both values are wrong by ε = 1, to opposite sides: the action is worse by 0.1 and promises 1.9 more."""
    truth = torch.tensor([[[1.0, 5.0], [0.0, 4.9]]])  # [N=1, A=2, D=2]; z sees the first feature, w the second
    psi = truth + torch.tensor([[[0.0, -1.0], [0.0, 1.0]]])
    z, w = torch.tensor([[1.0, 0.0]]), torch.tensor([0.0, 1.0])
    assert choose(psi, w, z, margin=1.8).action == 1
    assert choose(psi, w, z, margin=2.0).action == 0


def steady_choice(solved, psi, trust, gap_scale=1.0):
    """The choice of `steady` in every state, without doubts; with a step_error of 1, H is 1 / trust - 1."""
    w, z = (x.repeat_interleave(STATES, dim=0) for x in (solved.w, solved.z))
    rows = MDPS * STATES
    errors = torch.ones(rows, FEATURES), torch.zeros(rows, POLICIES), torch.full((rows,), 1 / trust - 1)
    scale = torch.full((rows,), gap_scale)
    found = choose_steadily(psi.flatten(0, 1), w, z, solved.legal.flatten(0, 1), *errors, scale, caution=1.0)
    return Choice(*(x.unflatten(0, (MDPS, STATES)) for x in found))


@pytest.mark.parametrize(("trust", "gap_scale"), [(0.01, 1.0), (0.25, 1.0), (0.7, 1.0), (1.0, 1.0), (0.25, 0.1)])
def test_theorem_3_with_an_exact_psi_no_trust_is_too_small(solved, trust, gap_scale):
    found = steady_choice(solved, solved.psi, trust, gap_scale)
    assert (solved.trusted(found) - solved.best).min() >= -SLACK
    gain = solved.earned(found.action) - solved.best
    assert gain.min() >= -SLACK
    assert (gain > SLACK).any()


def promising_too_much(solved, factor):
    """ψ̃ whose differences across z are `factor` times as large where they are gains."""
    difference = solved.psi - take_actions(solved.psi, solved.own)[..., None, :]
    unit = torch.nn.functional.normalize(solved.z, dim=-1)[:, None, :, None]
    across = difference - (difference * unit).sum(dim=-1, keepdim=True) * unit
    gains = torch.einsum("msnad,md->msna", across, solved.w) > 0
    psi = solved.psi + torch.where(gains[..., None], (factor - 1) * across, 0.0)
    assert torch.equal(policy_actions(psi, solved.z[:, None], solved.legal), solved.own)
    return psi


def test_theorem_3_allows_gains_that_are_1_over_trust_times_too_large(solved):
    served = (torch.einsum("mnd,md->mn", solved.z, solved.w) > 0).all(dim=-1)
    psi = promising_too_much(solved, 4.0)
    gain = (solved.earned(steady_choice(solved, psi, 0.25).action) - solved.best)[served]
    assert served.sum() > 100
    assert gain.min() >= -SLACK
    assert (gain > SLACK).any()
    for trust in (1.0, 0.5):  # Eq. 3, and too much trust
        gain = (solved.earned(steady_choice(solved, psi, trust).action) - solved.best)[served]
        assert gain.min() < -SLACK


@pytest.mark.parametrize("rule", [Cautious(), Steady()], ids=lambda rule: rule.name)
def test_with_an_exact_psi_it_is_gpi(solved, rule):
    psi, legal = solved.psi.flatten(0, 1), solved.legal.flatten(0, 1)
    w, z = (x.repeat_interleave(STATES, dim=0) for x in (solved.w, solved.z))
    found = rule.decide(Situation(psi, w, z, legal, *CandidateSet.believed(z)[1:]))
    assert torch.equal(found.action, gpi(psi, w, legal).action)
    gain = solved.earned(found.action.unflatten(0, (MDPS, STATES))) - solved.best
    assert gain.min() >= -SLACK

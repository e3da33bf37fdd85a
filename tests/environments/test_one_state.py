"""Appendix A, rule by rule."""

import pytest

from usfa.environments import OneState, one_state_mdp
from usfa.errors import InputError


def test_a1_stays_for_nothing_and_a2_leaves_for_one():
    env = OneState()
    state, info = env.reset(seed=0)
    assert (state, info["action_mask"].tolist()) == (0, [1, 1])
    assert env.action_names == ("a1", "a2")
    for _ in range(5):
        state, phi, terminated, truncated, _ = env.step(0)
        assert (state, phi.tolist(), terminated, truncated) == (0, [0.0], False, False)
    _, phi, terminated, truncated, _ = env.step(1)
    assert (phi.tolist(), terminated, truncated) == ([1.0], True, False)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99])
def test_gamma_discounts_staying_only(gamma):
    env = OneState(gamma=gamma)
    assert env.mdp.discount.flatten().tolist() == [gamma, 0.0]


@pytest.mark.parametrize("gamma", [1.0, -0.1, float("nan")])
def test_impossible_gammas(gamma):
    with pytest.raises(InputError, match=r"expected 0 ≤ gamma < 1, as staying forever must have a value\.$"):
        one_state_mdp(gamma)

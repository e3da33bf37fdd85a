import numpy as np
import pytest

from usfa.playground.teaching import Teaching


def one_hot(index, times=1.0):
    return times * np.eye(4)[index]


def test_many_marks_find_the_task():
    rng, hidden = np.random.default_rng(0), np.array([1.0, -1.0, 0.5, 0.0])
    teaching = Teaching(4)
    for _ in range(200):
        phi = rng.multinomial(2, np.full(4, 0.25)).astype(float)
        rated = teaching.rate(phi, float(phi @ hidden / phi.sum() + rng.normal(scale=0.1)))
    np.testing.assert_allclose(rated.w, hidden, atol=0.05)
    assert max(rated.std) < 0.1
    assert "Every direction" in rated.says


def test_doubt_falls_only_where_something_was_rated():
    teaching = Teaching(4)
    first = teaching.rate(one_hot(2), 1.0)
    assert first.std == [1, 1, pytest.approx(0.2873, abs=1e-3), 1]
    assert "3 directions of the task have not been rated" in first.says
    second = teaching.rate(one_hot(2), 1.0)
    assert second.std[2] < first.std[2]
    assert second.w[2] > first.w[2]
    assert second.w[:2] == [0, 0]


def test_the_doubt_is_that_of_bayesian_regression():
    """Against the literal posterior: precision = Σ φφᵀ/σ² + I."""
    teaching, rng = Teaching(4), np.random.default_rng(1)
    precision = np.eye(4)
    for _ in range(7):
        phi = rng.integers(0, 3, size=4).astype(float)
        if phi.any():
            share = phi / phi.sum()
            precision += np.outer(share, share) / 0.3**2
            rated = teaching.rate(phi, 0.5)
    np.testing.assert_allclose(rated.std, np.sqrt(np.diag(np.linalg.inv(precision))), atol=1e-4)


def test_a_mark_is_about_what_happened_on_average():
    """Five balls in a good moment are not worth less each than one."""
    one, five = Teaching(4), Teaching(4)
    assert one.rate(one_hot(1), 1.0).w == five.rate(one_hot(1, 5.0), 1.0).w


def test_what_is_bad_gets_a_negative_weight():
    assert Teaching(4).rate(one_hot(0), -1.0).w[0] < -0.8


def test_nothing_says_nothing():
    rated = Teaching(4).rate(np.zeros(4), 1.0)
    assert (rated.ratings, rated.w) == (0, None)
    assert "say nothing" in rated.says

import numpy as np
import pytest

from usfa.playground.ratings import Ratings


def one_hot(index, times=1.0):
    return times * np.eye(4)[index]


def test_many_ratings_find_the_task():
    rng, hidden = np.random.default_rng(0), np.array([1.0, -1.0, 0.5, 0.0])
    ratings = Ratings(4)
    for _ in range(200):
        phi = rng.multinomial(2, np.full(4, 0.25)).astype(float)
        rated = ratings.add(phi, float(phi @ hidden / phi.sum() + rng.normal(scale=0.1)))
    np.testing.assert_allclose(rated.w, hidden, atol=0.05)
    assert max(rated.std) < 0.1
    assert "Every direction" in rated.message


def test_doubt_falls_only_where_something_was_rated():
    ratings = Ratings(4)
    first = ratings.add(one_hot(2), 1.0)
    assert first.std == [1, 1, pytest.approx(0.2873, abs=1e-3), 1]
    assert "3 directions of the task have not been rated" in first.message
    second = ratings.add(one_hot(2), 1.0)
    assert second.std[2] < first.std[2]
    assert second.w[2] > first.w[2]
    assert second.w[:2] == [0, 0]


def test_the_doubt_is_that_of_bayesian_regression():
    """Against the literal posterior: precision = Σ φφᵀ/σ² + I."""
    ratings, rng = Ratings(4), np.random.default_rng(1)
    precision = np.eye(4)
    for _ in range(7):
        phi = rng.integers(0, 3, size=4).astype(float)
        if phi.any():
            share = phi / phi.sum()
            precision += np.outer(share, share) / 0.3**2
            rated = ratings.add(phi, 0.5)
    np.testing.assert_allclose(rated.std, np.sqrt(np.diag(np.linalg.inv(precision))), atol=1e-4)


def test_a_rating_covers_the_average_of_its_steps():
    """Five balls in a good moment are not worth less each than one."""
    one, five = Ratings(4), Ratings(4)
    assert one.add(one_hot(1), 1.0).w == five.add(one_hot(1, 5.0), 1.0).w


def test_what_is_bad_gets_a_negative_weight():
    assert Ratings(4).add(one_hot(0), -1.0).w[0] < -0.8


def test_a_rating_without_features_is_not_used():
    rated = Ratings(4).add(np.zeros(4), 1.0)
    assert (rated.ratings, rated.w) == (0, None)
    assert "was not used" in rated.message

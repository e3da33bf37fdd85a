import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_mdps import generators
from usfa.errors import InputError
from usfa.functional import infer_task, unexplained_share
from usfa.tasks import parse_task


@given(generators, st.integers(1, 4))
def test_recovers_the_task(rng, features):
    w, phi = rng.standard_normal(features), rng.standard_normal((20, features))
    found = infer_task(phi, phi @ w)
    np.testing.assert_allclose(found.w, w, atol=1e-9)
    assert found.determined
    assert found.residual == pytest.approx(0, abs=1e-9)


def test_noise_is_averaged_by_least_squares():
    rng = np.random.default_rng(0)
    phi, reward = rng.standard_normal((30, 3)), rng.standard_normal(30)
    with pytest.warns(UserWarning, match=r"^φ·w does not express \d\d% of the rewards \(expected at most 10%\)"):
        found = infer_task(phi, reward)
    expected, squares, _, _ = np.linalg.lstsq(phi, reward)
    np.testing.assert_allclose(found.w, expected)
    assert found.residual == pytest.approx(np.sqrt(squares[0] / 30))


def test_ridge_solves_the_normal_equations():
    rng = np.random.default_rng(0)
    phi, reward = rng.standard_normal((30, 3)), rng.standard_normal(30)
    expected = np.linalg.solve(phi.T @ phi + 2.5 * np.eye(3), phi.T @ reward)
    with pytest.warns(UserWarning, match="does not express"):
        found = infer_task(phi, reward, ridge=2.5)
    np.testing.assert_allclose(found.w, expected)


def test_the_share_that_phi_cannot_express_and_the_standard_error():
    rng = np.random.default_rng(1)
    phi, noise = rng.standard_normal((4000, 2)), rng.standard_normal(4000)
    found = infer_task(phi, phi @ [3.0, -4.0] + noise)
    assert found.unexplained == pytest.approx(1 / 26, rel=0.05)  # E[e²] / E[r²] = 1 / (9 + 16 + 1)
    np.testing.assert_allclose(found.std, 1 / 4000**0.5, rtol=0.05)
    assert infer_task(np.eye(2), [0.0, 0.0]).unexplained == 0
    with pytest.warns(UserWarning, match="span 1 of 2"):
        assert np.isinf(infer_task([[1.0, 0.0]] * 3, [1.0] * 3).std).all()


def test_condition_number_is_the_ratio_of_extremes():
    found = infer_task([[10.0, 0.0], [0.0, 0.5]], [1.0, 1.0])
    assert found.condition_number == pytest.approx(20)


@pytest.mark.parametrize("ridge", [0.0, 1e-9])
def test_undetermined_tasks_warn_and_are_small(ridge):
    phi, reward = [[1.0, 1.0, 0.0]] * 4, [2.0] * 4
    with pytest.warns(UserWarning, match=r"^The 4 features seen span 1 of 3 directions, so w is not"):
        found = infer_task(phi, reward, ridge)
    np.testing.assert_allclose(found.w, [1, 1, 0], atol=1e-6)  # of all w with w1 + w2 = 2 the smallest
    assert (found.rank, found.determined, found.condition_number) == (1, False, np.inf)


def test_answer_is_a_task():
    found = infer_task(np.eye(2), [0.5, -1.0])
    assert np.asarray(found).tolist() == [0.5, -1.0]
    assert np.asarray(found, dtype=np.float32).dtype == np.float32
    assert parse_task(found, features=2).tolist() == [0.5, -1.0]


@pytest.mark.parametrize(
    ("phi", "reward", "ridge", "sentence"),
    [
        (
            [1.0, 2.0],
            [1.0],
            0,
            r"phi has shape \(2,\); expected \[transitions, features\] with at least one",
        ),
        (np.ones((0, 2)), [], 0, r"phi has shape \(0, 2\); expected"),
        (np.eye(2), [1.0], 0, r"reward has shape \(1,\); expected \(2,\), one per row of phi\."),
        (np.eye(2), [1.0, np.nan], 0, r"phi or reward holds NaN or infinity; expected finite numbers\."),
        (
            np.full((2, 2), np.inf),
            [1.0, 1.0],
            0,
            r"phi or reward holds NaN or infinity; expected finite numbers\.",
        ),
        (np.eye(2), [1.0, 1.0], -1.0, r"ridge is -1.0; expected 0 or a positive number\."),
        (np.eye(2), [1.0, 1.0], np.nan, r"ridge is nan; expected 0 or a positive number\."),
        ([["a", "b"]], [1.0], 0, "phi"),
    ],
)
def test_bad_observations_are_refused(phi, reward, ridge, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        infer_task(phi, reward, ridge)


def test_the_unexplained_share_of_no_reward_is_not_known():
    shares = unexplained_share([1.0, 0.0, 1.0, 3e-33], [2.0, 0.0, 0.0, 3e-33])  # cos(90°)² is about 4e-33
    np.testing.assert_array_equal(shares, [0.5, np.nan, np.nan, np.nan])

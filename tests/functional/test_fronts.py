import itertools

import mo_gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mo_gymnasium.envs.fruit_tree.fruit_tree import FRUITS
from scipy.optimize import linprog  # comes with MO-Gymnasium

from random_mdps import generators
from usfa.errors import InputError
from usfa.functional import (
    best_utility,
    convex_coverage,
    expected_utility,
    hypervolume,
    nondominated,
    pareto_front,
    sparsity,
    utility_loss,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered by casting")  # Gymnasium's, about their Box

STAIRS = np.array([[1.0, 4.0], [2.0, 3.0], [4.0, 1.0], [2.0, 2.0], [4.0, 1.0]])  # one dominated, one twin


@st.composite
def point_sets(draw, most=8):
    """[K, D]: random points, or points of a small grid, where ties, twins and lines are common."""
    rng = draw(generators)
    shape = draw(st.integers(1, most)), draw(st.integers(1, 4))
    return rng.standard_normal(shape) if draw(st.booleans()) else rng.integers(-2, 3, shape).astype(np.float64)


# --- which points matter ---


def test_stairs():
    assert nondominated(STAIRS).tolist() == [True, True, True, False, True]
    assert pareto_front(STAIRS).tolist() == [[1, 4], [2, 3], [4, 1]]


@given(point_sets())
def test_nondominated_as_it_is_defined(values):
    def dominates(a, b):
        return all(x >= y for x, y in zip(a, b, strict=True)) and any(x > y for x, y in zip(a, b, strict=True))

    assert nondominated(values).tolist() == [not any(dominates(other, v) for other in values) for v in values]


@pytest.mark.parametrize(
    ("values", "needed"),
    [
        ([[3.0, 4.0]], [True]),
        ([[3.0, 4.0], [3.0, 4.0]], [True, True]),
        ([[0.0, 2.0], [2.0, 0.0], [0.9, 0.9]], [True, True, False]),  # not dominated, but below the line
        ([[0.0, 2.0], [2.0, 0.0], [1.0, 1.0]], [True, True, False]),  # on the line: best for one w, and not alone
        ([[0.0, 2.0], [2.0, 0.0], [1.1, 1.1]], [True, True, True]),
        ([[0.0, 2.0], [0.0, 1.0], [-1.0, 2.0]], [True, False, False]),  # best for some w, and dominated
        ([[1.0], [3.0], [2.0], [3.0]], [False, True, False, True]),
        ([[1.0, 0.0, 5.0], [0.0, 1.0, 5.0], [0.4, 0.4, 5.0]], [True, True, False]),  # an entry that never changes
    ],
)
def test_convex_coverage_of_small_sets(values, needed):
    assert convex_coverage(values).tolist() == needed


@given(point_sets(most=12))
def test_convex_coverage_is_a_linear_program(values):
    def margin(v):
        """By how much a point can win over all that are different, with weights that sum to one."""
        lead = v - values[(values != v).any(axis=1)]
        if not len(lead):
            return 1.0
        count, features = lead.shape
        program = linprog(
            np.append(np.zeros(features), -1.0),
            A_ub=np.hstack([-lead, np.ones((count, 1))]),
            b_ub=np.zeros(count),
            A_eq=[np.append(np.ones(features), 0.0)],
            b_eq=[1.0],
            bounds=[(0, None)] * features + [(None, None)],
        )
        return -program.fun

    assert convex_coverage(values).tolist() == [margin(v) > 1e-7 for v in values]


@given(point_sets(), generators)
def test_convex_coverage_serves_every_preference_whatever_the_units(values, rng):
    needed = convex_coverage(values)
    w = rng.dirichlet(np.ones(values.shape[1]), 200)
    np.testing.assert_allclose(best_utility(values[needed], w), best_utility(values, w), atol=1e-8)
    assert (needed <= nondominated(values)).all()
    units = 10.0 ** rng.integers(-4, 5, values.shape[1])
    assert convex_coverage(values * units + 100 * units).tolist() == needed.tolist()


def test_convex_coverage_of_the_minecart():
    """The environment's own set has two points more: its hull also has corners that no w ≥ 0 looks for."""
    minecart = mo_gymnasium.make("minecart-v0").unwrapped
    front = np.array(minecart.pareto_front(0.98))
    ours, theirs = front[convex_coverage(front)], np.array(minecart.convex_coverage_set(0.98))
    assert (len(front), len(ours), len(theirs)) == (20, 8, 10)
    assert set(map(tuple, ours)) < set(map(tuple, theirs))
    w = np.random.default_rng(0).dirichlet(np.ones(3), 1000)
    assert best_utility(ours, w).tolist() == best_utility(theirs, w).tolist()


# --- how good a set is ---


def test_volume_under_stairs():
    assert hypervolume(STAIRS, [0, 0]) == 1 * 4 + 1 * 3 + 2 * 1
    assert hypervolume(STAIRS, [1, 0]) == 1 * 3 + 2 * 1
    assert hypervolume(STAIRS, [4, 4]) == 0
    assert hypervolume([[3.0], [5.0]], [1.0]) == 4


@given(point_sets(most=6))
def test_volume_cell_by_cell(values):
    """The points' coordinates cut space into cells; a cell counts if some point is beyond its upper corner."""
    reference = values.min(axis=0) - [0.5, 0.0, 0.25, 0.0][: values.shape[1]]
    cuts = [np.unique([low, *column]) for low, column in zip(reference, values.T, strict=True)]
    cells = itertools.product(*(itertools.pairwise(cut) for cut in cuts))
    expected = sum(
        np.prod([high - low for low, high in cell])
        for cell in cells
        if any((v >= [high for _, high in cell]).all() for v in values)
    )
    assert hypervolume(values, reference) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("depth", "volume"), [("5", 8808.41871980548), ("6", 12575.873296841832)])
def test_volume_in_six_dimensions_is_what_moocore_says(depth, volume):
    """moocore 0.3.2, `hypervolume(fruits, ref=0, maximise=True)`."""
    assert hypervolume(FRUITS[depth], np.zeros(6)) == pytest.approx(volume, rel=1e-12)


def test_sparsity_is_the_mean_squared_gap():
    gaps = (1**2 + 2**2) + (2**2 + 1**2)  # of 1, 2, 4 in either entry
    assert sparsity(STAIRS) == gaps / 2
    assert sparsity([[0.0, 3.0, 1.0], [1.0, 0.0, 2.0]]) == 1 + 9 + 1


def test_one_point_has_no_sparsity():
    assert np.isnan(sparsity([[1.0, 1.0], [0.0, 1.0]]))


def test_utilities():
    w = [[1.0, 0.0], [0.5, 0.5], [0.0, 2.0]]
    assert best_utility(STAIRS, w).tolist() == [4, 2.5, 8]
    assert expected_utility(STAIRS, w) == pytest.approx(14.5 / 3)
    assert utility_loss(STAIRS[3:4], STAIRS, w).tolist() == [2, 0.5, 4]
    assert best_utility(STAIRS, [[-1.0, -1.0]]).tolist() == [-4]


def test_ceilings_of_deep_sea_treasure():
    """Convex map, γ = 0.99, and 100 preferences (k, 99-k)/99."""
    front = mo_gymnasium.make("deep-sea-treasure-v0").unwrapped.pareto_front(0.99)
    w = np.stack([np.arange(100), 99 - np.arange(100)], axis=-1) / 99
    assert round(expected_utility(front, w), 3) == 5.563
    assert round(hypervolume(front, [0, -50]), 2) == 854.85
    assert utility_loss(front, front, w).tolist() == [0] * 100


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([], r"^The points have shape \(0,\); expected \[K, D\], a vector per row, at least one\.$"),
        ([1.0, 2.0], r"^The points have shape \(2,\)"),
        (np.zeros((3, 0)), r"^The points have shape \(3, 0\)"),
        ([[1.0, np.nan]], r"^The points hold NaN or infinity; expected finite numbers\.$"),
        ([[1.0], [1.0, 2.0]], r"^The points are not an array of numbers; expected \[K, D\]"),
    ],
)
@pytest.mark.parametrize("function", [nondominated, convex_coverage, sparsity])
def test_points_are_checked(function, values, sentence):
    with pytest.raises(InputError, match=sentence):
        function(values)


@pytest.mark.parametrize("reference", [[0.0], [0.0, np.inf], 0.0])
def test_reference_points_are_checked(reference):
    with pytest.raises(InputError, match=r"^The reference point is .*; expected 2 finite numbers\.$"):
        hypervolume(STAIRS, reference)


def test_preferences_are_as_long_as_points():
    with pytest.raises(InputError, match=r"^The points have 2 entries and the preferences 3; expected as many\.$"):
        best_utility(STAIRS, np.eye(3))

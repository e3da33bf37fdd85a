from dataclasses import dataclass

import numpy as np
import pytest

from usfa.decisions import CANDIDATE_SETS, candidate_set
from usfa.errors import InputError
from usfa.samplers import (
    Ball,
    Box,
    Gaussian,
    LearnedPolicies,
    OwnTask,
    Points,
    PolicySampler,
    Simplex,
    WithTask,
    parse_sampler,
)
from usfa.tasks import spread_over_simplex

# --- D_z ----------------------------------------------------------------------------------------------------

POINTS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
SAMPLERS = [Gaussian(0.1), Box(-1.0, 3.0), Ball(2.0), Simplex(), Points(POINTS), OwnTask()]
of_every_kind = pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)


def draw(sampler, w, n, seed=0):
    return sampler.sample(np.asarray(w, dtype=np.float64), n, np.random.default_rng(seed))


@of_every_kind
@pytest.mark.parametrize("leading", [(), (4,), (2, 4)])
def test_samples_have_an_axis_of_policies(sampler, leading):
    assert draw(sampler, np.zeros((*leading, 3)), 6).shape == (*leading, 6, 3)


@of_every_kind
def test_same_seed_same_sample(sampler):
    w = np.ones((2, 3))
    assert np.array_equal(draw(sampler, w, 5), draw(sampler, w, 5))
    if sampler != OwnTask():
        assert not np.array_equal(draw(sampler, w, 5), draw(sampler, w, 5, seed=1))


@of_every_kind
def test_only_gaussian_and_own_task_follow_w(sampler):
    moved = draw(sampler, np.full(3, 5.0), 4) - draw(sampler, np.zeros(3), 4)
    follows = isinstance(sampler, Gaussian | OwnTask)
    np.testing.assert_allclose(moved, 5.0 if follows else 0.0, atol=1e-12)


@pytest.mark.parametrize("variance", [0.1, 0.5])
def test_gaussian_is_given_by_its_variance(variance):
    """Erratum 4: N(w, σI) is a covariance."""
    z = draw(Gaussian(variance), [1.0, -2.0], 50_000)
    np.testing.assert_allclose(z.mean(axis=0), [1, -2], atol=0.02)
    np.testing.assert_allclose(np.cov(z.T), variance * np.eye(2), atol=0.03 * variance)


def test_box_is_uniform():
    z = draw(Box(-1.0, 3.0), [0.0, 0.0], 50_000)
    assert -1 <= z.min() < -0.99
    assert 2.99 < z.max() < 3
    np.testing.assert_allclose(z.mean(axis=0), 1, atol=0.03)
    np.testing.assert_allclose(z.var(axis=0), 16 / 12, rtol=0.03)


def test_ball_is_uniform():
    z = draw(Ball(2.0), [0.0, 0.0, 0.0], 50_000)
    lengths = np.linalg.norm(z, axis=-1)
    assert 1.99 < lengths.max() <= 2
    np.testing.assert_allclose(np.quantile(lengths, [0.125, 0.5]), [1, 2 * 0.5 ** (1 / 3)], rtol=0.02)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=0.02)


def test_the_task_may_come_first():
    z = draw(WithTask(Box(0.0, 1.0)), [[3.0, 4.0], [5.0, 6.0]], 4)
    assert z.shape == (2, 4, 2)
    assert z[:, 0].tolist() == [[3, 4], [5, 6]]
    assert z[:, 1:].max() < 1


def test_simplex_is_uniform():
    z = draw(Simplex(), [0.0, 0.0, 0.0], 50_000)
    assert z.min() >= 0
    np.testing.assert_allclose(z.sum(axis=-1), 1)
    np.testing.assert_allclose(z.mean(axis=0), 1 / 3, atol=0.01)
    np.testing.assert_allclose(z.var(axis=0), 2 / (9 * 4), rtol=0.03)


def test_points_come_once_before_any_comes_again():
    z = draw(Points(POINTS), np.zeros((50, 3)), 10)
    of_point = (z[:, :, None] == POINTS).all(axis=-1).argmax(axis=-1)  # [50, 10]
    for row in of_point:
        assert sorted(row[:4]) == sorted(row[4:8]) == [0, 1, 2, 3]
        assert row[8] != row[9]
    assert len({tuple(row[:4]) for row in of_point}) > 12  # of 24 orders


def test_own_task_is_the_task():
    assert draw(OwnTask(), [[1.0, 2.0], [3.0, 4.0]], 2).tolist() == [[[1, 2], [1, 2]], [[3, 4], [3, 4]]]


@pytest.mark.parametrize(
    ("text", "sampler"),
    [
        ("gaussian:0.1", Gaussian(0.1)),
        ("gaussian:0", Gaussian(0)),
        ("box:-1,1", Box(-1, 1)),
        ("ball:0.5", Ball(0.5)),
        ("simplex", Simplex()),
        ("task", OwnTask()),
        ("task+simplex", WithTask(Simplex())),
    ],
)
def test_samplers_are_read(text, sampler):
    assert parse_sampler(text, POINTS) == sampler


def test_train_sampler_is_the_training_tasks():
    sampler = parse_sampler("train", POINTS)
    assert isinstance(sampler, Points)
    assert sampler.points is POINTS


@pytest.mark.parametrize(
    "text",
    [
        *("", "gauss", "gaussian", "gaussian:", "gaussian:-1", "gaussian:inf", "gaussian:nan", "gaussian:x"),
        *("gaussian:1,2", "box:1", "box:1,0", "box:1,1", "box:0,inf", "box:0,1,2"),
        *("simplex:1", "train:3", "task:w", "task:Own", "train:Own", "box:Own", "simplex:Own"),
    ],
)
def test_bad_samplers_are_refused(text):
    known = "gaussian:VARIANCE, box:LOW,HIGH, ball:RADIUS, simplex, points:Z;Z;…, train, task, " + (
        r"task\+…, task\|…, module:Class"
    )
    with pytest.raises(InputError, match=rf"^The policy distribution '{text}' is not one of {known}\.$"):
        parse_sampler(text, POINTS)


class Shifted(PolicySampler):
    """A sampler of the user's own: only `sample` has to be written."""

    def sample(self, w, n, rng):
        return np.repeat(w[..., None, :] + 1, n, axis=-2)


@dataclass(frozen=True)
class Repeated(Shifted):
    times: int
    start: tuple[float, ...] = ()
    is_local = True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{__name__}:Shifted", Shifted),
        (f'{__name__}:Repeated{{"times": 3, "start": [1, 0.5]}}', Repeated(3, (1, 0.5))),
        (f'task+{__name__}:Repeated{{"times": 3}}', WithTask(Repeated(3))),
    ],
)
def test_own_samplers_are_read(text, expected):
    found = parse_sampler(text, POINTS)
    assert isinstance(found, expected) if isinstance(expected, type) else found == expected
    assert draw(found, POINTS, 2).shape == (4, 2, 3)
    assert parse_sampler(found, POINTS) is found


def test_own_samplers_have_defaults():
    z = np.random.default_rng(0).standard_normal((5, 3))
    assert np.array_equal(Shifted().distance(z, POINTS), OwnTask().distance(z, POINTS))
    assert Shifted().policy_of(z) is z
    assert not Shifted.is_local
    with pytest.raises(TypeError, match="abstract"):
        PolicySampler()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"{__name__}:Repeated", r"The policy distribution '.*:Repeated' cannot be made: TypeError: .*'times'"),
        ("usfa.samplers:PolicySampler", r"The policy distribution '.*' cannot be made: TypeError: .*abstract"),
        (
            "usfa.samplers:parse_sampler",
            r"The policy distribution '.*' is <function .*>; expected a class derived from u",
        ),
        (
            "this:Own",
            r"The policy distribution 'this:Own' is in the module 'this', which is not",
        ),
        ("task+this:Own", r"The policy distribution 'this:Own' is in the module 'this', which"),
    ],
)
def test_bad_samplers_of_the_users_own_are_refused(text, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        parse_sampler(text, POINTS)


@pytest.mark.parametrize(
    ("sampler", "local"),
    [
        *((sampler, isinstance(sampler, Gaussian | OwnTask)) for sampler in SAMPLERS),
        (WithTask(Gaussian(0.1)), True),
        (WithTask(OwnTask()), True),
        (WithTask(Simplex()), False),
        (WithTask(Repeated(2)), True),
    ],
)
def test_local_samplers_draw_around_the_task_only(sampler, local):
    assert sampler.is_local is local


# --- the policy of a task ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sampler", "w", "z"),
    [
        (Simplex(), [7, 3], [0.7, 0.3]),
        (Simplex(), [0.02, 0.02], [0.5, 0.5]),
        (Simplex(), [3, -1], [3, -1]),  # not on the simplex at any length
        (Simplex(), [0, 0], [0, 0]),
        (WithTask(Simplex()), [7, 3], [0.7, 0.3]),
        (Ball(2.0), [6, 8], [1.2, 1.6]),
        (Ball(2.0), [0.6, 0.8], [0.6, 0.8]),
        (Gaussian(0.1), [7, 3], [7, 3]),
        (Box(0.0, 1.0), [7, 3], [7, 3]),
        (OwnTask(), [7, 3], [7, 3]),
        (Points(np.eye(2)), [7, 3], [7, 3]),
    ],
)
def test_the_policy_of_a_task_has_a_length_that_is_learned(sampler, w, z):
    w = np.array(w, np.float64)
    np.testing.assert_allclose(sampler.policy_of(w), z)
    np.testing.assert_allclose(sampler.policy_of(np.stack([w, w])), [z, z])


def test_who_has_the_right_length_stays_to_the_bit():
    w = spread_over_simplex(1000, 3)
    assert (w.sum(axis=-1) != 1).any()
    assert np.array_equal(Simplex().policy_of(w), w)


def test_candidates_by_name_have_a_length_that_is_learned():
    w, long = np.array([7.0, 3.0]), 2 * np.eye(2)
    for name, z in {"task": [[0.7, 0.3]], "train": np.eye(2), "train+task": [[1, 0], [0, 1], [0.7, 0.3]]}.items():
        np.testing.assert_allclose(candidate_set(name, w, long, Simplex(), np.random.default_rng(0)), z)
    (first, *_) = candidate_set("sample:3", w, long, WithTask(Simplex()), np.random.default_rng(0))
    np.testing.assert_allclose(first, [0.7, 0.3])
    given = candidate_set("7,3", w, long, Simplex(), np.random.default_rng(0))
    assert given.tolist() == [[7, 3]]  # who gives vectors means them


# --- C ------------------------------------------------------------------------------------------------------

TRAIN = np.eye(2)
W = np.array([[1.5, 1.0], [-1.0, 0.5]])


def candidates_of(candidates, w=W, sampler=None):
    return candidate_set(candidates, w, TRAIN, sampler or Gaussian(0.1), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("candidates", "of_first", "of_second"),
    [
        ("task", [[1.5, 1]], [[-1, 0.5]]),
        ("train", [[1, 0], [0, 1]], [[1, 0], [0, 1]]),
        ("train+task", [[1, 0], [0, 1], [1.5, 1]], [[1, 0], [0, 1], [-1, 0.5]]),
        ("1,0.5;-11", [[1, 0.5], [-1, 1]], [[1, 0.5], [-1, 1]]),
        ("-1,0", [[-1, 0]], [[-1, 0]]),
        ([[4, 4]], [[4, 4]], [[4, 4]]),
        (np.array([[4, 4], [5, 5]]), [[4, 4], [5, 5]], [[4, 4], [5, 5]]),
    ],
)
def test_candidates_of_each_task(candidates, of_first, of_second):
    assert candidates_of(candidates).tolist() == [of_first, of_second]
    assert candidates_of(candidates, W[0]).tolist() == of_first


def test_sampled_candidates_come_from_the_sampler():
    found = candidates_of("sample:5")
    assert found.shape == (2, 5, 2)
    assert np.array_equal(found, Gaussian(0.1).sample(W, 5, np.random.default_rng(0)))
    assert np.array_equal(candidates_of("sample:2", sampler=OwnTask()), np.repeat(W[:, None], 2, axis=1))


@pytest.mark.parametrize(
    ("candidates", "sentence"),
    [
        ([], r"The candidate set is empty; expected at least one policy z\."),
        (np.zeros((0, 2)), r"The candidate set is empty; expected at least one policy z\."),
        ([1, 0], r"The candidates have shape \(2,\); expected \[N, 2\], a policy z per row\."),
        ([[1, 0, 0]], r"The candidates have shape \(1, 3\); expected \[N, 2\]"),
        ([[np.nan, 0]], r"The candidates hold NaN, infinity or entries above 1e\+06; expected smaller numbers\."),
        ([["x", 0]], r"The candidates \[\['x', 0\]\] are not an array of policies \[N, 2\]\."),
        ("1,0,0", r"Task '1,0,0' has 3 entries; expected 2"),
        ("sample:0", r"The candidate set 'sample:0' needs a size from 1 to 10000, such as 'sample:30'\."),
        ("sample:x", r"The candidate set 'sample:x' needs a size"),
        ("sample:", r"The candidate set 'sample:' needs a size"),
        ("sample:10001", r"The candidate set 'sample:10001' needs a size"),
        ("trian", r"Unknown candidate set 'trian': did you mean 'train'\?"),
        ("sample30", r"Unknown candidate set 'sample30': did you mean 'sample:N'\?"),
        ("", r"Unknown candidate set '': known are sample:N, task, train, train\+task\."),
    ],
)
def test_bad_candidates_are_refused(candidates, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        candidates_of(candidates)


def test_candidate_sets_are_listed():
    assert {name.partition(":")[0] for name in CANDIDATE_SETS} == {"task", "train", "train+task", "sample"}
    for name in CANDIDATE_SETS:
        assert candidates_of(name.replace("N", "3")).shape[-1] == 2


def test_points_by_their_text():
    z = parse_sampler("points:1,0;0.5,0.5", np.eye(2)).sample(np.zeros((7, 2)), 2, np.random.default_rng(0))
    assert {tuple(row) for row in z.reshape(-1, 2)} == {(1.0, 0.0), (0.5, 0.5)}
    with pytest.raises(InputError, match="3 entries; expected 2"):
        parse_sampler("points:1,0,0", np.eye(2))


# --- distances from what is learned -------------------------------------------------------------------------


def distances(sampler, z, tasks=POINTS):
    return sampler.distance(np.asarray(z, dtype=np.float64), tasks)


@pytest.mark.parametrize("sampler", [Gaussian(0.1), OwnTask(), Points(POINTS)])
def test_distance_to_the_nearest_task_or_point(sampler):
    z = np.random.default_rng(0).standard_normal((4, 5, 3))
    found = distances(sampler, z)
    for index in np.ndindex(4, 5):
        assert found[index] == pytest.approx(min(np.linalg.norm(z[index] - point) for point in POINTS))


def test_points_have_distances_from_themselves_and_not_from_the_tasks():
    assert distances(Points(np.zeros((1, 3))), [3.0, 4.0, 0.0]) == 5
    assert distances(OwnTask(), [3.0, 4.0, 0.0], np.array([[3.0, 4.0, 2.0]])) == 2


@pytest.mark.parametrize(
    ("sampler", "z", "distance"),
    [
        (Box(-1.0, 3.0), [0, 3, -1], 0),
        (Box(-1.0, 3.0), [5, 0, 0], 2),
        (Box(-1.0, 3.0), [6, 0, -5], 5),
        (Ball(2.0), [0, 2, 0], 0),
        (Ball(2.0), [0, 3, 4], 3),
        (Ball(2.0), [0, 0, 0], 0),
        (Simplex(), [0.2, 0.3, 0.5], 0),
        (Simplex(), [2, 0, 0], 1),
        (Simplex(), [0, 0, 0], 3**-0.5),
        (Simplex(), [1, 1, 1], 2 / 3**0.5),
        (Simplex(), [-1, -1, -1], 4 / 3**0.5),
        (WithTask(Simplex()), [1, 1, 1], 0),  # a task
        (WithTask(Simplex()), [0.2, 0.3, 0.5], 0),  # on the simplex
        (WithTask(Simplex()), [1, 1, 1.1], 0.1),
        (WithTask(Simplex()), [2, 0, 0], 1),
    ],
)
def test_distance_from_a_region(sampler, z, distance):
    assert distances(sampler, z) == pytest.approx(distance, abs=1e-12)
    np.testing.assert_allclose(distances(sampler, [[z, z]]), [[distance, distance]], atol=1e-12)


@pytest.mark.parametrize("features", [2, 3, 4])
def test_distance_from_the_simplex_is_that_of_its_nearest_point(features):
    """Against all points of a lattice on the simplex, which are at most a step apart."""
    steps = {2: 1000, 3: 100, 4: 30}[features]
    grid = np.stack(np.meshgrid(*[np.arange(steps + 1)] * (features - 1), indexing="ij"), axis=-1).reshape(
        -1, features - 1
    )
    grid = grid[grid.sum(axis=1) <= steps]
    lattice = np.column_stack([grid, steps - grid.sum(axis=1)]) / steps
    z = 1.5 * np.random.default_rng(features).standard_normal((50, features))
    nearest = np.linalg.norm(z[:, None] - lattice, axis=-1).min(axis=1)
    found = distances(Simplex(), z)
    assert (found <= nearest + 1e-12).all()
    assert (found >= nearest - features**0.5 / steps).all()


@of_every_kind
def test_what_is_drawn_has_no_distance(sampler):
    z = draw(sampler, POINTS, 6)
    found = distances(sampler, z)
    assert found.shape == (4, 6)
    if sampler != Gaussian(0.1):  # it has no edge
        np.testing.assert_allclose(found, 0, atol=1e-12)


@pytest.mark.parametrize("acted_on", ["resampled", "fixed"])
@pytest.mark.parametrize("sampler", [Gaussian(0.1), Simplex(), WithTask(OwnTask())])
def test_learned_policies_are_those_of_d_z_where_the_tasks_of_m_were_acted_on(sampler, acted_on):
    z = np.array([[2.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    found = LearnedPolicies(POINTS, sampler, acted_on).distance(z)
    assert np.array_equal(found, distances(sampler, z))


@pytest.mark.parametrize("sampler", [Gaussian(0.1), OwnTask(), WithTask(OwnTask())])
def test_policies_around_the_task_are_learned_wherever_tasks_were_acted_on(sampler):
    z = np.array([[0.5, 0.5, 0.0], [2.0, 0.0, 0.0]])
    found = LearnedPolicies(POINTS, sampler, "simplex").distance(z)
    np.testing.assert_allclose(found, [0, 1], atol=1e-12)


@pytest.mark.parametrize("sampler", [Box(0.0, 1.0), WithTask(Box(0.0, 1.0))])
def test_policies_from_elsewhere_are_learned_whatever_was_acted_on(sampler):
    z = np.array([[0.5, 0.5, 0.0], [2.0, 0.0, 0.0]])
    np.testing.assert_allclose(LearnedPolicies(POINTS, sampler, "simplex").distance(z), [0, 1])


def test_task_or_draws_the_task_as_often_as_the_other_distribution():
    tasks = np.eye(3)
    sampler = parse_sampler("task|simplex", tasks)
    z = sampler.sample(tasks, 4000, np.random.default_rng(0))
    itself = (z == tasks[:, None]).all(axis=-1)
    assert np.abs(itself.mean(axis=1) - 0.5).max() < 0.05
    np.testing.assert_allclose(z.sum(axis=-1), 1)
    assert not sampler.is_local
    assert sampler.distance(z, tasks).max() < 1e-9
    assert sampler.policy_of(np.array([2.0, 2.0, 0.0])).tolist() == [0.5, 0.5, 0]

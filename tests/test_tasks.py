import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from usfa.errors import InputError
from usfa.tasks import (
    SPREAD_SETS,
    TASK_SETS,
    describe_task,
    format_task,
    parse_task,
    parse_tasks,
    simplex_lattice,
    spread_over_simplex,
    task_set,
)

# --- how people write tasks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "features", "w"),
    [
        ("1,-1,0,0", None, [1, -1, 0, 0]),
        ("1-100", None, [1, -1, 0, 0]),
        ("-11-10", 4, [-1, 1, -1, 0]),
        ("[0.5, 0.5]", None, [0.5, 0.5]),
        (" [1-1] ", None, [1, -1]),
        ("1e-3,-2", 2, [0.001, -2]),
        ("12", None, [1, 2]),
        ("12", 2, [1, 2]),
        ("12", 1, [12]),
        ("-0.5", 1, [-0.5]),
        ("7", None, [7]),
        ([0.5, -2], None, [0.5, -2]),
        (np.array([1, 0], dtype=np.int64), 2, [1, 0]),
    ],
)
def test_tasks_are_read(task, features, w):
    found = parse_task(task, features)
    assert found.dtype == np.float64
    assert found.tolist() == w


@pytest.mark.parametrize(
    ("task", "features", "sentence"),
    [
        ("1100", 3, r"Task '1100' has 4 entries; expected 3, one per feature\."),
        ([1.0], 2, r"Task \[1.0\] has 1 entry; expected 2, one per feature\."),
        ("1,nan", None, r"Task '1,nan' holds NaN or infinity; expected finite numbers\."),
        ([np.inf, 0], None, r"Task \[inf, 0\] holds NaN or infinity; expected finite numbers\."),
        ("north", None, r"Task 'north' is not a vector; expected numbers as in '1,-1,0,0' or '1-100'\."),
        ("", None, r"Task '' is not a vector"),
        ("1,,0", None, r"Task '1,,0' is not a vector"),
        ([], None, r"Task \[\] has shape \(0,\); expected a vector, such as \[1, -1, 0, 0\]\."),
        (3.0, None, r"Task 3.0 has shape \(\); expected a vector"),
        ([[1, 0]], None, r"Task \[\[1, 0\]\] has shape \(1, 2\); expected a vector"),
        ([1, "x"], None, r"Task \[1, 'x'\] is not a vector of numbers, such as \[1, -1, 0, 0\]\."),
        ("x" * 200, None, r"Task 'x{76,200}"),
    ],
)
def test_bad_tasks_are_refused(task, features, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        parse_task(task, features)


def test_long_tasks_are_shortened_in_errors():
    with pytest.raises(InputError, match=r"^Task \[1, 1, (1, )*1?\.\.\. has 200 entries") as error:
        parse_task([1] * 200, features=2)
    assert len(str(error.value)) < 150


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ("1-1;0,2", [[1, -1], [0, 2]]),
        ("trip-train", [[1, 0], [0, 1]]),
        ([[1, 0], "0-1"], [[1, 0], [0, -1]]),
        (np.eye(2), [[1, 0], [0, 1]]),
    ],
)
def test_several_tasks_are_read(tasks, expected):
    assert parse_tasks(tasks, features=2).tolist() == expected


@pytest.mark.parametrize(
    ("tasks", "features", "sentence"),
    [
        ("room-hrd", None, r"Unknown task set 'room-hrd': did you mean 'room-hard'\?"),
        ("xyz", None, r"Unknown task set 'xyz': known are one-state-train, room-easy, "),
        ("nan", None, r"Task 'nan' holds NaN or infinity"),
        ("trip-train", 4, r"Task \[1. 0.\] has 2 entries; expected 4"),
        ("1,0;1,0,0", None, r"The tasks have 2 and 3 entries; expected one length for all\."),
        ([], None, r"The tasks \[\] are not a list of vectors with at least one\."),
        (3, None, r"The tasks 3 are not a list of vectors"),
    ],
)
def test_bad_lists_of_tasks_are_refused(tasks, features, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        parse_tasks(tasks, features)


vectors = st.lists(st.floats(-1e200, 1e200) | st.integers(-20, 20).map(float), min_size=1, max_size=5)


@given(vectors)
def test_format_reads_back_exactly(w):
    assert parse_task(format_task(w), features=len(w)).tolist() == w


@given(vectors)
def test_format_reads_back_exactly_when_the_length_is_not_known(w):
    assert parse_task(format_task(w)).tolist() == w


@pytest.mark.parametrize(
    ("w", "text"), [([1, -1, 0, 0], "1-100"), ([0.9, 0.1], "0.9,0.1"), ([9, 10], "9,10"), ([1e39, 0], "1e+39,0")]
)
def test_format_is_short(w, text):
    assert format_task(w) == text


# --- the paper's sets ---------------------------------------------------------------------------------------

UNIT = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


@pytest.mark.parametrize(
    ("name", "tasks"),
    [
        ("trip-train", [[1, 0], [0, 1]]),
        ("trip-directions", [[np.cos(np.pi * k / 100), np.sin(np.pi * k / 100)] for k in range(51)]),
        ("trip-diagonal", [[k / 50, k / 50] for k in range(51)]),
        ("one-state-train", [[2], [1], [-1]]),
        ("room-train", UNIT),
        ("room-train-large", [*UNIT, [1, -1, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1], [-1, 0, 0, 0]]),
        (
            "room-easy",
            [[0, 0, 0.9, 0.1], [0, 0.9, 0, 0.1], [0, 0.7, 0.2, 0.1], [0, 0.1, -0.1, 0.8], [0, 0, -0.1, 1]],
        ),
        (
            "room-hard",
            [
                [1, 1, 0, 0],
                [0, 1, 1, 1],
                [1, 1, 1, 1],
                [-1, -1, 0, 0],
                [-1, 1, 0, 0],
                [-1, 1, 0, 1],
                [-1, 1, -1, 0],
                [-1, 1, -1, 1],
            ],
        ),
    ],
)
def test_sets_are_those_of_the_paper(name, tasks):
    np.testing.assert_allclose(task_set(name), tasks, rtol=0, atol=1e-15)


def test_no_set_is_unchecked():
    """Besides the paper's there is one to choose settings on, which is checked below."""
    rooms = {"room-train", "room-train-large", "room-easy", "room-hard", "room-validation"}
    assert set(TASK_SETS) == rooms | {"trip-train", "trip-directions", "trip-diagonal", "one-state-train"}


def test_settings_are_chosen_on_other_tasks_than_those_of_training_and_test():
    """Nor is one the same with the objects in another order: a room has no order of objects. Each is there once."""
    mine = {tuple(sorted(w)) for w in task_set("room-validation").tolist()}
    papers = {
        tuple(sorted(w)) for name in ("train", "train-large", "easy", "hard") for w in task_set(f"room-{name}").tolist()
    }
    assert len(mine) == len(task_set("room-validation")) == 16
    assert not mine & papers
    assert {(min(w) < 0, max(w) > 0) for w in mine} == {(False, True), (True, True), (True, False)}


def test_a_set_can_be_changed_without_harm():
    task_set("room-train")[:] = 7
    assert task_set("room-train").tolist() == UNIT


def test_unknown_set_suggests_the_nearest():
    with pytest.raises(InputError, match=r"^Unknown task set 'trip-diagnal': did you mean 'trip-diagonal'"):
        task_set("trip-diagnal")


# --- preferences --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "features", "tasks"),
    [
        ("corners", 3, UNIT_3 := [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        ("corners:3", None, UNIT_3),
        ("simplex:5", 2, [[1, 0], [0.75, 0.25], [0.5, 0.5], [0.25, 0.75], [0, 1]]),
        ("simplex:2,2", None, [[1, 0], [0, 1]]),
        ("lattice:2", 3, [[1, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1]]),
        ("lattice:2,2", 2, [[1, 0], [0.5, 0.5], [0, 1]]),
        ("lattice:7,1", None, [[1]]),
    ],
)
def test_preferences_are_made_to_measure(text, features, tasks):
    assert parse_tasks(text, features).tolist() == tasks


@pytest.mark.parametrize("features", [2, 3, 4, 6])
def test_preferences_are_spread_evenly(features):
    """Mean and covariance are those of the uniform distribution."""
    w = spread_over_simplex(2000, features)
    assert w.shape == (2000, features)
    assert len(np.unique(w, axis=0)) == 2000
    assert w.min() >= 0
    np.testing.assert_allclose(w.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(w.mean(axis=0), 1 / features, rtol=0.02)
    uniform = (np.eye(features) - 1 / features) / features / (features + 1)
    np.testing.assert_allclose(np.cov(w.T), uniform, atol=0.05 * uniform.max())


@pytest.mark.parametrize("features", [2, 3, 4, 6])
def test_even_preferences_are_more_even_than_random_ones(features):
    """E[max_d w_d] = (1 + 1/2 + … + 1/D) / D for w uniform over the simplex."""
    expected = (1 / np.arange(1, features + 1)).mean()

    def error(w):
        return w.max(axis=1).mean() - expected

    drawn = [error(np.random.default_rng(s).dirichlet(np.ones(features), 100)) for s in range(200)]
    assert abs(error(spread_over_simplex(100, features))) < np.std(drawn) / 2


@pytest.mark.parametrize(("divisions", "features", "count"), [(99, 2, 100), (12, 3, 91), (3, 6, 56)])
def test_lattices_are_complete(divisions, features, count):
    w = simplex_lattice(divisions, features)
    assert w.shape == (count, features)
    assert len(np.unique(w, axis=0)) == count
    np.testing.assert_allclose(w.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(w * divisions, np.rint(w * divisions), atol=1e-9)


def test_two_entries_in_equal_steps_are_a_lattice():
    assert spread_over_simplex(100, 2).tolist() == simplex_lattice(99, 2).tolist()


@pytest.mark.parametrize(
    ("text", "features", "form"),
    [
        ("corners", None, "corners:D"),
        ("corners:x", 2, "corners:D"),
        ("simplex", 2, "simplex:N,D"),
        ("simplex:100", None, "simplex:N,D"),
        ("simplex:100", 1, "simplex:N,D"),
        ("simplex:1,3", None, "simplex:N,D"),
        ("simplex:1000000,3", None, "simplex:N,D"),
        ("simplex:5,3,2", None, "simplex:N,D"),
        ("lattice:0", 3, "lattice:H,D"),
        ("lattice:-1", 3, "lattice:H,D"),
        ("lattice:1000,5", None, "lattice:H,D"),
    ],
)
def test_preferences_that_cannot_be_made(text, features, form):
    sentence = rf"^The task set is '{text}'; expected {form}( \(both from 2\))? with at most 100000 tasks, where D"
    with pytest.raises(InputError, match=sentence):
        parse_tasks(text, features)


def test_preferences_must_fit_the_environment():
    with pytest.raises(InputError, match=r"has 3 entries; expected 2"):
        parse_tasks("simplex:100,3", 2)


def test_every_form_of_preferences_is_listed():
    assert [name.partition(":")[0] for name in SPREAD_SETS] == ["corners", "simplex", "lattice"]


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("1100", "tv + ball"),
        ("-1101", "ball + balloon − tv"),
        ("-1-100", "− tv − ball"),
        ("0,0.7,-0.2,1", "0.7 ball + balloon − 0.2 hat"),
        ("0000", "nothing"),
    ],
)
def test_a_task_in_words_begins_with_what_is_wanted(task, words):
    assert describe_task(parse_task(task), ("tv", "ball", "hat", "balloon")) == words

import json

import numpy as np
import pytest
import torch

from usfa.decisions import Accuracy, CandidateSet, assumed_accuracy
from usfa.errors import InputError
from usfa.records import from_json, to_json

ACCURACY = Accuracy((0.05, 0.1), ((0.0, 0.1), (1.0, 0.3), (2.0, 0.9)))


# --- Accuracy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("distance", "share"),
    [(0.0, 0.1), (0.5, 0.2), (1.0, 0.3), (1.25, 0.45), (2.0, 0.9), (7.0, 0.9)],
)
def test_optimism_is_linear_in_between_and_stays_beyond_the_last_distance(distance, share):
    found = ACCURACY.of(np.ones((1, 2)), np.array([distance]), horizon=1.0)
    np.testing.assert_allclose(found.optimism, [share])


def test_nearer_than_the_first_distance_is_as_the_first():
    found = Accuracy((0.1,), ((0.5, 0.2), (1.0, 0.4))).of(np.ones((2, 1)), np.array([0.0, 0.5]), horizon=1.0)
    assert found.optimism.tolist() == [0.2, 0.2]


@pytest.mark.parametrize("leading", [(), (4,), (2, 4)])
def test_accuracy_of_candidates_has_their_shape(leading):
    z, distance = np.ones((*leading, 3, 2)), np.full((*leading, 3), 0.5)
    found = ACCURACY.of(z, distance, horizon=20.0, gap_scale=0.3)
    assert found.z is z
    np.testing.assert_allclose(found.step_error, np.broadcast_to([0.05, 0.1], (*leading, 2)))
    np.testing.assert_allclose(found.horizon, np.full(leading, 20.0))
    np.testing.assert_allclose(found.optimism, np.full((*leading, 3), 0.2))
    np.testing.assert_allclose(found.gap_scale, np.full(leading, 0.3))


@pytest.mark.parametrize("step_error", [(), (-0.1,), (0.1, np.nan), (np.inf,)])
def test_step_errors_are_numbers_from_0(step_error):
    with pytest.raises(InputError, match=r"step_error.*expected a number from 0"):
        Accuracy(step_error, ((0.0, 0.1),))


@pytest.mark.parametrize(
    "optimism",
    [
        (),
        ((0.0, -0.1),),
        ((0.0, np.nan),),
        ((0.0, np.inf),),
        ((1.0, 0.1), (0.5, 0.2)),
        ((1.0, 0.1), (1.0, 0.2)),
        ((0.0, 0.1), (np.nan, 0.2)),
        ((np.nan, 0.1),),
        ((0.0, 0.1), (np.inf, 0.2)),
        ((-1.0, 0.1), (0.0, 0.2)),
    ],
)
def test_optimism_has_growing_distances_and_shares_from_0(optimism):
    with pytest.raises(InputError, match=r"optimism.*expected .*growing distance"):
        Accuracy((0.1,), optimism)


def test_zero_errors_and_one_distance_are_enough():
    accuracy = Accuracy((0.0,), ((0.0, 0.0),))
    found = accuracy.of(np.ones((1, 1)), np.array([3.0]), horizon=np.inf)
    assert found.optimism.tolist() == [0.0]
    assert found.horizon == 1000


@pytest.mark.parametrize("features", [1, 4])
def test_assumed_accuracy_fits_the_features(features):
    accuracy = assumed_accuracy(features)
    assert accuracy.step_error == (0.06,) * features
    found = accuracy.of(np.ones((4, features)), np.array([0.0, 0.25, 0.75, 3.0]), horizon=1.0)
    np.testing.assert_allclose(found.optimism, [0.0, 0.1, 0.55, 0.9])


def test_accuracy_round_trips_through_json():
    assert from_json(Accuracy, json.loads(json.dumps(to_json(ACCURACY))), "file") == ACCURACY


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"step_error": ["low"]}, r"^file does not describe a Accuracy: .*\$\.step_error"),
        ({"optimism": [[0.0]]}, r"^file does not describe a Accuracy: .*\$\.optimism"),
        ({"bias": 0.1}, r"^file has the unknown field 'bias'"),
        ({"step_error": [-1.0]}, r"step_error.*expected a number from 0"),
    ],
)
def test_bad_files_are_refused(change, sentence):
    with pytest.raises(InputError, match=sentence):
        from_json(Accuracy, to_json(ACCURACY) | change, "file")


# --- CandidateSet -------------------------------------------------------------------------------------------


def random_set(tasks, size, seed=0):
    rng = np.random.default_rng(seed)
    shapes = (tasks, size, 2), (tasks, 2), (tasks, size), (tasks,), (tasks,)
    return CandidateSet(*(rng.random(shape) for shape in shapes))


def test_believed_candidates_have_no_error():
    z = np.random.default_rng(0).random((5, 3, 2))
    for found, like in [
        (CandidateSet.believed(z), np.zeros),
        (CandidateSet.believed(torch.from_numpy(z)), torch.zeros),
    ]:
        assert found.z.shape == (5, 3, 2)
        assert found.step_error.tolist() == like((5, 2)).tolist()
        assert found.optimism.tolist() == like((5, 3)).tolist()
        assert found.horizon.tolist() == found.gap_scale.tolist() == (like(5) + 1).tolist()
        assert type(found.step_error) is type(found.z)


def test_map_changes_every_part():
    given = random_set(4, 3)
    found = given.map(lambda values: values[1:] * 2)
    assert isinstance(found, CandidateSet)
    for one, other in zip(found, given, strict=True):
        assert np.array_equal(one, other[1:] * 2)


def test_tensors_are_float32():
    given = random_set(4, 3)
    for tensor, values in zip(given.tensors(), given, strict=True):
        assert tensor.dtype == torch.float32
        np.testing.assert_allclose(tensor.numpy(), values, rtol=1e-6)


def test_joined_sets_repeat_the_first_policy_of_smaller_ones():
    small, large = random_set(2, 2, seed=0), random_set(3, 4, seed=1)
    found = CandidateSet.joined([small, large])
    assert [values.shape for values in found] == [(5, 4, 2), (5, 2), (5, 4), (5,), (5,)]
    for n, source in enumerate([0, 1, 0, 0]):
        assert np.array_equal(found.z[:2, n], small.z[:, source])
        assert np.array_equal(found.optimism[:2, n], small.optimism[:, source])
    assert np.array_equal(found.step_error[:2], small.step_error)
    for one, other in zip(found, large, strict=True):
        assert np.array_equal(one[2:], other)


def test_a_set_joined_alone_stays():
    given = random_set(2, 3)
    for found, expected in zip(CandidateSet.joined([given]), given, strict=True):
        assert np.array_equal(found, expected)

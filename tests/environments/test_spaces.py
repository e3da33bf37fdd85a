import json

import gymnasium as gym
import numpy as np
import pytest

from usfa.environments import ObservationSpec, Room, Trip, action_count, feature_count, make, step_limit
from usfa.errors import InputError
from usfa.records import from_json, to_json

# --- observations ---


def test_states_become_one_hot():
    spec = ObservationSpec.of(gym.spaces.Discrete(4))
    assert spec == ObservationSpec((4,), 4, 0)
    assert spec.encode(2).tolist() == [0, 0, 1, 0]
    assert spec.encode(np.array([[0, 3], [1, 1]])).shape == (2, 2, 4)
    assert spec.encode(np.int64(3)).dtype == np.float32


def test_states_may_start_anywhere():
    spec = ObservationSpec.of(gym.spaces.Discrete(3, start=-1))
    assert spec == ObservationSpec((3,), 3, -1)
    assert spec.encode([-1, 0, 1]).tolist() == np.eye(3).tolist()
    for state in (-2, 2):
        with pytest.raises(InputError, match=rf"^The observation {state} is not a state"):
            spec.encode(state)


def test_vectors_stay_as_they_are():
    spec = ObservationSpec.of(gym.spaces.Box(-1, 1, (3,), np.float64))
    assert spec == ObservationSpec((3,))
    encoded = spec.encode(np.array([0.1, 0.2, 0.3]))
    assert encoded.dtype == np.float32
    assert encoded.tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert spec.encode(np.zeros((5, 3))).shape == (5, 3)


def test_vectors_are_scaled_by_their_bounds():
    low, high = [-1.2, -0.07, -np.inf, 0, -1e30], [0.6, 0.07, 5, np.inf, 1e30]
    space = gym.spaces.Box(np.array(low, np.float32), np.array(high, np.float32))
    spec = ObservationSpec.of(space)
    assert spec.describe() == "vector of 5: layers, scaled by its bounds"
    assert spec.encode([-1.2, 0.07, 3, 4, 5]).tolist() == pytest.approx([-1, 1, 3, 4, 5])
    assert spec.encode([[-0.3, -0.07, 0, 0, 0]]).tolist() == [pytest.approx([0, -1, 0, 0, 0], abs=1e-6)]


def test_few_whole_numbers_become_one_hot_and_many_stay_amounts():
    spec = ObservationSpec.of(gym.spaces.Box(np.array([0, -1], np.int32), np.array([2, 1], np.int32), dtype=np.int32))
    assert spec.describe() == "2 whole numbers with 9 combinations: one-hot"
    assert spec.encode(np.array([2, -1])).tolist() == np.eye(9)[6].tolist()
    assert spec.encode(np.array([[0, 0], [1, 1]])).argmax(axis=-1).tolist() == [1, 5]
    with pytest.raises(InputError, match=r"^The observation \[3 0\] is not a state"):
        spec.encode(np.array([3, 0]))
    assert ObservationSpec.of(gym.spaces.Box(0, 511, (2,), np.int64)).shape == (1024,)
    many = ObservationSpec.of(gym.spaces.Box(0, 512, (2,), np.int64))
    assert many.encode(np.array([0, 512])).tolist() == [-1, 1]


def test_encoding_copies():
    spec, observation = ObservationSpec((2,)), np.zeros(2, np.float32)
    encoded = spec.encode(observation)
    observation[:] = 9
    assert encoded.tolist() == [0, 0]


@pytest.mark.parametrize("observation", [4, -1, 1.0, "s1", None])
def test_what_is_not_a_state(observation):
    with pytest.raises(InputError, match=r"is not a state; expected a whole number below 4\.$"):
        ObservationSpec((4,), 4).encode(observation)


@pytest.mark.parametrize("observation", [[1.0, 2.0], 1.0, np.zeros((3, 2))])
def test_vectors_of_another_size(observation):
    with pytest.raises(InputError, match=r"^The observation has shape .*; expected \(3,\)\.$"):
        ObservationSpec((3,)).encode(observation)


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Text(5),
        gym.spaces.Sequence(gym.spaces.Discrete(2)),
        gym.spaces.Box(0, 1, (0,)),
        gym.spaces.Dict({}),
        gym.spaces.Tuple([]),
    ],
)
def test_spaces_that_are_not_supported(space):
    expected = "expected Discrete, MultiDiscrete, MultiBinary, a Box, or a Dict or Tuple of them."
    with pytest.raises(InputError) as error:
        ObservationSpec.of(space)
    assert str(error.value) == f"Observations of {space} are not supported; {expected}"


BOX = gym.spaces.Box(-9, 9, (2,))
BOTH = gym.spaces.Dict({"b": gym.spaces.Tuple([BOX, gym.spaces.MultiBinary(1)]), "a": gym.spaces.Discrete(3)})


def test_parts_are_put_one_behind_the_other():
    spec = ObservationSpec.of(BOTH)
    assert (spec.shape, spec.is_vector) == ((7,), True)
    assert spec.amounts.tolist() == [False, False, False, True, True, False, False]
    assert spec.describe() == "2 parts with 7 entries in all: layers"
    vector = np.array([4.5, -9], np.float32)
    encoded = spec.encode({"b": (vector, np.array([1], np.int8)), "a": 2})
    assert encoded.dtype == np.float32
    assert encoded.tolist() == [0, 0, 1, 0.5, -1, 0, 1]
    vector[:] = 0
    assert encoded[3] == 0.5  # it was copied


def test_parts_of_a_batch():
    batch = {"b": (np.zeros((5, 2)), np.ones((5, 1), np.int8)), "a": np.array([0, 1, 2, 0, 1])}
    assert ObservationSpec.of(BOTH).encode(batch)[:, :3].argmax(axis=-1).tolist() == [0, 1, 2, 0, 1]


def test_tables_in_parts_are_no_amounts():
    assert not ObservationSpec.of(gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.MultiBinary(3)])).is_vector


@pytest.mark.parametrize(
    ("observation", "sentence"),
    [
        ({"a": 1}, "The observation has 1 parts and none is 'b'; expected one that is."),
        (np.zeros((200, 2)), "The observation is of ndarray; expected parts, of which 'a' is one."),
        (None, "The observation is of NoneType; expected parts, of which 'a' is one."),
        ((1, 2), "The observation has 2 parts and none is 'a'; expected one that is."),
        ({"a": 1, "b": 3}, "The observation is of int; expected parts, of which '0' is one."),
        # A list of observations is not a batch of parts: it would be read by columns.
        ([{"a": 1}, {"a": 2}], "The observation is of list; expected parts, of which 'a' is one."),
        ({"a": 1, "b": (np.zeros(2),)}, "The observation has 1 parts and none is '1'; expected one that is."),
    ],
)
def test_observations_without_a_part(observation, sentence):
    for encode in (ObservationSpec.of(BOTH).encode, ObservationSpec.of(BOTH).encode_one):
        with pytest.raises(InputError) as error:
            encode(observation)
        assert str(error.value) == sentence


def test_parts_of_different_batches():
    odd = {"a": np.array([1]), "b": (np.zeros(2), np.ones(1, np.int8))}
    with pytest.raises(InputError, match=r"^The parts of the observation are batches of \[\(\), \(1,\)\]; expected"):
        ObservationSpec.of(BOTH).encode(odd)
    with pytest.raises(InputError, match=r"^The observation has shape \(1,\); expected \(\)\.$"):
        ObservationSpec.of(BOTH).encode_one(odd)


def test_parts_are_called_by_texts():
    with pytest.raises(InputError, match=r"are not supported; expected str keys\.$"):
        ObservationSpec.of(gym.spaces.Dict({0: gym.spaces.Discrete(2)}))


def test_images_have_no_parts_beside_them():
    space = gym.spaces.Dict({"view": gym.spaces.Box(0, 255, (8, 8, 3), np.uint8), "fuel": gym.spaces.Discrete(3)})
    with pytest.raises(InputError, match=r" hold an image and are not supported; expected an image alone, or none\.$"):
        ObservationSpec.of(space)


def test_images_stay_bytes():
    spec = ObservationSpec.of(gym.spaces.Box(0, 255, (4, 6, 3), np.uint8))
    assert spec == ObservationSpec((4, 6, 3))
    image = np.random.default_rng(0).integers(256, size=(4, 6, 3), dtype=np.uint8)
    encoded = spec.encode(image)
    assert encoded.dtype == np.uint8
    assert np.array_equal(encoded, image)
    image[:] = 0
    assert encoded.any()  # it was copied
    assert spec.encode(np.zeros((5, 2, 4, 6, 3), np.uint8)).shape == (5, 2, 4, 6, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8, np.bool_])
def test_images_of_other_numbers(dtype):
    with pytest.raises(InputError) as error:
        ObservationSpec((4, 6, 3)).encode(np.zeros((4, 6, 3), dtype))
    assert str(error.value) == f"The image is of {np.dtype(dtype)}; expected uint8, from 0 to 255."


@pytest.mark.parametrize("shape", [(6, 4, 3), (4, 6), (3, 4, 6), (4, 6, 3, 1), (4, 6, 4)])
def test_images_of_another_shape(shape):
    with pytest.raises(InputError) as error:
        ObservationSpec((4, 6, 3)).encode(np.zeros(shape, np.uint8))
    assert str(error.value) == f"The observation has shape {shape}; expected (4, 6, 3)."


def test_buffers_have_the_type_of_what_they_hold():
    assert ObservationSpec((4, 6, 3)).dtype == np.uint8
    assert ObservationSpec((4,)).dtype == np.float32
    assert ObservationSpec((4,), 4).dtype == np.float32


def test_whole_numbers_become_one_hot_one_after_the_other():
    spec = ObservationSpec.of(gym.spaces.MultiDiscrete([2, 3, 4, 2]))
    assert spec == ObservationSpec((11,), given=(4,), counts=(2, 3, 4, 2), starts=(0, 0, 0, 0))
    assert spec.encode([1, 0, 3, 0]).tolist() == [0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0]
    batch = spec.encode(np.array([[[0, 0, 0, 0], [1, 2, 3, 1]]]))
    assert batch.shape == (1, 2, 11)
    assert batch.dtype == np.float32
    assert (batch.sum(axis=-1) == 4).all()


def test_places_of_a_small_grid_have_an_entry_each():
    spec = ObservationSpec.of(gym.spaces.MultiDiscrete([2, 3, 4]))
    assert spec == ObservationSpec((24,), given=(3,), counts=(2, 3, 4), starts=(0, 0, 0), joint=True)
    every = np.array(list(np.ndindex(2, 3, 4)))
    assert np.array_equal(spec.encode(every), np.eye(24))
    assert ObservationSpec.of(gym.spaces.MultiDiscrete([40, 40])).shape == (80,)


def test_whole_numbers_in_a_grid_that_start_anywhere():
    space = gym.spaces.MultiDiscrete(np.array([[2, 3], [2, 2]]), start=np.array([[5, -1], [0, 0]]))
    spec = ObservationSpec.of(space)
    assert spec.shape == (9,)
    assert spec.encode(np.array([[6, 1], [0, 1]])).tolist() == [0, 1, 0, 0, 1, 1, 0, 0, 1]
    space.seed(0)
    for _ in range(20):
        assert spec.encode(space.sample()).sum() == 4


@pytest.mark.parametrize("shape", [4, (2, 3)])
def test_yes_and_no_are_numbers_too(shape):
    space = gym.spaces.MultiBinary(shape)
    spec = ObservationSpec.of(space)
    assert spec.shape == (2 * np.prod(shape),)
    space.seed(0)
    sample = space.sample()
    expected = [flag for value in sample.reshape(-1) for flag in (value == 0, value == 1)]
    assert spec.encode(sample).tolist() == expected
    assert spec.encode(sample.astype(bool)).tolist() == expected


@pytest.mark.parametrize("observation", [[0, 3], [2, 0], [-1, 0], [0.0, 1.0], ["a", "b"]])
def test_what_are_not_such_numbers(observation):
    with pytest.raises(InputError, match=r"is not a state; expected whole numbers from \[0, 0\], below \[2, 3\]\.$"):
        ObservationSpec.of(gym.spaces.MultiDiscrete([2, 3])).encode(observation)


@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (84, 84, 3), (2, 2, 2, 2, 2)])
def test_other_boxes_are_flattened(shape):
    spec = ObservationSpec.of(gym.spaces.Box(-1, 1, shape))
    assert spec.shape == (int(np.prod(shape)),)
    values = np.random.default_rng(0).normal(size=(2, *shape))
    assert np.array_equal(spec.encode(values), values.reshape(2, -1).astype(np.float32))
    assert spec.encode(values[0]).shape == spec.shape
    if shape:  # whatever its shape, an array is a batch of numbers
        with pytest.raises(InputError, match=r"^The observation has shape"):
            spec.encode(np.zeros((7, *shape, 7)))


def test_bytes_with_other_bounds_are_numbers():
    """The planes of a board game would vanish if they were divided by 255."""
    spec = ObservationSpec.of(gym.spaces.Box(0, 1, (8, 8, 12), np.uint8))
    assert (spec.shape, spec.dtype, spec.is_image) == ((768,), np.float32, False)


@pytest.mark.parametrize(
    ("given", "encoded"),
    [
        ((84, 84, 3), (84, 84, 3)),
        ((84, 84, 1), (84, 84, 1)),
        ((3, 84, 84), (84, 84, 3)),
        ((4, 60, 80), (60, 80, 4)),
        ((84, 84), (84, 84, 1)),
        ((4, 60, 80, 3), (60, 80, 12)),
        ((84, 84, 128), (84, 84, 128)),
    ],
)
def test_images_are_told_by_their_axes(given, encoded):
    spec = ObservationSpec.of(gym.spaces.Box(0, 255, given, np.uint8))
    assert (spec.shape, spec.dtype, spec.is_image) == (encoded, np.uint8, True)
    batch = spec.encode(np.zeros((5, *given), np.uint8))
    assert batch.shape == (5, *encoded)
    assert batch.flags.c_contiguous
    with pytest.raises(InputError, match="expected uint8, from 0 to 255"):
        spec.encode(np.zeros(given, np.float32))


def test_axes_are_moved_and_not_mixed_up():
    rng = np.random.default_rng(0)
    first = rng.integers(256, size=(3, 5, 6), dtype=np.uint8)
    encoded = ObservationSpec.of(gym.spaces.Box(0, 255, first.shape, np.uint8)).encode(first)
    assert all(np.array_equal(encoded[..., c], first[c]) for c in range(3))
    stack = rng.integers(256, size=(2, 5, 6, 3), dtype=np.uint8)
    encoded = ObservationSpec.of(gym.spaces.Box(0, 255, stack.shape, np.uint8)).encode(stack)
    assert np.array_equal(encoded[..., :3], stack[0])
    assert np.array_equal(encoded[..., 3:], stack[1])
    first_channels = np.moveaxis(stack, -1, -3)
    spec = ObservationSpec.of(gym.spaces.Box(0, 255, first_channels.shape, np.uint8))
    assert np.array_equal(spec.encode(first_channels), encoded)
    assert np.array_equal(spec.encode(first_channels[None]), encoded[None])
    stack[:], first[:] = 0, 0
    assert encoded.any()  # it was copied


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        (gym.spaces.Box(-1, 1, (4,)), "vector of 4: layers"),
        (gym.spaces.Box(-1, 1, (3, 4)), "vector of 12, given as 3×4: layers"),
        (gym.spaces.Box(-1, 1, ()), "vector of 1: layers"),
        (gym.spaces.Discrete(10), "table of 10 states: one-hot"),
        (gym.spaces.MultiDiscrete([2, 3]), "2 whole numbers with 6 combinations: one-hot"),
        (gym.spaces.MultiBinary(8), "8 whole numbers with 16 values in all: one-hot"),
        (gym.spaces.Box(0, 255, (84, 84, 3), np.uint8), "image 84×84×3: convolutions"),
        (gym.spaces.Box(0, 255, (3, 84, 84), np.uint8), "image 84×84×3, given as 3×84×84: convolutions"),
        (gym.spaces.Box(0, 255, (84, 84), np.uint8), "image 84×84×1, given as 84×84: convolutions"),
    ],
)
def test_a_spec_says_which_trunk_it_gets(space, sentence):
    assert ObservationSpec.of(space).describe() == sentence


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Discrete(4, start=2),
        gym.spaces.MultiDiscrete([2, 3]),
        gym.spaces.Box(-1, 1, ()),
        gym.spaces.Box(-1, 1, (3, 4)),
        gym.spaces.Box(0, 255, (3, 84, 84), np.uint8),
        BOTH,
    ],
)
def test_specs_are_saved_and_loaded(space):
    spec = ObservationSpec.of(space)
    loaded = from_json(ObservationSpec, json.loads(json.dumps(to_json(spec))), "the file")
    assert loaded == spec
    space.seed(0)
    sample = space.sample()
    assert np.array_equal(loaded.encode(sample), spec.encode(sample))


@pytest.mark.parametrize(
    ("old", "spec"),
    [
        ({"shape": [84, 84, 3], "states": 0, "start": 0}, ObservationSpec((84, 84, 3))),
        ({"shape": [2], "states": 2, "start": 0}, ObservationSpec((2,), 2)),
        ({"shape": [7]}, ObservationSpec((7,))),
    ],
)
def test_files_of_earlier_versions_are_read(old, spec):
    assert from_json(ObservationSpec, old, "the file") == spec


# --- sizes ---


def test_sizes_of_our_own():
    assert (feature_count(Trip()), action_count(Trip())) == (2, 8)
    room = Room(image_size=12, types=3)
    assert (feature_count(room), action_count(room)) == (3, 8)


def test_the_outermost_reward_space_counts():
    """A wrapper that changes φ says so itself."""

    class Twice(gym.Wrapper):
        reward_space = gym.spaces.Box(-1, 1, (4,))

    assert feature_count(Twice(Trip())) == 4
    assert feature_count(gym.wrappers.TimeLimit(Trip(), 5)) == 2
    assert feature_count(gym.wrappers.TimeLimit(Twice(Trip()), 5)) == 4


# --- step limit ---


def test_how_long_episodes_last_at_most():
    assert step_limit(Room(image_size=8, decisions=30)) == 30
    assert step_limit(gym.make("CartPole-v1")) == 500
    assert step_limit(gym.wrappers.TimeLimit(Trip(), 7)) == 7
    assert step_limit(make("trip")) is None

import json

import numpy as np
import pytest

from usfa.environments import EnvironmentBatch
from usfa.environments.room import Room, RoomBatch, RoomRules
from usfa.errors import InputError

SHORT = RoomRules(decisions=5, side=5.0)


def film(batch, actions):
    """Every observation and φ."""
    frames, phis = [batch.observation.copy()], []
    for action in actions:
        phis.append(batch.step(action).phi.copy())
        frames.append(batch.observation.copy())
    return np.stack(frames), np.stack(phis)


def test_same_seed_and_actions_same_pixels():
    actions = np.random.default_rng(0).integers(8, size=(60, 3))
    first, second = (film(RoomBatch(3, SHORT, seeds=[4, 5, 6]), actions) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


def test_a_room_does_not_depend_on_its_neighbours():
    actions = np.random.default_rng(0).integers(8, size=(60, 3))
    together, _ = film(RoomBatch(3, SHORT, seeds=[4, 5, 6]), actions)
    alone, _ = film(RoomBatch(1, SHORT, seeds=[5]), actions[:, 1:2])
    np.testing.assert_array_equal(together[:, 1:2], alone)


def test_seeds_differ():
    observation = RoomBatch(50, image_size=16).observation
    assert len({image.tobytes() for image in observation}) == 50


def test_truncation_shows_the_last_observation_and_then_a_seam():
    batch = RoomBatch(2, SHORT, gamma=0.9)
    assert batch.first.all()
    total = np.zeros((2, 4))
    for number in range(1, 6):
        step = batch.step([0, 0])
        total += step.phi
        assert not batch.first.any()
        assert step.real.all()
        np.testing.assert_array_equal(step.ended, [number == 5] * 2)
        np.testing.assert_allclose(step.discount, 0.9)
        assert np.isnan(step.episode_phi).all() == (number < 5)
    np.testing.assert_array_equal(step.episode_phi, total)
    last = batch.observation.copy()
    pose = batch.world.pose.copy()
    step = batch.step([0, 0])
    assert batch.first.all()
    assert not step.real.any()
    assert not step.ended.any()
    assert not step.phi.any()
    np.testing.assert_allclose(step.discount, 0.9)
    assert (batch.observation != last).any()
    assert (batch.world.pose != pose).any()
    assert batch.step([0, 0]).real.all()


def test_seams_are_those_of_the_environment_batch():
    """The same flags as B environments stepped one by one, which is what a rollout expects."""
    ours = RoomBatch(2, SHORT, image_size=12, gamma=0.9)
    theirs = EnvironmentBatch([Room(12, rules=SHORT) for _ in range(2)], 0.9, [0, 1])
    assert (ours.features, ours.actions, len(ours)) == (theirs.features, theirs.actions, len(theirs))
    assert (ours.observation.shape, ours.observation.dtype) == (theirs.observation.shape, theirs.observation.dtype)
    for action in np.random.default_rng(0).integers(8, size=(20, 2)):
        ours_step, their_step = ours.step(action), theirs.step(action)
        for name in ("discount", "real", "ended"):
            np.testing.assert_array_equal(getattr(ours_step, name), getattr(their_step, name))
        assert {name: value.dtype for name, value in ours_step._asdict().items()} == {
            name: value.dtype for name, value in their_step._asdict().items()
        }
        np.testing.assert_array_equal(ours.first, theirs.first)
        np.testing.assert_array_equal(ours.legal, theirs.legal)


def test_arrays_are_written_in_place():
    batch = RoomBatch(2)
    observation, phi = batch.observation, batch.phi
    step = batch.step([0, 1])
    assert batch.observation is observation
    assert step.phi is phi


@pytest.mark.parametrize("frame_stack", [1, 3])
def test_a_loaded_state_goes_on_exactly(frame_stack):
    actions = np.random.default_rng(0).integers(8, size=(23, 2))
    batch = RoomBatch(2, SHORT, image_size=16, frame_stack=frame_stack)
    film(batch, actions[:7])
    state = json.loads(json.dumps(batch.state()))
    expected = film(batch, actions[7:])
    other = RoomBatch(2, SHORT, image_size=16, frame_stack=frame_stack, seeds=[8, 9])
    film(other, actions[:4])
    other.load_state(state)
    found = film(other, actions[7:])
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_frame_stack_holds_the_latest_frames():
    actions = np.random.default_rng(0).integers(8, size=(12, 1))
    single, _ = film(RoomBatch(1, SHORT, image_size=16), actions)
    stacked, _ = film(RoomBatch(1, SHORT, image_size=16, frame_stack=3), actions)
    np.testing.assert_array_equal(stacked[0], np.tile(single[0], 3))
    np.testing.assert_array_equal(stacked[4], np.concatenate([single[2], single[3], single[4]], axis=-1))
    np.testing.assert_array_equal(stacked[6], np.tile(single[6], 3))  # the seam


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda: RoomBatch(2).step([0, 8]), "Action 8 is unknown; expected one of 0 (forward), 1 (backward)"),
        (lambda: RoomBatch(2).step([-1, 0]), "Action -1 is unknown"),
        (lambda: RoomBatch(2).step([0]), "The actions have shape (1,); expected (2,), one per room."),
        (lambda: RoomBatch(2).reset([0]), "2 rooms have 1 seeds; expected one per room."),
        (lambda: RoomBatch(0), "size is 0; expected 1 to 100000."),
        (lambda: RoomBatch(1, image_size=4), "image_size is 4; expected 8 to 2048."),
        (lambda: RoomBatch(1, gamma=0), "gamma is 0; expected a number above 0, at most 1."),
    ],
)
def test_bad_input_is_told_in_one_sentence(work, said):
    with pytest.raises(InputError) as error:
        work()
    assert said in str(error.value)


def test_seeds_may_be_an_array_and_actions_must_be_whole():
    batch = RoomBatch(3, image_size=8, seeds=np.arange(3))
    with pytest.raises(InputError, match="expected whole numbers"):
        batch.step(np.array([0.5, 1.0, 2.0]))
    with pytest.raises(InputError, match="image_size is 0; expected 8 to 2048"):
        batch.render(0)

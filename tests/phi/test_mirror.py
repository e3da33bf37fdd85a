"""φ learned from mirror images generalises to the side that was not seen."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import usfa
from usfa.environments import ObservationSpec
from usfa.environments.room.rules import ACTIONS
from usfa.errors import InputError
from usfa.phi import NetworkFit, NoProgress, Transitions, predict
from usfa.phi.learners import half_mirrored
from usfa.phi.quality import r_squared
from usfa.runs import FeaturesConfig

SIZE, STAY = 8, 2
LEARNER = NetworkFit((64,), ((8, 3, 1), (8, 3, 1)), steps=600, batch=64)
MIRRORED = replace(LEARNER, mirrored_actions=(1, 0, STAY))


def spots(history, seed=0):
    """A spot somewhere, for a history that stands still; it is met by 0 from the right half, and by 1 from the left."""
    rng = np.random.default_rng(seed)
    column = rng.integers(SIZE, size=2000)
    image = np.zeros((2000, SIZE, SIZE, 1), np.uint8)
    image[np.arange(2000), rng.integers(SIZE, size=2000), column] = 255
    action = rng.integers(3, size=(2000, history))
    met = np.where(column < SIZE // 2, action[:, -1] == 0, action[:, -1] == 1)
    action[:200, :-1] = -1  # at the start of episodes
    data = Transitions(
        observation=np.tile(image, history),
        action=action if history > 1 else action[:, 0],
        next_observation=image,
        rewards=met[:, None].astype(np.float32),
        episode=np.arange(2000) // 20,
        weight=np.ones(2000, np.float32),
        seen=np.ones((2000, 1), np.bool_),
        names=("met",),
        spec=ObservationSpec((SIZE, SIZE, 1)),
        actions=3,
        history=history,
    )
    return data.rows(column < SIZE // 2), data.rows(column >= SIZE // 2)


@pytest.mark.parametrize("history", [1, 2])
def test_phi_of_the_left_holds_on_the_right(history):
    left, right = spots(history)

    def explained(learner):
        return float(r_squared(right, predict(learner.fit(left, 1, 0, NoProgress()), right))[0])

    assert explained(MIRRORED) > 0.98
    assert explained(LEARNER) < 0.5


def test_images_and_actions_of_the_first_half_are_mirrored():
    observation = torch.arange(2 * 2 * 3 * 2).reshape(2, 2, 3, 2)  # [N, height, width, H · C]
    after = observation[..., :1]
    action = torch.tensor([[-1, 0], [1, 2]])
    mirrored = half_mirrored(observation, action, after, (1, 0, STAY))
    assert mirrored[1].tolist() == [[-1, 1], [1, 2]]
    for images, found in ((observation, mirrored[0]), (after, mirrored[2])):
        for column in range(3):
            assert torch.equal(found[0, :, column], images[0, :, 2 - column])
        assert torch.equal(found[1], images[1])


@pytest.mark.parametrize("mirrored", [(1, 2, 0), (1, 0, 3), (1, 0, -1), (0, 0, 2)])
def test_mirrored_actions_must_be_their_own_inverse(mirrored):
    with pytest.raises(InputError, match="its own inverse"):
        replace(LEARNER, mirrored_actions=mirrored)


def test_mirrored_actions_are_checked_before_data_are_collected(tmp_path):
    learner = replace(LEARNER, mirrored_actions=(1, 0))
    arguments = {"image_size": 12, "side": 5.0, "decisions": 20}
    with pytest.raises(InputError, match="expected the mirrored action of each of the 8 actions"):
        usfa.learn_features(
            "room",
            "tasks:room-train",
            learner=learner,
            steps=10**9,
            environment_arguments=arguments,
            out=tmp_path / "phi",
        )
    assert not (tmp_path / "phi").exists()


@pytest.mark.filterwarnings("ignore")  # φ of one update is poor
def test_mirrored_actions_are_checked_before_an_earlier_run_is_replaced(tmp_path):
    settings = {"rewards": "tasks:room-train", "features": 4, "steps": 2000, "out": tmp_path}
    settings["environment_arguments"] = {"image_size": 12, "side": 5.0, "decisions": 20}
    learner = replace(LEARNER, steps=1)
    usfa.learn_features("room", learner=learner, **settings)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="of the 8 actions"):
        usfa.learn_features("room", learner=replace(learner, mirrored_actions=(0,)), existing="overwrite", **settings)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_settings_that_a_text_leaves_out_are_the_defaults():
    """Runs of versions with fewer settings can be resumed."""
    text = 'usfa.phi.learners:NetworkFit{"batch": 64, "convolutions": [], "hidden": [256], "steps": 5}'
    assert FeaturesConfig("trip", "task:10", learner=text) == FeaturesConfig(
        "trip", "task:10", learner=NetworkFit(batch=64, steps=5)
    )


def test_the_mirror_of_the_room():
    """The mirrored actions in docs/learned-features.md give the same path on the other side."""
    mirrored = (0, 1, 3, 2, 5, 4, 7, 6)
    for action, other in zip(ACTIONS, mirrored, strict=True):
        assert ACTIONS[other] == replace(action, name=ACTIONS[other].name, strafe=-action.strafe, turn=-action.turn)


def test_vectors_have_no_mirror_image():
    data, _ = spots(1)
    flat = replace(
        data,
        observation=data.observation.reshape(len(data), -1),
        next_observation=data.next_observation.reshape(len(data), -1),
        spec=ObservationSpec((SIZE * SIZE,)),
    )
    with pytest.raises(InputError, match="observations are vectors"):
        NetworkFit(mirrored_actions=(1, 0, 2)).fit(flat, 1, 0, NoProgress())

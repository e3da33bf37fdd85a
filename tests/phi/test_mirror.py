"""φ learned from images and their mirror images: what was seen on one side only holds on the other side, too."""

from dataclasses import replace

import numpy as np
import pytest

from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.phi import NetworkFit, NoProgress, Transitions, predict
from usfa.phi.quality import r_squared

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
def test_what_was_seen_on_the_left_holds_on_the_right(history):
    left, right = spots(history)

    def explained(learner):
        return float(r_squared(right, predict(learner.fit(left, 1, 0, NoProgress()), right))[0])

    assert explained(MIRRORED) > 0.98
    assert explained(LEARNER) < 0.5


@pytest.mark.parametrize("mirrored", [(1, 0), (1, 2, 0), (1, 0, 3), (1, 0, -1), (0, 0, 2)])
def test_mirrored_actions_that_do_not_fit(mirrored):
    data, _ = spots(1)
    with pytest.raises(InputError, match="expected the mirrored action of each of the 3 actions"):
        replace(LEARNER, mirrored_actions=mirrored).fit(data, 1, 0, NoProgress())


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

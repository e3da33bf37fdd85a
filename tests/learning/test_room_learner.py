"""Recurrent agents from pixels in a small room: side by side, saved and resumed."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from usfa.agents import AGENTS, AgentSpec
from usfa.environments import ObservationSpec, source
from usfa.errors import InputError
from usfa.learning import Learner, LearnerConfig
from usfa.networks import NetworkConfig

ROOM = source("room", image_size=12, side=4.0, types=2, objects_per_type=2, decisions=10)
SPEC = AgentSpec(ObservationSpec((12, 12, 3)), 8, 2)
NETWORK = NetworkConfig(((4, 4, 2), (8, 3, 1)), memory=8, trunk=(16,), embedding=(8,), head=(16,), normalise=True)
CONFIG = LearnerConfig(
    policies="gaussian:0.1",
    policies_per_step=3,
    environments=4,
    tasks="fixed",
    trajectory_length=6,
    updates_per_round=2,
    epsilon=0.3,
    gamma=0.9,
    clip=1.0,
    budget=2000,
    budget_unit="frames",
)
CONFIGS = {
    "fresh trajectories": CONFIG,
    "past ones too": replace(CONFIG, replay_ratio=1, replay_capacity=3),
    "target network": replace(CONFIG, target_every=5),
}


def room_learner(config=CONFIG, seeds=(0, 1), kind="usfa"):
    return Learner(AGENTS.make(kind, SPEC, NETWORK), config, ROOM, np.eye(2), seeds)


def steps(learner, count):
    return [learner.step() for _ in range(count)]


@pytest.mark.parametrize("kind", ["usfa", "uvfa"])
def test_a_run_does_not_depend_on_its_neighbours(kind):
    """Over several episodes, all of them cut off by the clock."""
    together = room_learner(seeds=(0, 5), kind=kind)
    updates = steps(together, 6)
    assert sum(len(update.episode_phi) for update in updates) == together.episodes.sum() > 0
    for index, seed in enumerate((0, 5)):
        alone = room_learner(seeds=(seed,), kind=kind)
        found = steps(alone, 6)
        assert alone.frames[0] == together.frames[index]
        for one, both in zip(found, updates, strict=True):
            assert one.loss[0] == pytest.approx(both.loss[index], rel=1e-4)
        for name, x in alone.network.state.items():
            torch.testing.assert_close(x[0], together.network.state[name][index], rtol=0, atol=1e-5)
    assert any(not torch.allclose(x[0], x[1]) for x in together.network.state.values())


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("kind", ["usfa", "uvfa"])
@pytest.mark.parametrize("seeds", [(3,), (0, 1)])
def test_a_resumed_run_goes_on_to_the_bit(config, kind, seeds):
    """Saved in the middle of an episode, with a memory of it."""
    learner = room_learner(config, seeds, kind)
    steps(learner, 3)
    tensors, values = learner.state()
    tensors, values = {name: x.clone() for name, x in tensors.items()}, json.loads(json.dumps(values))
    assert learner.acting.rollout.core_state[0].abs().max() > 0
    assert not learner.acting.rollout.batch.first.any()
    expected = steps(learner, 4)
    resumed = room_learner(config, seeds, kind)
    resumed.load_state(tensors, values)
    found = steps(resumed, 4)
    assert resumed.updates == learner.updates == 7 * 2
    assert resumed.frames.tolist() == learner.frames.tolist()
    for one, two in zip(expected, found, strict=True):
        for name in ("loss", "gradient", "episode_phi", "episode_environment"):
            assert np.array_equal(getattr(one, name), getattr(two, name))
    for name, x in learner.network.state.items():
        assert torch.equal(x, resumed.network.state[name]), name


def test_what_is_resumed_depends_on_the_memory_and_the_last_action():
    """Both are in the state: without either the run would go on differently."""
    learner = room_learner(replace(CONFIG, epsilon=0.0))
    steps(learner, 3)
    tensors, values = learner.state()
    tensors = {name: x.clone() for name, x in tensors.items()}
    expected = steps(learner, 1)[0].loss
    for name in ("acting/last_action", "acting/core_state.0", "acting/core_state.1"):
        other = room_learner(replace(CONFIG, epsilon=0.0))
        other.load_state({**tensors, name: torch.zeros_like(tensors[name])}, values)
        assert not np.array_equal(steps(other, 1)[0].loss, expected), name


def test_seams_are_no_frames():
    """Episodes of ten decisions: every eleventh step only opens the next one."""
    learner = room_learner(seeds=(0,))
    steps(learner, 11)
    assert learner.frames.tolist() == [4 * 60]
    assert learner.episodes.tolist() == [4 * 6]


def test_past_images_take_their_room():
    learner = room_learner(replace(CONFIG, replay_ratio=1, replay_capacity=10_000_000))
    with pytest.raises(InputError, match=r"^replay_capacity is 10000000 trajectories, which take \d+ GiB; expected at"):
        learner.step()

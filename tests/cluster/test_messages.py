"""What travels: shared, not copied, and checked on arrival."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from usfa.cluster.actor import Actor, Job
from usfa.cluster.ledger import ActorId
from usfa.cluster.messages import delivery_layout, pack_weights, problem, unpack, unpack_weights
from usfa.networks import Runs
from usfa.runs import build_agent, preset

CONFIG = preset("room-laptop")
LEARNER = replace(CONFIG.learner, environments=4, trajectory_length=3, updates_per_round=1)


@pytest.fixture(scope="module")
def agent():
    return build_agent(CONFIG)


@pytest.fixture
def delivery(agent):
    seeds = (0, 1)
    weights = Runs([agent.make_network(seed) for seed in seeds]).state
    job = Job(agent, LEARNER, CONFIG.environments, CONFIG.tasks, seeds, "fp32")
    actor = Actor(job, ActorId(0, 0, 0))
    actor.collect(pack_weights(6, weights))
    return actor.collect(pack_weights(7, weights))


def test_a_trajectory_comes_out_as_it_went_in_without_a_copy(agent, delivery):
    collected, z = unpack(delivery, torch.device("cpu"))
    trajectory = collected.trajectory
    assert (delivery.sequence, delivery.version) == (2, 7)
    assert collected.frames.tolist() == [12, 12]
    assert trajectory.observation.data_ptr() == delivery.arrays["observation"].ctypes.data
    assert trajectory.action.data_ptr() == trajectory.previous_action[:, 1:].data_ptr()
    assert z.data_ptr() == delivery.arrays["z"].ctypes.data
    assert [x.shape for x in trajectory.core_state] == [(2, 4, 128)] * 2
    assert not problem(delivery, delivery_layout(agent, LEARNER, 2), agent.spec.actions)


def test_weights_come_out_as_they_went_in_without_a_copy(agent):
    state = Runs([agent.make_network(seed) for seed in (0, 1)]).state
    weights = pack_weights(3, state)
    assert weights.version == 3
    found = unpack_weights(weights)
    assert found.keys() == state.keys()
    assert all(x.data_ptr() == state[name].data_ptr() for name, x in found.items())


def test_tensors_are_not_pickled(delivery):
    """Ray pickles with buffers out of band: what is pickled itself are names, numbers and shapes."""
    buffers = []
    pickled = pickle.dumps(delivery, protocol=5, buffer_callback=buffers.append)
    assert len(pickled) < 4_000
    assert delivery.nbytes <= sum(buffer.raw().nbytes for buffer in buffers) < delivery.nbytes + 2_000
    assert all(array.flags.c_contiguous for array in delivery.arrays.values())


def spoiled(delivery, name, change):
    array = np.array(delivery.arrays[name])
    changed = change(array)
    return delivery._replace(arrays=delivery.arrays | {name: array if changed is None else changed})


def put(value):
    def change(array):
        array.flat[-1] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("phi", put(np.nan), "phi is not finite"),
        ("w", put(-np.inf), "w is not finite"),
        ("z", put(np.inf), "z is not finite"),
        ("discount", put(np.nan), "discount is not finite"),
        ("core_state.1", put(np.nan), "core_state.1 is not finite"),
        ("phi", lambda x: x[:, :-1], "phi is float32[2, 2, 4, 4] instead of float32[2, 3, 4, 4]"),
        ("phi", lambda x: x.astype(np.float64), "phi is float64[2, 3, 4, 4] instead of float32[2, 3, 4, 4]"),
        ("observation", lambda x: x[..., :1], "observation is uint8[2, 4, 4, 42, 42, 1] instead of"),
        ("previous_action", put(8), "actions go from 0 to 8, but there are 8"),
        ("previous_action", put(-1), "actions go from -1 to"),
        ("nonsense", lambda _: np.zeros(1), "fields ['nonsense'] are missing or unknown"),
    ],
)
def test_what_is_wrong_is_said(agent, delivery, name, change, words):
    delivery.arrays.setdefault("nonsense", np.zeros(0)) if name == "nonsense" else None
    found = problem(spoiled(delivery, name, change), delivery_layout(agent, LEARNER, 2), agent.spec.actions)
    assert found.startswith(words)

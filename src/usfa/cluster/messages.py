"""Messages between learner and actors: trajectories and weights as plain arrays, checked on arrival.

Ray copies the buffers of contiguous arrays into shared memory (pickle protocol 5, out of band), and the receiver gets
read-only views. A trajectory is copied once and never pickled.
"""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import Agent
from usfa.cluster.ledger import ActorId
from usfa.learning import Collected, LearnerConfig
from usfa.learning.layout import Layout, defect, trajectory_layout
from usfa.networks import Parameters
from usfa.trajectory import Trajectory, tensors_of, trajectory_of
from usfa.version import __version__

__all__ = [
    "Delivery",
    "Greeting",
    "Versions",
    "Weights",
    "delivery_layout",
    "pack",
    "pack_weights",
    "problem",
    "unpack",
    "unpack_weights",
]

Arrays = dict[str, NDArray[Any]]


class Versions(NamedTuple):
    """Versions of software, which must be equal on all nodes."""

    usfa: str
    torch: str
    python: str

    @classmethod
    def here(cls) -> Versions:
        return cls(__version__, torch.__version__, platform.python_version())


class Greeting(NamedTuple):
    """The first message of a new actor."""

    versions: Versions
    node: str
    process: int


class Weights(NamedTuple):
    """Weights to act with."""

    version: int  # number of rounds of learning
    arrays: Arrays  # each [R, ...]
    done: float | NDArray[np.float64] = 1.0  # share of the budget that each run has used, [R], which ε depends on


class Delivery(NamedTuple):
    """A trajectory with its actor, sequence number and weight version."""

    actor: ActorId
    sequence: int  # counted by the actor, from 1
    version: int  # of the weights
    frames: NDArray[np.int64]  # [R]
    episodes: NDArray[np.int64]  # [R]
    episode_phi: NDArray[np.float64]  # [K, D]
    episode_environment: NDArray[np.int64]  # [K]
    arrays: Arrays
    seconds: float  # of acting

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


def pack(trajectory: Trajectory, z: Tensor) -> Arrays:
    """Arrays that share the memory of a trajectory, without `action`, which is `previous_action` one step later."""
    tensors = {**tensors_of(trajectory), "z": z}
    return {name: x.cpu().numpy() for name, x in tensors.items() if name != "action"}


def unpack(delivery: Delivery, device: torch.device) -> tuple[Collected, Tensor]:
    """The collected trajectory and z: views of the arrays on the CPU, copies on a GPU."""
    tensors = {name: _view(array).to(device) for name, array in delivery.arrays.items()}
    z = tensors.pop("z")
    trajectory = trajectory_of({**tensors, "action": tensors["previous_action"][:, 1:]})
    counts = (delivery.frames, delivery.episodes, delivery.episode_phi, delivery.episode_environment)
    return Collected(trajectory, *counts), z


def pack_weights(version: int, parameters: Parameters, done: float | NDArray[np.float64] = 1.0) -> Weights:
    """Weights as arrays; they share the memory of parameters on the CPU."""
    return Weights(version, {name: x.detach().cpu().numpy() for name, x in parameters.items()}, done)


def unpack_weights(weights: Weights) -> Parameters:
    return {name: _view(array) for name, array in weights.arrays.items()}


def _view(array: NDArray[Any]) -> Tensor:
    with warnings.catch_warnings():
        # PyTorch warns that shared memory is read-only. Nothing here writes to it.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def delivery_layout(agent: Agent, config: LearnerConfig, runs: int) -> Layout:
    """The layout of the arrays of every delivery of these runs."""
    tensors = trajectory_layout(agent, config, runs)
    del tensors["action"]
    arrays = {name: (shape, torch.empty(0, dtype=dtype).numpy().dtype) for name, (shape, dtype) in tensors.items()}
    policies = (runs, config.environments, config.policies_per_step, agent.spec.features)
    return {**arrays, "z": (policies, np.dtype(np.float32))}


def problem(delivery: Delivery, layout: Layout, actions: int) -> str:
    """Describe the defect of a trajectory in a few words; empty if it is valid."""
    return defect(delivery.arrays, layout) or _poisoned(delivery.arrays, actions)


def _poisoned(arrays: Mapping[str, NDArray[Any]], actions: int) -> str:
    for name, array in arrays.items():
        if array.dtype.kind == "f" and name != "reward" and not np.isfinite(array).all():
            return f"{name} is not finite"
    action = arrays["previous_action"]
    if action.min() < 0 or action.max() >= actions:
        return f"actions go from {action.min()} to {action.max()}, but there are {actions}"
    return ""

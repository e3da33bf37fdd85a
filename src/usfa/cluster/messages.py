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
from usfa.networks import Parameters
from usfa.trajectory import Trajectory, tensors_of, trajectory_of
from usfa.version import __version__

__all__ = [
    "Delivery",
    "Greeting",
    "Layout",
    "Versions",
    "Weights",
    "layout_of",
    "pack",
    "pack_weights",
    "problem",
    "unpack",
    "unpack_weights",
]

Arrays = dict[str, NDArray[Any]]
Layout = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
"""Shape and type of every array."""


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


def pack_weights(version: int, parameters: Parameters) -> Weights:
    """Weights as arrays; they share the memory of parameters on the CPU."""
    return Weights(version, {name: x.detach().cpu().numpy() for name, x in parameters.items()})


def unpack_weights(weights: Weights) -> Parameters:
    return {name: _view(array) for name, array in weights.arrays.items()}


def _view(array: NDArray[Any]) -> Tensor:
    with warnings.catch_warnings():
        # PyTorch warns that shared memory is read-only. Nothing here writes to it.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def layout_of(agent: Agent, config: LearnerConfig, runs: int) -> Layout:
    """The layout that every trajectory of these runs must have."""
    length, batch, spec = config.trajectory_length, config.environments, agent.spec
    real, whole, yes = np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_)
    steps, moments = (runs, length, batch), (runs, length + 1, batch)
    memory = {
        f"core_state.{index}": ((runs, *x.shape), x.numpy().dtype) for index, x in enumerate(agent.initial_state(batch))
    }
    return {
        "observation": ((*moments, *spec.observation.shape), np.dtype(spec.observation.dtype)),
        "previous_action": (moments, whole),
        "legal": ((*moments, spec.actions), yes),
        "first": (moments, yes),
        "phi": ((*steps, spec.features), real),
        "discount": (steps, real),
        "reward": (steps, real),
        "w": ((runs, batch, spec.features), real),
        "z": ((runs, batch, config.policies_per_step, spec.features), real),
        **memory,
    }


def problem(delivery: Delivery, layout: Layout, actions: int) -> str:
    """Describe the defect of a trajectory in a few words; empty if it is valid."""
    return _misshapen(delivery.arrays, layout) or _poisoned(delivery.arrays, actions)


def _misshapen(arrays: Mapping[str, NDArray[Any]], layout: Layout) -> str:
    if arrays.keys() != layout.keys():
        return f"fields {sorted(arrays.keys() ^ layout.keys())} are missing or unknown"
    for name, (shape, dtype) in layout.items():
        found = arrays[name]
        if found.shape != shape or found.dtype != dtype:
            return f"{name} is {found.dtype}{list(found.shape)} instead of {dtype}{list(shape)}"
    return ""


def _poisoned(arrays: Mapping[str, NDArray[Any]], actions: int) -> str:
    for name, array in arrays.items():
        if array.dtype.kind == "f" and name != "reward" and not np.isfinite(array).all():
            return f"{name} is not finite"
    action = arrays["previous_action"]
    if action.min() < 0 or action.max() >= actions:
        return f"actions go from {action.min()} to {action.max()}, but there are {actions}"
    return ""

"""Expected names, shapes and types of trajectories, weights and optimiser states, to check received ones."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import Agent
from usfa.learning.config import LearnerConfig

__all__ = ["Layout", "defect", "layout_of", "optimizer_layout", "trajectory_layout"]

Layout = dict[str, tuple[tuple[int, ...], Any]]
"""Shape and type of every array or tensor."""


def layout_of(members: Mapping[str, Tensor | NDArray[Any]]) -> Layout:
    return {name: (tuple(x.shape), x.dtype) for name, x in members.items()}


def trajectory_layout(agent: Agent, config: LearnerConfig, runs: int) -> Layout:
    """The layout of every trajectory of these runs."""
    length, batch, spec = config.trajectory_length, config.environments, agent.spec
    real, whole, yes = torch.float32, torch.int64, torch.bool
    seen = torch.from_numpy(np.empty(0, spec.observation.dtype)).dtype
    steps, moments = (runs, length, batch), (runs, length + 1, batch)
    memory = {f"core_state.{index}": ((runs, *x.shape), x.dtype) for index, x in enumerate(agent.initial_state(batch))}
    return {
        "observation": ((*moments, *spec.observation.shape), seen),
        "previous_action": (moments, whole),
        "legal": ((*moments, spec.actions), yes),
        "first": (moments, yes),
        "action": (steps, whole),
        "phi": ((*steps, spec.features), real),
        "discount": (steps, real),
        "reward": (steps, real),
        "w": ((runs, batch, spec.features), real),
        **memory,
    }


def optimizer_layout(agent: Agent, parameters: Sequence[Tensor], learning_rate: float) -> Layout:
    """The layout of the tensors in an optimiser's state, by "index/name", found by a step with zero gradients."""
    copies = [x.detach().clone().requires_grad_() for x in parameters]
    for x in copies:
        x.grad = torch.zeros_like(x)
    trial = agent.optimizer(copies, learning_rate)
    trial.step()
    members = itertools.chain.from_iterable(
        ((f"{index}/{name}", value) for name, value in own.items())
        for index, own in trial.state_dict()["state"].items()
    )
    return layout_of({name: value for name, value in members if isinstance(value, Tensor)})


def defect(found: Mapping[str, Tensor | NDArray[Any]], layout: Layout) -> str:
    """Describe the first difference from a layout in a few words; empty if there is none."""
    if found.keys() != layout.keys():
        return f"fields {sorted(found.keys() ^ layout.keys())} are missing or unknown"
    for name, (shape, dtype) in layout.items():
        if tuple(found[name].shape) != shape or found[name].dtype != dtype:
            return f"{name} is {found[name].dtype}{list(found[name].shape)} instead of {dtype}{list(shape)}"
    return ""

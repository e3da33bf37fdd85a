"""Training runs side by side: functions are written for one run, parameters are stacked, one call serves all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from usfa.networks.parameters import Parameters

__all__ = ["over_runs", "select_run", "stack_runs"]


def stack_runs(parameters: Sequence[Parameters]) -> Parameters:
    """The parameters of several runs with an axis R in front."""
    return {name: torch.stack([run[name] for run in parameters]) for name in parameters[0]}


def select_run(parameters: Parameters, run: int) -> Parameters:
    """The parameters of one run, without the axis R."""
    return {name: tensor[run] for name, tensor in parameters.items()}


def over_runs(function: Callable[..., Any], runs: int) -> Callable[..., Any]:
    """`function` on arguments whose tensors all carry a first axis R, in one batched call for all runs.

    A single run skips vmap: its batched kernels cost more than the plain ones.
    """
    if runs > 1:
        return torch.vmap(function)

    def single(*arguments: Any) -> Any:
        result = function(*_map(arguments, lambda tensor: tensor[0]))
        return _map(result, lambda tensor: tensor[None])

    return single


def _map(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Change every tensor in nested dicts, tuples and records."""
    match tree:
        case Tensor():
            return change(tree)
        case dict():
            return {name: _map(value, change) for name, value in tree.items()}
        case tuple() if hasattr(tree, "_fields"):
            return type(tree)(*(_map(value, change) for value in tree))
        case tuple():
            return tuple(_map(value, change) for value in tree)
    return tree

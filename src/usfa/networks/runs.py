"""Training runs side by side: functions are written for one run, parameters are stacked, one call serves all."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from usfa.networks.layers import Parameters

__all__ = ["over_runs", "select_run", "stack_runs"]


def stack_runs(parameters: Sequence[Parameters]) -> Parameters:
    """The parameters of several runs with an axis R in front."""
    return {name: torch.stack([run[name] for run in parameters]) for name in parameters[0]}


def select_run(parameters: Parameters, run: int) -> Parameters:
    """The parameters of one run, without the axis R."""
    return {name: tensor[run] for name, tensor in parameters.items()}


def over_runs(function: Callable[..., Any], parameters: Parameters, batched: bool = True) -> Callable[..., Any]:
    """`function(parameters, ...)` for all runs: of further arguments whose tensors all carry a first axis R.

    Args:
        function: of one run.
        parameters: each [R, ...].
        batched: one call serves all runs (vmap). Convolutions and LSTMs have no good batched kernels: False takes one
            run after the other. A single run is never batched, for the plain kernels cost less.
    """
    runs = len(next(iter(parameters.values())))
    if runs > 1 and batched:
        return partial(torch.vmap(function), parameters)
    each = [select_run(parameters, run) for run in range(runs)]

    def one_by_one(*arguments: Any) -> Any:
        results = [function(own, *_map(arguments, operator.itemgetter(run))) for run, own in enumerate(each)]
        return _map_all(results, torch.stack)

    return one_by_one


def _map(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Change every tensor in nested dicts, tuples and records."""
    return _map_all([tree], lambda tensors: change(tensors[0]))


def _map_all(trees: Sequence[Any], join: Callable[[list[Tensor]], Tensor]) -> Any:
    """Several trees of the same form as one: every tensor is joined with its namesakes."""
    match trees[0]:
        case Tensor():
            return join(list(trees))
        case dict():
            return {name: _map_all([tree[name] for tree in trees], join) for name in trees[0]}
        case tuple():
            members = [_map_all(values, join) for values in zip(*trees, strict=True)]
            return type(trees[0])(*members) if hasattr(trees[0], "_fields") else tuple(members)
    return trees[0]

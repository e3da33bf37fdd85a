"""Parallel training runs: functions of one network, computed for the networks of all runs."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_map

from usfa.networks.universal import Network

__all__ = ["Parameters", "Runs", "over_runs"]

Parameters = dict[str, Tensor]
"""Weights by name; those of several runs have a leading axis R."""


class Runs:
    """The networks of R training runs.

    Their weights are stored together, each tensor with a leading axis R, and the modules use views of that memory.
    Networks of dense layers are computed in one call for all runs. Others are computed one after the other, because
    convolutions and LSTMs have no fast batched kernels. So is a single run, because unbatched kernels are faster.
    """

    def __init__(self, networks: Sequence[Network], at_once: bool = True) -> None:
        """Args: the networks, and whether to compute those of dense layers in one call."""
        self.networks = list(networks)
        self.at_once = at_once
        states = [network.state_dict(keep_vars=True) for network in networks]
        self.state: Parameters = {name: torch.stack([state[name].detach() for state in states]) for name in states[0]}
        self.batched = at_once and len(self.networks) > 1 and self.networks[0].batches_runs
        trained = [name for name, x in self.networks[0].named_parameters() if x.requires_grad]
        if self.batched:
            self.leaves = {name: self.state[name].detach().requires_grad_() for name in trained}
            return
        for run, state in enumerate(states):
            for name, tensor in state.items():
                tensor.data = self.state[name][run]
        self.leaves = {f"{run}.{name}": state[name] for run, state in enumerate(states) for name in trained}

    @property
    def trained(self) -> list[Tensor]:
        """Tensors for the optimiser."""
        return list(self.leaves.values())

    def gradients(self) -> list[list[Tensor]]:
        """Gradients in groups, with a leading axis: one group [R, ...] if batched, otherwise R groups [1, ...]."""
        gradients = [leaf.grad for leaf in self.leaves.values() if leaf.grad is not None]
        if self.batched:
            return [gradients]
        per_run = len(gradients) // len(self.networks)
        rows = [gradient[None] for gradient in gradients]
        return [rows[run * per_run : (run + 1) * per_run] for run in range(len(self.networks))]

    def network(self, run: int) -> Network:
        """The network of one run; if runs are batched, with a copy of the current weights."""
        network = self.networks[run]
        if self.batched:
            network.load_state_dict({name: tensor[run] for name, tensor in self.state.items()})
        return network

    @contextmanager
    def holding(self, z: Tensor) -> Iterator[Tensor | _OfEachRun]:
        """Within this context, compute once what depends on z [R, B, N, D] and the weights alone (`Network.hold`).

        Yields z as it must then be passed on. Batched networks compute as always: their weights are arguments.
        """
        if self.batched:
            yield z
            return
        of_each = _OfEachRun(z)
        try:
            for network, own in zip(self.networks, of_each, strict=True):
                network.hold(own)
            yield of_each
        finally:
            for network in self.networks:
                network.release()

    def copy(self) -> Runs:
        """Copy all networks."""
        return Runs([copy.deepcopy(self.network(run)) for run in range(len(self.networks))], self.at_once)

    @torch.no_grad()
    def load(self, state: Parameters) -> None:
        """Copy weights, each [R, ...], into the networks."""
        for name, tensor in self.state.items():
            tensor.copy_(state[name])

    @torch.no_grad()
    def lerp(self, other: Parameters, share: Tensor) -> None:
        """Interpolate the weights of every run towards others [R, ...], by a share [R]."""
        for name, tensor in self.state.items():
            if tensor.is_floating_point():
                tensor.lerp_(other[name], share.view(-1, *[1] * (tensor.dim() - 1)))
            else:
                tensor.copy_(other[name])


class _OfEachRun(list[Tensor]):
    """The same tensor of each run at every call, by which a network recognises what it holds."""


class _Call(nn.Module):
    """A function of networks as a module, for `functional_call`."""

    def __init__(self, function: Callable[..., Any], networks: Sequence[Network]) -> None:
        super().__init__()
        self.function = function
        self.networks = nn.ModuleList(networks)

    def forward(self, *arguments: Any) -> Any:
        return self.function(*self.networks, *arguments)


def over_runs(function: Callable[..., Any], *runs: Runs) -> Callable[..., Any]:
    """Apply `function(network, ..., arguments)` to all runs; all tensors in the arguments have a leading axis R.

    Args:
        function: a function of the networks of one run and further arguments.
        runs: for each network argument of the function, the networks of all runs.
    """
    if runs[0].batched:
        # Buffers and frozen parameters are only in the state. All of these tensors are changed in place.
        members = [(k, {**one.state, **one.leaves}) for k, one in enumerate(runs)]
        weights = {f"networks.{k}.{name}": x for k, own in members for name, x in own.items()}
        return partial(_batched, _Call(function, [one.networks[0] for one in runs]), weights)
    return partial(_one_by_one, function, runs)


def _batched(call: _Call, weights: Parameters, *arguments: Any) -> Any:
    def of_one(of_run: Parameters, *own: Any) -> Any:
        # All weights are given by name; looking for tied ones would walk through all modules at every call.
        return functional_call(call, of_run, own, tie_weights=False)

    return torch.vmap(of_one)(weights, *arguments)


def _one_by_one(function: Callable[..., Any], runs: Sequence[Runs], *arguments: Any) -> Any:
    results = []
    for run, networks in enumerate(zip(*(one.networks for one in runs), strict=True)):
        results.append(function(*networks, *_mapped(operator.itemgetter(run), arguments)))
    return _mapped(_stacked, *results)


def _stacked(*members: Tensor) -> Tensor:
    return torch.stack(members) if len(members) > 1 else members[0][None]


def _mapped(function: Callable[..., Any], *trees: Any) -> Any:
    """Apply a function to the tensors of trees of equal structure.

    Containers other than tuples fall back to `tree_map`, which would take a twentieth of the time of acting.
    """
    first = trees[0]
    if isinstance(first, Tensor | _OfEachRun):
        return function(*trees)
    if not isinstance(first, tuple):
        return tree_map(function, *trees)
    members = [_mapped(function, *parts) for parts in zip(*trees, strict=True)]
    return type(first)(*members) if hasattr(first, "_fields") else tuple(members)

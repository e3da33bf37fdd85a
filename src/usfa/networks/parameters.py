"""Parameters outside of modules: made from a generator, stacked over runs, saved as they are."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["Parameters", "initial_parameters"]

Parameters = dict[str, Tensor]
"""Tensors by name, for torch.func.functional_call; runs trained side by side add an axis R in front."""


def initial_parameters(network: nn.Module, generator: torch.Generator) -> Parameters:
    """PyTorch's default initialisation, U(±1/√fan_in), drawn from `generator` instead of the global one."""
    parameters = {}
    for prefix, module in network.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            parameters[f"{prefix}.{name}"] = _initial(module, name, parameter.shape, generator)
    return parameters


def _initial(module: nn.Module, name: str, shape: torch.Size, generator: torch.Generator) -> Tensor:
    match module:
        case nn.LayerNorm():
            return torch.ones(shape) if name == "weight" else torch.zeros(shape)
        case nn.Linear() | nn.Conv2d():
            bound = 1 / math.sqrt(module.weight[0].numel())
            return torch.empty(shape).uniform_(-bound, bound, generator=generator)
    raise NotImplementedError(f"No initialisation is defined for {type(module).__name__}.")

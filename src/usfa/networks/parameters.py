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
        if isinstance(module, nn.Linear):
            bound = 1 / math.sqrt(module.in_features)
            for name, parameter in module.named_parameters():
                drawn = torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator)
                parameters[f"{prefix}.{name}"] = drawn
    missing = {name for name, _ in network.named_parameters()} - parameters.keys()
    if missing:
        raise NotImplementedError(f"No initialisation is defined for {sorted(missing)}.")
    return parameters

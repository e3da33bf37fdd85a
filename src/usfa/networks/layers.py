"""Layers without weights: each knows the shapes and names of its parameters, and computes with those it is given.

torch.nn keeps weights inside of modules, and torch.func.functional_call takes them out again: at the sizes of
reinforcement learning that costs as much as the layers themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import conv2d, layer_norm, linear

__all__ = ["Convolution", "Dense", "Layer", "Normalisation", "Parameters", "initial_parameters"]

Parameters = dict[str, Tensor]
"""Tensors by name; runs that train side by side add an axis R in front."""


class Layer(Protocol):
    """Something with parameters of its own."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """By name, in the order in which they are drawn."""
        ...

    def draw(self, shape: tuple[int, ...], name: str, generator: torch.Generator) -> Tensor:
        """One parameter at the start of training."""
        ...


@dataclass(frozen=True)
class Dense:
    """W x + b."""

    name: str
    inputs: int
    outputs: int
    bias: bool = True

    def shapes(self) -> dict[str, tuple[int, ...]]:
        weight = {f"{self.name}.weight": (self.outputs, self.inputs)}
        return weight | ({f"{self.name}.bias": (self.outputs,)} if self.bias else {})

    def draw(self, shape: tuple[int, ...], name: str, generator: torch.Generator) -> Tensor:
        return _uniform(shape, self.inputs, generator)

    def __call__(self, parameters: Parameters, x: Tensor) -> Tensor:
        bias = parameters[f"{self.name}.bias"] if self.bias else None
        return linear(x, parameters[f"{self.name}.weight"], bias)


@dataclass(frozen=True)
class Convolution:
    """A square kernel over images [B, C, H, W]."""

    name: str
    inputs: int
    outputs: int
    kernel: int
    stride: int

    def shapes(self) -> dict[str, tuple[int, ...]]:
        weight = (self.outputs, self.inputs, self.kernel, self.kernel)
        return {f"{self.name}.weight": weight, f"{self.name}.bias": (self.outputs,)}

    def draw(self, shape: tuple[int, ...], name: str, generator: torch.Generator) -> Tensor:
        return _uniform(shape, self.inputs * self.kernel**2, generator)

    def __call__(self, parameters: Parameters, x: Tensor) -> Tensor:
        return conv2d(x, parameters[f"{self.name}.weight"], parameters[f"{self.name}.bias"], self.stride)

    def on_bytes(self, parameters: Parameters, x: Tensor) -> Tensor:
        """The layer on x/255 - ½, with the weights changed instead of the pixels: there are far fewer of them."""
        weight = parameters[f"{self.name}.weight"]
        bias = parameters[f"{self.name}.bias"] - weight.sum(dim=(1, 2, 3)) / 2
        return conv2d(x, weight / 255, bias, self.stride)


@dataclass(frozen=True)
class Normalisation:
    """Ba et al. 2016: mean 0 and variance 1 over the last axis, then a scale and a shift of its own for every unit."""

    name: str
    size: int

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {f"{self.name}.weight": (self.size,), f"{self.name}.bias": (self.size,)}

    def draw(self, shape: tuple[int, ...], name: str, generator: torch.Generator) -> Tensor:
        return torch.ones(shape) if name.endswith("weight") else torch.zeros(shape)

    def __call__(self, parameters: Parameters, x: Tensor) -> Tensor:
        weight, bias = parameters[f"{self.name}.weight"], parameters[f"{self.name}.bias"]
        return layer_norm(x.float(), (self.size,), weight, bias)


def initial_parameters(layers: Iterator[Layer], generator: torch.Generator) -> Parameters:
    """PyTorch's default initialisation, U(±1/√fan_in), drawn from `generator` instead of the global one."""
    return {name: layer.draw(shape, name, generator) for layer in layers for name, shape in layer.shapes().items()}


def _uniform(shape: tuple[int, ...], fan_in: int, generator: torch.Generator) -> Tensor:
    bound = 1 / math.sqrt(fan_in)
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)

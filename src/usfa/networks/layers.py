"""Layers of the trunk: convolutions on bytes, an LSTM that is reset when an episode starts, dense layers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, layer_norm

from usfa.errors import InputError
from usfa.trajectory import CoreState

__all__ = ["Convolutions", "LayerNorm", "Memory", "mlp"]

FORGET_BIAS = 1.0
"""Jozefowicz et al. 2015: without it the cell state initially halves at every step."""


def mlp(sizes: Sequence[int]) -> nn.ModuleList:
    """Dense layers; the caller applies a ReLU after each."""
    return nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(sizes))


class LayerNorm(nn.LayerNorm):
    """Layer normalisation in fp32, also under autocast."""

    def forward(self, x: Tensor) -> Tensor:
        return layer_norm(x.float(), self.normalized_shape, self.weight, self.bias, self.eps)


class Convolutions(nn.ModuleList):
    """Convolutions with ReLU on images [..., H, W, C] of 0 to 255, as bytes or floats, flattened to [..., F]."""

    def __init__(self, layers: tuple[tuple[int, int, int], ...], shape: tuple[int, ...]) -> None:
        super().__init__()
        if not layers:
            raise InputError("network.convolutions is empty; images need at least one layer.")
        height, width, channels = shape
        for outputs, kernel, stride in layers:
            self.append(nn.Conv2d(channels, outputs, kernel, stride))
            height, width, channels = (height - kernel) // stride + 1, (width - kernel) // stride + 1, outputs
            if min(height, width) < 1:
                raise InputError(
                    f"Images of {shape[0]}×{shape[1]} pixels are too small for network.convolutions {layers}; "
                    "expected fewer or smaller ones."
                )
        self.features = height * width * channels
        self._fixed: list[_Kernel] = []

    @torch.no_grad()
    def freeze(self) -> None:
        """Compute the kernels once and store them channels-last, like images; weights must not change afterwards."""
        self._fixed = [
            _Kernel(weight.contiguous(memory_format=torch.channels_last), bias.clone(), stride)
            for weight, bias, stride in self._kernels()
        ]

    def _kernels(self) -> Iterator[_Kernel]:
        for index, layer in enumerate(self):
            assert isinstance(layer, nn.Conv2d)
            assert layer.bias is not None
            kernel = _Kernel(layer.weight, layer.bias, layer.stride)
            yield kernel if index else kernel.for_bytes()

    def forward(self, image: Tensor) -> Tensor:
        # Channels stay last in memory, which is fastest with oneDNN and cuDNN; only the cast copies.
        x = image.flatten(end_dim=-4).movedim(-1, -3).float()
        for weight, bias, stride in self._fixed or self._kernels():
            x = torch.relu_(conv2d(x, weight, bias, stride))
        return x.flatten(1).view(*image.shape[:-3], self.features)


class _Kernel(NamedTuple):
    """Weights and stride of a convolution."""

    weight: Tensor
    bias: Tensor
    stride: tuple[int, ...]

    def for_bytes(self) -> _Kernel:
        """Apply the convolution to x/255 - ½ by scaling the weights, which are far fewer than the pixels."""
        return _Kernel(self.weight / 255, self.bias - self.weight.sum(dim=(1, 2, 3)) / 2, self.stride)


class Memory(nn.Module):
    """An LSTM (Hochreiter & Schmidhuber 1997) that is reset when an episode starts.

    The gates are in PyTorch's order: input, forget, cell, output. Forget gates have an initial bias.
    """

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.units = units
        self.input = nn.Linear(inputs, 4 * units)
        self.recurrent = nn.Linear(units, 4 * units, bias=False)
        with torch.no_grad():
            self.input.bias.chunk(4)[1].add_(FORGET_BIAS)

    def initial_state(self, batch: int) -> CoreState:
        return torch.zeros(batch, self.units), torch.zeros(batch, self.units)

    def forward(self, x: Tensor, first: Tensor, core_state: CoreState) -> tuple[Tensor, CoreState]:
        """x [T, B, I], first [T, B] -> h [T, B, H], core state after the last step."""
        if len(x) == 1:  # faster than the fused kernel, and can be exported, because no value decides which code runs
            h, c = self._step(x[0], *_reset(core_state, first[0]))
            return h[None], (h, c)
        starts = [t for t, opens in enumerate(first.any(dim=1).tolist()) if opens]
        outputs = []
        for begin, end in itertools.pairwise(sorted({0, *starts, len(x)})):
            if begin in starts:
                core_state = _reset(core_state, first[begin])
            output, core_state = self._run(x[begin:end], core_state)
            outputs.append(output)
        return torch.cat(outputs) if len(outputs) > 1 else outputs[0], core_state

    def _run(self, x: Tensor, core_state: CoreState) -> tuple[Tensor, CoreState]:
        """Unroll over steps without episode starts."""
        h, c = core_state
        bias = self.input.bias
        weights = [self.input.weight, self.recurrent.weight, bias, torch.zeros_like(bias)]
        output, h_n, c_n = torch.lstm(x, (h[None], c[None]), weights, True, 1, 0.0, True, False, False)
        return output, (h_n[0].float(), c_n[0].float())

    def _step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        gates = (self.input(x) + self.recurrent(h)).float()
        input_gate, forget_gate, cell, output_gate = gates.chunk(4, dim=-1)
        c = forget_gate.sigmoid() * c + input_gate.sigmoid() * cell.tanh()
        return output_gate.sigmoid() * c.tanh(), c


def _reset(core_state: CoreState, first: Tensor) -> CoreState:
    """Zero the states [B, H] of the episodes that start, first [B]."""
    keep = ~first[:, None]
    return tuple(state * keep for state in core_state)

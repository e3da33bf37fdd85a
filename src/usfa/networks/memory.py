"""The memory of recurrent agents: an LSTM that starts anew where episodes start."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from usfa.networks.layers import Dense, Parameters
from usfa.trajectory import CoreState

__all__ = ["Memory"]

FORGET_BIAS = 1.0
"""Jozefowicz et al. 2015: without it a memory fades by half at every step until it has learned not to."""


@dataclass(frozen=True)
class _Gates(Dense):
    """What the input says to the gates. A new memory keeps what it has: the forget gates begin open."""

    def draw(self, shape: tuple[int, ...], name: str, generator: torch.Generator) -> Tensor:
        drawn = super().draw(shape, name, generator)
        if name.endswith("bias"):
            drawn.chunk(4)[1].add_(FORGET_BIAS)
        return drawn


class Memory:
    """Hochreiter & Schmidhuber 1997, with the gates in PyTorch's order: input, forget, cell, output."""

    def __init__(self, inputs: int, units: int) -> None:
        self.units = units
        self.input = _Gates("memory.input", inputs, 4 * units)
        self.recurrent = Dense("memory.recurrent", units, 4 * units, bias=False)
        self.layers = [self.input, self.recurrent]

    def initial_state(self, batch: int) -> CoreState:
        return torch.zeros(batch, self.units), torch.zeros(batch, self.units)

    def __call__(
        self, parameters: Parameters, x: Tensor, first: Tensor, core_state: CoreState
    ) -> tuple[Tensor, CoreState]:
        """x [T, B, I], first [T, B] -> h [T, B, H], memory after the last step."""
        starts = [t for t, opens in enumerate(first.any(dim=1).tolist()) if opens]
        h, c = core_state
        outputs = []
        for begin, end in itertools.pairwise(sorted({0, *starts, len(x)})):
            if begin in starts:
                keep = ~first[begin, :, None]
                h, c = h * keep, c * keep
            output, h, c = self._run(parameters, x[begin:end], h, c)
            outputs.append(output)
        return torch.cat(outputs) if len(outputs) > 1 else outputs[0], (h, c)

    def _run(self, parameters: Parameters, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A stretch without episode starts. One step is cheaper without the fused kernel, which repacks the weights."""
        if len(x) == 1:
            h, c = self._step(parameters, x[0], h, c)
            return h[None], h, c
        bias = parameters["memory.input.bias"]
        matrices = [parameters["memory.input.weight"], parameters["memory.recurrent.weight"]]
        weights = [*matrices, bias, torch.zeros_like(bias)]
        output, h_n, c_n = torch.lstm(x, (h[None], c[None]), weights, True, 1, 0.0, True, False, False)
        return output, h_n[0].float(), c_n[0].float()

    def _step(self, parameters: Parameters, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        gates = (self.input(parameters, x) + self.recurrent(parameters, h)).float()
        input_gate, forget_gate, cell, output_gate = gates.chunk(4, dim=-1)
        c = forget_gate.sigmoid() * c + input_gate.sigmoid() * cell.tanh()
        return output_gate.sigmoid() * c.tanh(), c

"""The memory of recurrent agents: an LSTM that starts anew where episodes start."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from usfa.trajectory import CoreState

__all__ = ["Memory"]


class Memory(nn.Module):
    """Hochreiter & Schmidhuber 1997, with the gates in PyTorch's order: input, forget, cell, output.

    The weights are plain parameters and not those of nn.LSTM, whose flattened copies would not follow them.
    """

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.units = units
        self.input = nn.Linear(inputs, 4 * units)
        self.recurrent = nn.Linear(units, 4 * units, bias=False)

    def initial_state(self, batch: int) -> CoreState:
        return torch.zeros(batch, self.units), torch.zeros(batch, self.units)

    def forward(self, x: Tensor, first: Tensor, core_state: CoreState) -> tuple[Tensor, CoreState]:
        """x [T, B, I], first [T, B] -> h [T, B, H], memory after the last step."""
        steps = len(x)
        starts = [t for t, any_first in enumerate(first.any(dim=1).tolist()) if any_first]
        h, c = core_state
        outputs = []
        for begin, end in itertools.pairwise(sorted({0, *starts, steps})):
            if begin in starts:
                keep = ~first[begin, :, None]
                h, c = h * keep, c * keep
            output, h, c = self._run(x[begin:end], h, c)
            outputs.append(output)
        return torch.cat(outputs) if len(outputs) > 1 else outputs[0], (h, c)

    def _run(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A stretch without episode starts. One step is cheaper without the fused kernel, which repacks the weights."""
        if len(x) == 1:
            h, c = self._step(x[0], h, c)
            return h[None], h, c
        weights = [self.input.weight, self.recurrent.weight, self.input.bias, torch.zeros_like(self.input.bias)]
        output, h_n, c_n = torch.lstm(x, (h[None], c[None]), weights, True, 1, 0.0, self.training, False, False)
        return output, h_n[0].float(), c_n[0].float()

    def _step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        gates = (self.input(x) + self.recurrent(h)).float()
        input_gate, forget_gate, cell, output_gate = gates.chunk(4, dim=-1)
        c = forget_gate.sigmoid() * c + input_gate.sigmoid() * cell.tanh()
        return output_gate.sigmoid() * c.tanh(), c

"""Adam for runs side by side, each with its own step size."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from usfa.networks import Parameters

__all__ = ["Adam", "clip", "flatten"]


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """Everything a run has in one row: tensors [R, ...] -> [R, P]. One long row is cheaper than many short ones."""
    return torch.cat([x.flatten(1) for x in tensors], dim=1)


def clip(gradient: Tensor, longest: float | None) -> Tensor:
    """Shorten, in place, every row of [R, P] that is longer than `longest`; returns the lengths before, [R]."""
    lengths = torch.linalg.vector_norm(gradient, dim=1)
    if longest is not None:
        gradient *= (longest / lengths.clamp(min=longest))[:, None]
    return lengths


class Adam:
    """Kingma & Ba 2015, on parameters with an axis R in front.

    torch.optim has one learning rate per group of tensors. Here every run has its own, because runs reach the end
    of their schedules at different times; with a rate of 0 a run stands still, whatever its momentum.
    """

    def __init__(self, parameters: Parameters, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        self.betas = betas
        self.eps = eps
        self.updates = 0
        self.mean = torch.zeros_like(flatten(list(parameters.values()))).detach()
        self.square = torch.zeros_like(self.mean)

    @torch.no_grad()
    def step(self, parameters: Parameters, gradient: Tensor, learning_rate: Tensor) -> None:
        """Change the parameters in place.

        Args:
            parameters: each [R, ...].
            gradient: [R, P], as from :func:`flatten`.
            learning_rate: [R].
        """
        self.updates += 1
        beta_1, beta_2 = self.betas
        scale = -learning_rate / (1 - beta_1**self.updates)
        correction = (1 - beta_2**self.updates) ** 0.5
        self.mean.lerp_(gradient, 1 - beta_1)
        self.square.mul_(beta_2).addcmul_(gradient, gradient, value=1 - beta_2)
        change = self.mean / self.square.sqrt().div_(correction).add_(self.eps) * scale[:, None]
        sizes = [x[0].numel() for x in parameters.values()]
        for x, row in zip(parameters.values(), change.split(sizes, dim=1), strict=True):
            x += row.view_as(x)

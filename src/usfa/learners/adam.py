"""Adam for runs side by side, each with its own step size."""

from __future__ import annotations

import torch
from torch import Tensor

from usfa.networks import Parameters

__all__ = ["Adam", "clip_gradients"]


class Adam:
    """Kingma & Ba 2015, on parameters with an axis R in front.

    torch.optim has one learning rate per group of tensors. Here every run has its own, because runs reach the end
    of their schedules at different times; with a rate of 0 a run stands still, whatever its momentum.
    """

    def __init__(self, parameters: Parameters, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        self.betas = betas
        self.eps = eps
        self.updates = 0
        self.mean = {name: torch.zeros_like(x) for name, x in parameters.items()}
        self.square = {name: torch.zeros_like(x) for name, x in parameters.items()}

    @torch.no_grad()
    def step(self, parameters: Parameters, gradients: Parameters, learning_rate: Tensor) -> None:
        """Change the parameters in place.

        Args:
            parameters: each [R, ...].
            gradients: each [R, ...].
            learning_rate: [R].
        """
        self.updates += 1
        beta_1, beta_2 = self.betas
        scale = -learning_rate / (1 - beta_1**self.updates)
        correction = (1 - beta_2**self.updates) ** 0.5
        for name, x in parameters.items():
            mean = self.mean[name].lerp_(gradients[name], 1 - beta_1)
            square = self.square[name].mul_(beta_2).addcmul_(gradients[name], gradients[name], value=1 - beta_2)
            step = mean / square.sqrt().div_(correction).add_(self.eps)
            x += scale.view(-1, *[1] * (x.ndim - 1)) * step


@torch.no_grad()
def clip_gradients(gradients: Parameters, longest: float | None) -> Tensor:
    """Shorten, in place, the gradient of every run that is longer than `longest`; returns the lengths before, [R]."""
    squares = [x.square().flatten(1).sum(dim=1) for x in gradients.values()]
    lengths = torch.stack(squares).sum(dim=0).sqrt()
    if longest is not None:
        scale = (longest / lengths.clamp(min=longest)).to(lengths)
        for x in gradients.values():
            x *= scale.view(-1, *[1] * (x.ndim - 1))
    return lengths

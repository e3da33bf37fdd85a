"""Precision of convolutions and matrix products."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal

import torch

__all__ = ["Precision", "autocast"]

Precision = Literal["fp32", "bf16"]


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[None]:
    """Compute convolutions and matrix products in this precision; parameters, losses and returns stay in fp32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")

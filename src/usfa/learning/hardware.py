"""Choice of device and precision."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from usfa.errors import InputError
from usfa.networks import Precision

__all__ = ["choose_device", "choose_precision"]


def choose_device(wanted: str) -> torch.device:
    """A device by name; "auto" is a GPU if there is one, otherwise the CPU."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f"device is {wanted!r}, but PyTorch finds no GPU here; expected auto or cpu.")
    try:
        return torch.device(wanted)
    except RuntimeError as error:
        raise InputError(f"device is {wanted!r}; expected auto, cpu or cuda.") from error


def choose_precision(work: Callable[[Precision], object], repeats: int = 3) -> Precision:
    """Choose the precision that is faster for this work, by the best of a few repeats after a warm-up."""
    choices: tuple[Precision, ...] = ("fp32", "bf16")
    return min(choices, key=lambda precision: _seconds(work, precision, repeats))


def _seconds(work: Callable[[Precision], object], precision: Precision, repeats: int) -> float:
    work(precision)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work(precision)
        times.append(time.perf_counter() - start)
    return min(times)

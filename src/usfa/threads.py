"""The number of threads of PyTorch, set where the library computes.

More than one thread does not make small networks faster. On a busy machine it makes them many times slower, because
threads that wait for each other spin on cores that the others need. One thread also gives the same results on every
machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["threads"]


@contextmanager
def threads(count: int = 1) -> Iterator[None]:
    """Compute with this number of threads, and restore the caller's number. Also works as a decorator."""
    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

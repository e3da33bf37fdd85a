"""The number of threads of PyTorch, chosen where the library computes.

More threads than one do not make small networks faster, and beside other work they make them many times slower: threads
that wait for each other spin, each on a core that the others need. One thread also gives the same results on every
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

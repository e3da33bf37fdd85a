"""What a network looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from usfa.errors import InputError

__all__ = ["MNIH_2015", "NetworkConfig"]

MNIH_2015 = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""The convolutions of Mnih et al. 2015: channels, kernel and stride of each layer."""


@dataclass(frozen=True)
class NetworkConfig:
    """Widths of the layers. The first two say what there is before the trunk, for those who need it."""

    convolutions: tuple[tuple[int, int, int], ...] = MNIH_2015
    """For images only: channels, kernel and stride of each layer; the default is that of Mnih et al. 2015."""
    memory: int = 0
    """Units of an LSTM that also sees the previous action; 0 is a network without memory."""
    trunk: tuple[int, ...] = (64,)
    """Hidden layers that end in the state embedding f(h)."""
    embedding: tuple[int, ...] = (32, 32)
    """Layers that turn a policy z (for a UVFA: a task w) into its embedding g(z)."""
    head: tuple[int, ...] = (64,)
    """Hidden layers between the two embeddings and the A×D outputs; the paper's head has one."""
    conditioning: Literal["concatenation", "inner-product"] = "concatenation"
    """How f(h) and g(z) meet. The paper concatenates them and says that an inner product does as well."""
    normalise: bool = False
    """Layer normalisation of the convolved image and of f(h)."""
    centre: tuple[float, ...] = ()
    """Of each entry of a vector, subtracted from it; empty for none."""
    spread: tuple[float, ...] = ()
    """Of each entry, that it is divided by afterwards: where a speed is 0 or 0.03, a network would take both for the
    same."""
    scale: float = 1.0
    """What the outputs are multiplied by: about the size of a return, which a network would take long to grow to."""

    def __post_init__(self) -> None:
        for name, sizes in {"trunk": self.trunk, "embedding": self.embedding, "head": self.head}.items():
            if not sizes or min(sizes) < 1:
                raise InputError(f"network.{name} is {sizes}; expected one or more widths of at least 1.")
        if len(self.centre) != len(self.spread) or not all(0 < x < float("inf") for x in self.spread):
            raise InputError(f"network.spread is {self.spread}; expected {len(self.centre)} positive numbers.")
        if not 0 < self.scale < float("inf"):
            raise InputError(f"network.scale is {self.scale}; expected a positive number.")
        if self.memory < 0:
            raise InputError(f"network.memory is {self.memory}; expected 0 or more units.")
        for layer in self.convolutions:
            if min(layer) < 1:
                raise InputError(f"network.convolutions has {layer}; expected channels, kernel and stride from 1.")
        if self.conditioning == "inner-product" and len(self.head) > 1:
            raise InputError(f"network.head is {self.head}; an inner product has one width.")

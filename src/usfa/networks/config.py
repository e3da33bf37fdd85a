"""Settings of networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from usfa.errors import InputError
from usfa.records import settle
from usfa.registry import text_of

if TYPE_CHECKING:
    from usfa.registry import ClassOrName

    Part = ClassOrName
else:  # configurations are saved as text
    Part = str

__all__ = ["MNIH_2015", "NetworkConfig", "convolutions_for"]

MNIH_2015 = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""The convolutions of Mnih et al. 2015: channels, kernel and stride of each layer."""


WIDEST = 65_536
"""The largest width of a layer."""


@dataclass(frozen=True)
class NetworkConfig:
    """Widths of the layers, and classes of your own for the whole network or only its trunk."""

    convolutions: tuple[tuple[int, int, int], ...] = MNIH_2015
    """For images only: channels, kernel and stride of each layer; by default those of Mnih et al. 2015."""
    memory: int = 0
    """Units of an LSTM, whose input includes the previous action; 0 for none."""
    trunk: tuple[int, ...] = (64,)
    """Hidden layers that end in the state embedding f(h)."""
    embedding: tuple[int, ...] = (32, 32)
    """Layers of the embedding g(z) of a policy z (for a UVFA: of a task w)."""
    head: tuple[int, ...] = (64,)
    """Hidden layers between the two embeddings and the A×D outputs; the paper's head has one."""
    conditioning: Literal["concatenation", "inner-product"] = "concatenation"
    """Combination of f(h) and g(z). The paper concatenates them, and reports that an inner product performs as well."""
    normalise: bool = False
    """Layer normalisation of the convolved image and of f(h)."""
    obs_centre: tuple[float, ...] = ()
    """Per-entry mean of vector observations, subtracted from them; empty for none."""
    obs_scale: tuple[float, ...] = ()
    """Per-entry divisor, applied after centring."""
    output_scale: float = 1.0
    """Factor of the outputs, about the standard deviation of returns: the last layer predicts numbers of size 1. The
    learner divides the loss by its square, so that rewards of any size are learned alike."""
    members: int = 1
    """Networks in an ensemble. They act by the mean of their values, and bootstrap from the member that promises least,
    which keeps errors from adding up if the same steps are replayed often."""
    trunk_class: Part = "standard"
    """The trunk: standard, or a class of your own derived from usfa.networks.Trunk, as module:Class."""
    network_class: Part = "universal"
    """The whole network: universal, or a class of your own derived from usfa.networks.Network, as module:Class."""

    def __post_init__(self) -> None:
        for name in ("trunk_class", "network_class"):
            object.__setattr__(self, name, text_of(getattr(self, name), f"network.{name}"))
        settle(self, "network.")
        for name, sizes in {"trunk": self.trunk, "embedding": self.embedding, "head": self.head}.items():
            if not sizes or min(sizes) < 1:
                raise InputError(f"network.{name} is {sizes}; expected one or more widths of at least 1.")
            if len(sizes) > 100 or max(sizes) > WIDEST:
                raise InputError(f"network.{name} is {sizes[:4]}; expected at most 100 widths up to {WIDEST:,}.")
        if len(self.obs_centre) != len(self.obs_scale) or not all(0 < x < float("inf") for x in self.obs_scale):
            raise InputError(
                f"network.obs_scale is {self.obs_scale}; expected {len(self.obs_centre)} positive numbers."
            )
        if not 0 < self.output_scale < float("inf"):
            raise InputError(f"network.output_scale is {self.output_scale}; expected a positive number.")
        if not 1 <= self.members <= 100:
            raise InputError(f"network.members is {self.members}; expected 1 to 100.")
        if not 0 <= self.memory <= WIDEST:
            raise InputError(f"network.memory is {self.memory}; expected 0 to {WIDEST:,} units.")
        for layer in self.convolutions:
            if min(layer) < 1 or max(layer) > WIDEST:
                raise InputError(
                    f"network.convolutions has {layer}; expected channels, kernel and stride from 1 to {WIDEST:,}."
                )
        if self.conditioning == "inner-product" and len(self.head) > 1:
            raise InputError(f"network.head is {self.head}; expected one width for an inner product.")


def convolutions_for(side: int) -> tuple[tuple[int, int, int], ...]:
    """Layers of Mnih et al. 2015, with a larger first kernel above 84 pixels; smaller layers below 36 pixels."""
    if side >= 36:
        (channels, kernel, stride), *rest = MNIH_2015
        times = max(1, round(side / 84))
        return ((channels, kernel * times, stride * times), *rest)
    if side >= 8:
        return ((32, 4, 2), (64, 3, 1))
    return ((32, min(3, side), 1), (64, max(1, min(3, side - 2)), 1))

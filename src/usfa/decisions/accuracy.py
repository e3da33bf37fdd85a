"""How wrong a trained ψ is, as measured after training, and the candidate sets that carry it to the rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from usfa.errors import InputError
from usfa.tasks import Array

__all__ = ["Accuracy", "CandidateSet", "assumed_accuracy"]

Values = TypeVar("Values", bound=Array | Tensor)
Other = TypeVar("Other", bound=Array | Tensor)


class CandidateSet(NamedTuple, Generic[Values]):
    """The policies C for each task, and how wrong ψ is for each: arrays, or tensors where a rule decides."""

    z: Values  # [..., N, D]
    step_error: Values  # [..., D]  see Accuracy.step_error
    optimism: Values  # [..., N]  see Accuracy.optimism

    @staticmethod
    def believed(z: Values) -> CandidateSet[Values]:
        """Candidates [..., N, D] whose ψ is taken as exact."""
        return CandidateSet(z, cast(Values, 0.0 * z[..., 0, :]), cast(Values, 0.0 * z[..., 0]))

    def map(self, change: Callable[[Values], Other]) -> CandidateSet[Other]:
        return CandidateSet(*(change(values) for values in self))

    def tensors(self) -> CandidateSet[Tensor]:
        return self.map(lambda values: torch.as_tensor(values).float())

    @staticmethod
    def joined(sets: Sequence[CandidateSet[Array]]) -> CandidateSet[Array]:
        """Sets of several tasks, each [K, N, D], concatenated along K; smaller ones repeat their first policy.

        Repeating a policy changes no maximum over C.
        """
        size = max(one.z.shape[-2] for one in sets)
        return CandidateSet(
            np.concatenate([_filled_up(one.z, size) for one in sets]),
            np.concatenate([one.step_error for one in sets]),
            np.concatenate([_filled_up(one.optimism, size) for one in sets]),
        )


def _filled_up(values: Array, size: int) -> Array:
    """[K, N, ...] with its first entry along N repeated up to a size."""
    return np.concatenate([values, np.repeat(values[:, :1], size - values.shape[1], axis=1)], axis=1)


@dataclass(frozen=True)
class Accuracy:
    """How wrong ψ of one training run is. All values are ratios, without a unit."""

    step_error: tuple[float, ...]
    """[D] ρ_i: the one-step error of ψ_i, the median of |φ_i + γψ_i(s',a',z) - ψ_i(s,a,z)| divided by the mean of
    |ψ_i|, along policies with a small z_i."""
    optimism: tuple[tuple[float, float], ...]
    """(distance, share): by how much ψ·z exceeds the return of policies at this distance from the learned ones, as a
    share of the stake. Linear in between, constant beyond the last distance."""

    def __post_init__(self) -> None:
        pairs = np.array(self.optimism, dtype=np.float64).reshape(-1, 2)
        if not self.step_error or not _are_from_zero(self.step_error):
            raise InputError(f"step_error is {self.step_error}; expected a number from 0 for each feature.")
        if not self.optimism or not _are_from_zero(pairs) or not (np.diff(pairs[:, 0]) > 0).all():
            raise InputError(f"optimism is {self.optimism}; expected pairs of a growing distance and a share from 0.")

    def of(self, z: Array, distance: Array) -> CandidateSet[Array]:
        """Policies z [..., N, D] at a distance [..., N] from the learned ones, with their errors."""
        distances, shares = np.array(self.optimism).T
        step_error = np.broadcast_to(np.array(self.step_error), (*z.shape[:-2], z.shape[-1]))
        return CandidateSet(z, step_error.copy(), np.interp(distance, distances, shares))


def _are_from_zero(values: Array | tuple[float, ...]) -> bool:
    return bool((np.isfinite(values) & (np.array(values) >= 0)).all())


def assumed_accuracy(features: int) -> Accuracy:
    """For agents that were saved before accuracies were measured: roughly that of the shipped room agent."""
    return Accuracy((0.06,) * features, ((0.0, 0.0), (0.5, 0.2), (1.0, 0.9)))

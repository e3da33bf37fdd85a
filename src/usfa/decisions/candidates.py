"""Candidate sets C: the policies that a decision rule may choose from, with the measured errors of their ψ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from usfa.errors import InputError, unknown_name
from usfa.names import CANDIDATE_SETS
from usfa.samplers import PolicySampler
from usfa.tasks import Array, lengths, moderate, parse_tasks, shown

__all__ = ["Accuracy", "CandidateSet", "assumed_accuracy", "candidate_set", "task_tensor"]

Values = TypeVar("Values", bound=Array | Tensor)
Other = TypeVar("Other", bound=Array | Tensor)


class CandidateSet(NamedTuple, Generic[Values]):
    """The policies C of each task, with the errors of their ψ, as arrays or tensors."""

    z: Values  # [..., N, D]
    step_error: Values  # [..., D]  see Accuracy.step_error
    optimism: Values  # [..., N]  see Accuracy.optimism
    horizon: Values  # [...]  effective number of steps, over which errors add up
    gap_scale: Values  # [...]  1 - action_gap: advantage learning divides differences between actions by it

    @staticmethod
    def believed(z: Values) -> CandidateSet[Values]:
        """Candidates [..., N, D] whose ψ is treated as exact."""
        none = 0.0 * z
        one = cast(Values, none[..., 0, 0] + 1)
        return CandidateSet(z, cast(Values, none[..., 0, :]), cast(Values, none[..., 0]), one, one)

    def map(self, change: Callable[[Values], Other]) -> CandidateSet[Other]:
        return CandidateSet(*(change(values) for values in self))

    def tensors(self) -> CandidateSet[Tensor]:
        return self.map(lambda values: torch.as_tensor(values).float())

    @staticmethod
    def joined(sets: Sequence[CandidateSet[Array]]) -> CandidateSet[Array]:
        """Concatenate sets, each [K, N, D], along K; smaller sets repeat their first policy.

        Repeating a policy does not change a maximum over C.
        """
        size = max(one.z.shape[-2] for one in sets)
        return CandidateSet(
            np.concatenate([_filled_up(one.z, size) for one in sets]),
            np.concatenate([one.step_error for one in sets]),
            np.concatenate([_filled_up(one.optimism, size) for one in sets]),
            np.concatenate([one.horizon for one in sets]),
            np.concatenate([one.gap_scale for one in sets]),
        )


def _filled_up(values: Array, size: int) -> Array:
    """Pad [K, N, ...] along N to a size by repeating the first entry."""
    return np.concatenate([values, np.repeat(values[:, :1], size - values.shape[1], axis=1)], axis=1)


@dataclass(frozen=True)
class Accuracy:
    """Errors of ψ of one training run, measured after training. All values are ratios."""

    step_error: tuple[float, ...]
    """[D] ρ_i, the one-step error of ψ_i: the median of |φ_i + γψ_i(s',a',z) - ψ_i(s,a,z)| divided by the mean of
    |ψ_i|, along policies with a small z_i."""
    optimism: tuple[tuple[float, float], ...]
    """(distance, share): the excess of ψ·z over the return, as a share of the stake, for policies at this distance from
    the learned ones. Interpolated linearly, constant beyond the last distance."""

    def __post_init__(self) -> None:
        pairs = np.array(self.optimism, dtype=np.float64).reshape(-1, 2)
        if not self.step_error or not _are_from_zero(self.step_error):
            raise InputError(f"step_error is {self.step_error}; expected a number from 0 for each feature.")
        if not self.optimism or not _are_from_zero(pairs) or not (np.diff(pairs[:, 0]) > 0).all():
            raise InputError(f"optimism is {self.optimism}; expected pairs of a growing distance and a share from 0.")

    def of(self, z: Array, distance: Array, horizon: float, gap_scale: float = 1.0) -> CandidateSet[Array]:
        """Policies z [..., N, D] at a distance [..., N] from the learned ones, with their errors."""
        distances, shares = np.array(self.optimism).T
        optimism = np.interp(distance, distances, shares)
        leading = z.shape[:-2]
        values = self.step_error, min(horizon, _LONGEST_HORIZON), gap_scale
        step_error, *others = (np.broadcast_to(value, leading + np.shape(value)).copy() for value in values)
        return CandidateSet(z, step_error, optimism, *others)


_LONGEST_HORIZON = 1000.0  # for γ near 1 if the length of episodes is not known


def task_tensor(w: Array) -> Tensor:
    """Tasks [..., D] as inputs of a decision rule, scaled to a moderate length, which does not change any decision."""
    return torch.from_numpy(moderate(w)[0]).float()


def _are_from_zero(values: Array | tuple[float, ...]) -> bool:
    return bool((np.isfinite(values) & (np.array(values) >= 0)).all())


def assumed_accuracy(features: int) -> Accuracy:
    """Accuracy for agents without a measured one: roughly that of the shipped room agent."""
    return Accuracy((0.06,) * features, ((0.0, 0.0), (0.5, 0.2), (1.0, 0.9)))


# Bounds of the length of z, as multiples of the longest and the shortest training task; the paper's tasks are within.
_LONGER, _SHORTER = 2 + 1e-9, 0.01
_LARGEST_Z = 1e6


def candidate_set(
    candidates: str | ArrayLike,
    w: Array,
    training_tasks: Array,
    sampler: PolicySampler,
    rng: np.random.Generator,
) -> Array:
    """C for each task: w [..., D] -> z [..., N, D]. Named sets contain policies of a learned length.

    Args:
        candidates: a name ("task", "train", "train+task", "sample:30"), vectors as text ("1,0;0,1"), or an array
            [N, D] used for every task.
        w: the tasks w'.
        training_tasks: M, [K, D].
        sampler: D_z, see :meth:`PolicySampler.policy_of`.
        rng: for "sample:N".
    """
    policy, trained = _of_learned_length(w, training_tasks, sampler), sampler.policy_of(training_tasks)
    own = policy[..., None, :]
    if not isinstance(candidates, str):
        return _broadcast(_explicit(candidates, w.shape[-1]), w)
    if candidates == "task":
        return own
    if candidates == "train":
        return _broadcast(trained, w)
    if candidates == "train+task":
        return np.concatenate([_broadcast(trained, w), own], axis=-2)
    if candidates.startswith("sample:"):
        return sampler.sample(policy, _sample_size(candidates), rng)
    if any(character.isdigit() for character in candidates) and not candidates[:1].isalpha():
        return _broadcast(_explicit(parse_tasks(candidates, w.shape[-1]), w.shape[-1]), w)
    raise unknown_name("candidate set", candidates, CANDIDATE_SETS)


def _of_learned_length(w: Array, training_tasks: Array, sampler: PolicySampler) -> Array:
    """The policy z of each task, [..., D], scaled to a learned length if it is far longer or shorter than M's tasks.

    The optimal policy of a task does not depend on the task's length, but a network does not know that.
    """
    z = sampler.policy_of(w / np.maximum(lengths(w) / _LARGEST_Z, 1.0))
    length, learned = lengths(z), lengths(training_tasks)
    longest, shortest = learned.max(), learned[learned > 0].min(initial=np.inf)
    outside = sampler.distance(z, training_tasks)[..., None] > 0
    longer = outside & (length > _LONGER * longest) & (longest > 0)
    shorter = (length > 0) & (length < _SHORTER * shortest) & (shortest < np.inf)
    if not (longer | shorter).any():
        return z
    wanted = np.where(longer, longest, np.where(shorter, shortest, length))
    return np.where(longer | shorter, z / np.where(length > 0, length, 1.0) * wanted, z)


def _explicit(candidates: ArrayLike, features: int) -> Array:
    try:
        z = np.asarray(candidates, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"The candidates {shown(candidates)} are not an array of policies [N, {features}].") from None
    if not z.size:
        raise InputError("The candidate set is empty; expected at least one policy z.")
    if z.ndim != 2 or z.shape[1] != features:
        raise InputError(f"The candidates have shape {z.shape}; expected [N, {features}], a policy z per row.")
    if not (abs(z) <= _LARGEST_Z).all():  # also false for NaN
        raise InputError(
            f"The candidates hold NaN, infinity or entries above {_LARGEST_Z:g}; expected smaller numbers."
        )
    return z


def _broadcast(z: Array, w: Array) -> Array:
    return np.broadcast_to(z, (*w.shape[:-1], *z.shape)).copy()


def _sample_size(candidates: str) -> int:
    size = candidates.removeprefix("sample:")
    if not size.isdecimal() or not 0 < int(size) <= 10_000:
        raise InputError(f"The candidate set {candidates!r} needs a size from 1 to 10000, such as 'sample:30'.")
    return int(size)

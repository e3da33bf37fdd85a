"""Policies z: the distributions D_z that they are learned from, and the candidate sets C that GPI may trust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from usfa.errors import InputError, unknown_name
from usfa.tasks import TASKS_OF_M, Array, parse_tasks, shown

__all__ = [
    "CANDIDATE_SETS",
    "Ball",
    "Box",
    "Gaussian",
    "OwnTask",
    "Points",
    "PolicySampler",
    "Simplex",
    "WithTask",
    "candidate_set",
    "distance_from_learned",
    "is_near_the_task",
    "parse_sampler",
    "policy_of",
]

# --- D_z: which policies are learned ---


class PolicySampler(Protocol):
    """D_z(·|w): the distribution that the policies z are drawn from, given the current task."""

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        """n policies for each task: w [..., D] -> z [..., n, D]."""
        ...

    def distance(self, z: Array, tasks: Array) -> Array:
        """Euclidean distance of policies z [..., D] from those drawn for tasks [K, D], [...]."""
        ...


def _to_nearest(z: Array, points: Array) -> Array:
    """The distance of z [..., D] to the nearest of points [K, D]."""
    return np.linalg.norm(z[..., None, :] - points, axis=-1).min(axis=-1)


@dataclass(frozen=True)
class Gaussian:
    """N(w, σI). σ is a variance, as in the paper's formula: σ = 0.1 is a standard deviation of √0.1 ≈ 0.32."""

    variance: float

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        noise = rng.standard_normal((*w.shape[:-1], n, w.shape[-1]))
        return w[..., None, :] + np.sqrt(self.variance) * noise

    def distance(self, z: Array, tasks: Array) -> Array:
        """To the nearest task, where the density is largest."""
        return _to_nearest(z, tasks)


@dataclass(frozen=True)
class Box:
    """U([low, high]^D), whatever the task."""

    low: float
    high: float

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        return rng.uniform(self.low, self.high, (*w.shape[:-1], n, w.shape[-1]))

    def distance(self, z: Array, tasks: Array) -> Array:
        return np.linalg.norm(z - z.clip(self.low, self.high), axis=-1)


@dataclass(frozen=True)
class Ball:
    """Uniform over the ball ‖z‖ ≤ radius, whatever the task."""

    radius: float

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        direction = rng.standard_normal((*w.shape[:-1], n, w.shape[-1]))
        length = self.radius * rng.random((*w.shape[:-1], n, 1)) ** (1 / w.shape[-1])
        return direction / np.linalg.norm(direction, axis=-1, keepdims=True) * length

    def distance(self, z: Array, tasks: Array) -> Array:
        return np.maximum(np.linalg.norm(z, axis=-1) - self.radius, 0)


@dataclass(frozen=True)
class Points:
    """Point masses, whatever the task: every point once before any comes again, in random order."""

    points: Array  # [K, D]

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        count = len(self.points)
        order = rng.permuted(np.broadcast_to(np.arange(count), (*w.shape[:-1], count)), axis=-1)
        return self.points[order[..., np.arange(n) % count]]

    def distance(self, z: Array, tasks: Array) -> Array:
        return _to_nearest(z, self.points)


@dataclass(frozen=True)
class OwnTask:
    """The point mass at the current task: z = w. What a UVFA trained on-policy learns about."""

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        return np.repeat(w[..., None, :], n, axis=-2)

    def distance(self, z: Array, tasks: Array) -> Array:
        return _to_nearest(z, tasks)


@dataclass(frozen=True)
class Simplex:
    """Uniform over the simplex: non-negative entries that sum to one, whatever the task."""

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        return rng.dirichlet(np.ones(w.shape[-1]), (*w.shape[:-1], n))

    def distance(self, z: Array, tasks: Array) -> Array:
        """To the nearest point of the simplex, max(z - τ, 0) with the τ for which it sums to 1."""
        falling = -np.sort(-z, axis=-1)
        taus = (falling.cumsum(axis=-1) - 1) / np.arange(1, z.shape[-1] + 1)
        last = (falling > taus).sum(axis=-1, keepdims=True) - 1
        nearest = np.maximum(z - np.take_along_axis(taus, last, axis=-1), 0)
        return np.linalg.norm(z - nearest, axis=-1)


@dataclass(frozen=True)
class WithTask:
    """The task itself first, then policies from elsewhere: what is acted on is learned as well, with long traces."""

    others: PolicySampler

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        return np.concatenate([w[..., None, :], self.others.sample(w, n - 1, rng)], axis=-2)

    def distance(self, z: Array, tasks: Array) -> Array:
        return np.minimum(_to_nearest(z, tasks), self.others.distance(z, tasks))


_SAMPLERS = ("gaussian:VARIANCE", "box:LOW,HIGH", "ball:RADIUS", "simplex", "points:Z;Z;…", "train", "task", "task+…")


def parse_sampler(text: str, training_tasks: Array) -> PolicySampler:
    """D_z from its text: "gaussian:0.1", "box:0,1", "ball:1", "simplex", "points:1,0;0,1", "train" (M), "task" (z = w),
    or "task+simplex" and the like.
    """
    if text.startswith("task+"):
        return WithTask(parse_sampler(text.removeprefix("task+"), training_tasks))
    kind, _, arguments = text.partition(":")
    if kind == "points":
        return Points(parse_tasks(arguments, training_tasks.shape[1]))
    try:
        numbers = [float(x) for x in arguments.split(",")] if arguments else []
    except ValueError:
        numbers = [float("nan")]
    match kind, numbers:
        case "gaussian", [variance] if 0 <= variance < np.inf:
            return Gaussian(variance)
        case "box", [low, high] if -np.inf < low < high < np.inf:
            return Box(low, high)
        case "ball", [radius] if 0 < radius < np.inf:
            return Ball(radius)
        case "simplex", []:
            return Simplex()
        case "train", []:
            return Points(training_tasks)
        case "task", []:
            return OwnTask()
    raise InputError(f"The policy distribution {text!r} is not one of {', '.join(_SAMPLERS)}.")


def is_near_the_task(sampler: PolicySampler) -> bool:
    """Whether D_z draws only w itself and what is around it."""
    match sampler:
        case WithTask(others):
            return is_near_the_task(others)
        case Gaussian() | OwnTask():
            return True
    return False


def distance_from_learned(z: Array, sampler: PolicySampler, training_tasks: Array, acted_on: str) -> Array:
    """How far policies z [..., D] are from the learned ones, [...].

    Args:
        z: the policies.
        sampler: D_z.
        training_tasks: M, [K, D].
        acted_on: `LearnerConfig.tasks`, the tasks acted on in training; a local D_z is around them, in M or not.
    """
    if acted_on in TASKS_OF_M or not is_near_the_task(sampler):
        return sampler.distance(z, training_tasks)
    return parse_sampler(acted_on, training_tasks).distance(z, training_tasks)


def policy_of(w: Array, sampler: PolicySampler) -> Array:
    """The policy z that stands for each task w [..., D]: w itself, at a length that is learned.

    The best policy of a task does not depend on the length of w, but a network does on that of z. Where D_z bounds
    the length whatever the task, a longer w (or any other, on the simplex) would be a z that was never learned. A w
    with negative entries is not on the simplex at any length, and stays.
    """
    match sampler:
        case WithTask(others):
            return policy_of(w, others)
        case Simplex():
            length = w.sum(axis=-1, keepdims=True)
            stays = (w < 0).any(axis=-1, keepdims=True) | (length == 0) | np.isclose(length, 1)  # to the bit
            return w / np.where(stays, 1.0, length)
        case Ball(radius):
            return w / np.maximum(np.linalg.norm(w, axis=-1, keepdims=True) / radius, 1)
    return w


# --- C: which policies GPI may trust ---

CANDIDATE_SETS: dict[str, str] = {
    "task": "C = {w'}: only the policy of the task itself, as a UVFA would",
    "train": "C = M: the policies of the training tasks, as SF&GPI would",
    "train+task": "C = M ∪ {w'}: both",
    "sample:N": "C = N policies drawn from D_z(·|w'), as random(5) in the paper's Trip MDP",
}


def candidate_set(
    candidates: str | ArrayLike,
    w: Array,
    training_tasks: Array,
    sampler: PolicySampler,
    rng: np.random.Generator,
) -> Array:
    """C for each task: w [..., D] -> z [..., N, D]. Names stand for policies at a length that is learned.

    Args:
        candidates: a name ("task", "train", "train+task", "sample:30"), vectors as text ("1,0;0,1"), or an array
            [N, D] that serves every task.
        w: the tasks w'.
        training_tasks: M, [K, D].
        sampler: D_z, see :func:`policy_of`.
        rng: for "sample:N".
    """
    own, trained = policy_of(w, sampler)[..., None, :], policy_of(training_tasks, sampler)
    if not isinstance(candidates, str):
        return _broadcast(_explicit(candidates, w.shape[-1]), w)
    if candidates == "task":
        return own
    if candidates == "train":
        return _broadcast(trained, w)
    if candidates == "train+task":
        return np.concatenate([_broadcast(trained, w), own], axis=-2)
    if candidates.startswith("sample:"):
        return sampler.sample(policy_of(w, sampler), _sample_size(candidates), rng)
    if any(character.isdigit() for character in candidates) and not candidates[:1].isalpha():
        return _broadcast(_explicit(parse_tasks(candidates, w.shape[-1]), w.shape[-1]), w)
    raise unknown_name("candidate set", candidates, CANDIDATE_SETS)


def _explicit(candidates: ArrayLike, features: int) -> Array:
    try:
        z = np.asarray(candidates, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"The candidates {shown(candidates)} are not an array of policies [N, {features}].") from None
    if not z.size:
        raise InputError("The candidate set is empty; expected at least one policy z.")
    if z.ndim != 2 or z.shape[1] != features:
        raise InputError(f"The candidates have shape {z.shape}; expected [N, {features}], a policy z per row.")
    if not np.isfinite(z).all():
        raise InputError("The candidates hold NaN or infinity; expected finite numbers.")
    return z


def _broadcast(z: Array, w: Array) -> Array:
    return np.broadcast_to(z, (*w.shape[:-1], *z.shape)).copy()


def _sample_size(candidates: str) -> int:
    size = candidates.removeprefix("sample:")
    if not size.isdecimal() or not 0 < int(size) <= 10_000:
        raise InputError(f"The candidate set {candidates!r} needs a size from 1 to 10000, such as 'sample:30'.")
    return int(size)

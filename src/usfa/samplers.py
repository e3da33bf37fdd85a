"""Distributions D_z of the policies z that are learned about. Derive your own samplers from `PolicySampler`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from usfa.errors import InputError
from usfa.registry import is_own, made, resolve
from usfa.tasks import TASKS_OF_M, Array, parse_tasks

__all__ = [
    "Ball",
    "Box",
    "Gaussian",
    "LearnedPolicies",
    "OwnTask",
    "Points",
    "PolicySampler",
    "Simplex",
    "TaskOr",
    "WithTask",
    "parse_sampler",
]


class PolicySampler(ABC):
    """D_z(·|w): the distribution of policies z, given the current task.

    Subclasses must define :meth:`sample`; everything else has defaults.
    """

    is_local: bool = False
    """Whether D_z draws only w itself and policies around it."""

    @abstractmethod
    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        """n policies for each task: w [..., D] -> z [..., n, D]."""

    def distance(self, z: Array, tasks: Array) -> Array:
        """Euclidean distance of policies z [..., D] from those drawn for tasks [K, D], [...].

        By default the distance to the nearest task.
        """
        return _to_nearest(z, tasks)

    def policy_of(self, w: Array) -> Array:
        """The policy z of each task w [..., D]: w itself, scaled to a learned length.

        The optimal policy of a task does not depend on the length of w, but the output of a network depends on that of
        z. If D_z bounds the length, a longer w would be a z that was never learned.
        """
        return w


def _to_nearest(z: Array, points: Array) -> Array:
    """The distance of z [..., D] to the nearest of points [K, D]."""
    return np.linalg.norm(z[..., None, :] - points, axis=-1).min(axis=-1)


@dataclass(frozen=True)
class Gaussian(PolicySampler):
    """N(w, σI). σ is a variance, as in the paper's formula: σ = 0.1 is a standard deviation of √0.1 ≈ 0.32."""

    variance: float
    is_local = True

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        noise = rng.standard_normal((*w.shape[:-1], n, w.shape[-1]))
        return w[..., None, :] + np.sqrt(self.variance) * noise


@dataclass(frozen=True)
class Box(PolicySampler):
    """U([low, high]^D), independent of the task."""

    low: float
    high: float

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        return rng.uniform(self.low, self.high, (*w.shape[:-1], n, w.shape[-1]))

    def distance(self, z: Array, tasks: Array) -> Array:
        return np.linalg.norm(z - z.clip(self.low, self.high), axis=-1)


@dataclass(frozen=True)
class Ball(PolicySampler):
    """Uniform over the ball ‖z‖ ≤ radius, independent of the task."""

    radius: float

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        direction = rng.standard_normal((*w.shape[:-1], n, w.shape[-1]))
        length = self.radius * rng.random((*w.shape[:-1], n, 1)) ** (1 / w.shape[-1])
        return direction / np.linalg.norm(direction, axis=-1, keepdims=True) * length

    def distance(self, z: Array, tasks: Array) -> Array:
        return np.maximum(np.linalg.norm(z, axis=-1) - self.radius, 0)

    def policy_of(self, w: Array) -> Array:
        return w / np.maximum(np.linalg.norm(w, axis=-1, keepdims=True) / self.radius, 1)


@dataclass(frozen=True)
class Points(PolicySampler):
    """Point masses, independent of the task, drawn without replacement until all points are used."""

    points: Array  # [K, D]

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        count = len(self.points)
        order = rng.permuted(np.broadcast_to(np.arange(count), (*w.shape[:-1], count)), axis=-1)
        return self.points[order[..., np.arange(n) % count]]

    def distance(self, z: Array, tasks: Array) -> Array:
        return _to_nearest(z, self.points)


@dataclass(frozen=True)
class OwnTask(PolicySampler):
    """The point mass at the current task, z = w, as for an on-policy UVFA."""

    is_local = True

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        return np.repeat(w[..., None, :], n, axis=-2)


@dataclass(frozen=True)
class Simplex(PolicySampler):
    """Uniform over the simplex (non-negative entries with sum 1), independent of the task."""

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        return rng.dirichlet(np.ones(w.shape[-1]), (*w.shape[:-1], n))

    def distance(self, z: Array, tasks: Array) -> Array:
        """Distance to the nearest point of the simplex, max(z - τ, 0) with the τ for which it sums to 1."""
        falling = -np.sort(-z, axis=-1)
        taus = (falling.cumsum(axis=-1) - 1) / np.arange(1, z.shape[-1] + 1)
        last = (falling > taus).sum(axis=-1, keepdims=True) - 1
        nearest = np.maximum(z - np.take_along_axis(taus, last, axis=-1), 0)
        return np.linalg.norm(z - nearest, axis=-1)

    def policy_of(self, w: Array) -> Array:
        """w divided by its sum; unchanged if it has negative entries, because no scaling puts it on the simplex."""
        length = w.sum(axis=-1, keepdims=True)
        stays = (w < 0).any(axis=-1, keepdims=True) | (length == 0) | np.isclose(length, 1)  # unchanged to the bit
        return w / np.where(stays, 1.0, length)


@dataclass(frozen=True)
class WithTask(PolicySampler):
    """The task itself first, then policies from another distribution, so that traces of the acting policy are long."""

    others: PolicySampler

    @property
    def is_local(self) -> bool:  # type: ignore[override]
        return self.others.is_local

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        return np.concatenate([w[..., None, :], self.others.sample(w, n - 1, rng)], axis=-2)

    def distance(self, z: Array, tasks: Array) -> Array:
        return np.minimum(_to_nearest(z, tasks), self.others.distance(z, tasks))

    def policy_of(self, w: Array) -> Array:
        return self.others.policy_of(w)


@dataclass(frozen=True)
class TaskOr(PolicySampler):
    """The task itself or a draw of another distribution, each with probability ½.

    As a distribution of tasks, it draws the tasks of M as often as all others: with the corners of the simplex as M,
    extreme preferences are acted on often.
    """

    others: PolicySampler

    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        itself = rng.random((*w.shape[:-1], n, 1)) < 0.5
        return np.where(itself, w[..., None, :], self.others.sample(w, n, rng))

    @property
    def is_local(self) -> bool:  # type: ignore[override]
        return self.others.is_local

    def distance(self, z: Array, tasks: Array) -> Array:
        return np.minimum(_to_nearest(z, tasks), self.others.distance(z, tasks))

    def policy_of(self, w: Array) -> Array:
        return self.others.policy_of(w)


_SAMPLERS = (
    "gaussian:VARIANCE",
    "box:LOW,HIGH",
    "ball:RADIUS",
    "simplex",
    "points:Z;Z;…",
    "train",
    "task",
    "task+…",
    "task|…",
    "module:Class",
)


_NAMES = {form.partition(":")[0] for form in _SAMPLERS} - {"module"}


def _is_sampler(cls: type) -> bool:
    return issubclass(cls, PolicySampler)


def parse_sampler(text: str | PolicySampler, training_tasks: Array) -> PolicySampler:
    """Parse D_z from its text; an object is returned unchanged.

    Texts are "gaussian:0.1", "box:0,1", "ball:1", "simplex", "points:1,0;0,1", "train" (M), "task" (z = w),
    "task+simplex" and similar (w first), "task|simplex" and similar (w or another), or "module:Class" of your own.
    """
    if isinstance(text, PolicySampler):
        return text
    if text.startswith("task+"):
        return WithTask(parse_sampler(text.removeprefix("task+"), training_tasks))
    if text.startswith("task|"):
        return TaskOr(parse_sampler(text.removeprefix("task|"), training_tasks))
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
    if kind not in _NAMES and is_own(text):
        make = resolve(text, "policy distribution", _is_sampler, "a class derived from usfa.samplers.PolicySampler")
        return made(text, "policy distribution", make)
    raise InputError(f"The policy distribution {text!r} is not one of {', '.join(_SAMPLERS)}.")


class LearnedPolicies(NamedTuple):
    """The distribution of policies that an agent was trained on."""

    training_tasks: Array  # M, [K, D]
    sampler: PolicySampler  # D_z
    acted_on: str | PolicySampler  # LearnerConfig.tasks

    @property
    def are_near_m(self) -> bool:
        """Whether only policies in or near M were learned: the tasks acted on are those of M, and D_z is local."""
        return self.acted_on in TASKS_OF_M and self.sampler.is_local

    def distance(self, z: Array) -> Array:
        """Distance of policies z [..., D] from the learned ones, [...]."""
        if self.acted_on in TASKS_OF_M or not self.sampler.is_local:
            return self.sampler.distance(z, self.training_tasks)
        return parse_sampler(self.acted_on, self.training_tasks).distance(z, self.training_tasks)

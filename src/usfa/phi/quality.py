"""Quality of φ: R² and unexplained share of each reward, and the number of features chosen by them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from usfa.errors import InputError, counted
from usfa.functional import unexplained_share
from usfa.phi.data import Transitions

__all__ = ["Directions", "directions", "fitted_tasks", "mean_squared_error", "r_squared", "unexplained"]

Array = NDArray[np.float64]
_CLOSE_ENOUGH = 0.01  # loss of R² that is accepted for fewer features
_RANK = 1e-6  # singular values below this share of the largest count as 0


def _seen(data: Transitions) -> tuple[Array, Array]:
    """Weights and rewards, [N, K] each; both are 0 where a reward was not seen."""
    weight = data.weight[:, None].astype(np.float64) * data.seen
    return weight, np.where(data.seen, data.rewards, 0.0).astype(np.float64)


def r_squared(data: Transitions, predicted: Array) -> Array:
    """R² of predicted rewards [N, K] for each reward, [K]; NaN where the reward does not vary."""
    weight, rewards = _seen(data)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (weight * rewards).sum(axis=0) / weight.sum(axis=0)
        spread = (weight * (rewards - mean) ** 2).sum(axis=0)
        found: Array = 1 - (weight * (rewards - predicted) ** 2).sum(axis=0) / spread
    return np.where(spread > 0, found, np.nan)


def mean_squared_error(data: Transitions, predicted: Array) -> Array:
    """Mean of (r - r̂)² for each reward, [K]; NaN where the reward was never seen."""
    weight, rewards = _seen(data)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Array = (weight * (rewards - predicted) ** 2).sum(axis=0) / weight.sum(axis=0)
    return found


def unexplained(data: Transitions, predicted: Array) -> Array:
    """Share of each reward that is not predicted, Σ(r - r̂)² / Σr², [K]; NaN where the reward is always 0."""
    weight, rewards = _seen(data)
    size = (weight * rewards**2).sum(axis=0)
    error = (weight * (rewards - predicted) ** 2).sum(axis=0)
    return unexplained_share(error, size)


@dataclass(frozen=True)
class Directions:
    """The D directions of rewards that φ consists of."""

    mix: Array  # [K, D]  φ = r̂·mix
    tasks: Array  # [K, D]  w_k of each reward
    basis: tuple[int, ...]  # D of the rewards, whose w_k are the unit vectors
    by_size: Array  # [K, K]  held-out R² of each reward, a row for each number of features from 1


def directions(
    train: Transitions, fitted: Array, held: Transitions, predicted: Array, features: int | None, exact: bool = False
) -> Directions:
    """Choose the directions of φ among predicted rewards, by a singular value decomposition.

    φ spans the D directions that carry most of the rewards. Its basis consists of D of the rewards, as predicted from
    these directions, so that their tasks w_k are unit vectors and features have the names and sizes of rewards.

    Args:
        train: transitions that were learned from.
        fitted: [N, K], their predicted rewards.
        held: the held-out transitions.
        predicted: [N′, K], their predicted rewards.
        features: D; by default the fewest that lose at most 0.01 of the R² of any reward.
        exact: whether no direction may be lost; D is then the rank of the rewards, or `features` if that is larger.
    """
    count, weight = fitted.shape[1], train.weight.astype(np.float64)
    scale = np.sqrt((weight[:, None] * fitted**2).sum(axis=0) / weight.sum())
    scale = np.where(scale > 0, scale, 1.0)
    _, singular, right = np.linalg.svd(np.sqrt(weight)[:, None] * fitted / scale, full_matrices=False)
    by_size = _by_size(held, predicted, scale, right)
    if exact:
        features = _checked_rank(int((singular > _RANK * singular[0]).sum()), count, features)
    if features is None:  # rewards that do not vary on held-out episodes are judged on the others
        known = np.where(np.isnan(by_size), _by_size(train, fitted, scale, right), by_size)
        lost = (known[-1] - known).max(axis=1)
        features = int(np.flatnonzero(lost <= _CLOSE_ENOUGH)[0]) + 1
    if features == count:
        return Directions(np.eye(count), np.eye(count), tuple(range(count)), by_size)
    part = right[:features].T
    basis = np.sort(scipy.linalg.qr(part.T, mode="economic", pivoting=True)[2][:features])
    mix = (part @ part[basis].T) / scale[:, None] * scale[basis]
    tasks = np.linalg.solve(part[basis].T, part.T).T * scale[:, None] / scale[basis]
    tasks[basis] = np.eye(features)  # without rounding errors
    size = abs(tasks).max()
    return Directions(mix, (tasks / size).round(6) * size + 0.0, tuple(basis.tolist()), by_size)


def _by_size(data: Transitions, predicted: Array, scale: Array, right: Array) -> Array:
    """R² of each reward [K, K], predicted from 1, 2, … of the directions `right`."""
    parts = [right[:size].T for size in range(1, len(right) + 1)]  # [K, size]
    return np.array([r_squared(data, (predicted / scale) @ part @ part.T * scale) for part in parts])


def _checked_rank(rank: int, rewards: int, features: int | None) -> int:
    """D of exact features: `features`, or the rank by default; raise InputError if `features` is below the rank."""
    if features is not None and features < rank:
        raise InputError(
            f"The {rewards} rewards span {rank} directions, which no φ with {counted(features, 'feature', 'features')} "
            f"can express; expected features {rank} or more."
        )
    return rank if features is None else features


def fitted_tasks(data: Transitions, phi: Array) -> Array:
    """w of each reward by weighted least squares on φ [N, D], [K, D]."""
    root = np.sqrt(data.weight.astype(np.float64))
    tasks = []
    for index in range(len(data.names)):
        own = root * data.seen[:, index]
        target = np.where(data.seen[:, index], data.rewards[:, index], 0.0) * own
        tasks.append(np.linalg.lstsq(phi * own[:, None], target, rcond=None)[0])
    return np.stack(tasks) if tasks else np.zeros((0, phi.shape[1]))

"""From rewards to a task vector: least squares on r = φ·w."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usfa.errors import InputError

__all__ = ["LARGE_SHARE", "InferredTask", "infer_task", "unexplained_share"]

LARGE_SHARE = 0.1
"""Warn if φ cannot express more than this share of a reward."""
_ROUNDING = 1e-24  # Σr² of rewards that are 0 up to rounding errors, such as cos 90°


@dataclass(frozen=True)
class InferredTask:
    """The least-squares task of observed rewards; accepted wherever a task is expected."""

    w: NDArray[np.float64]  # [D]
    condition_number: float  # of the observed features; inf if they do not determine w
    rank: int  # dimension of the space spanned by the observed features
    residual: float  # root mean square of r - φ·w
    std: NDArray[np.float64]  # [D]  standard error of w; inf where the features do not determine it
    unexplained: float  # Σ(r - φ·w)² / Σr², the share of the reward that φ·w does not express; 0 to 1

    @property
    def determined(self) -> bool:
        """Whether the observed features determine w uniquely."""
        return self.rank == len(self.w)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[np.float64]:
        return np.array(self.w, dtype=dtype, copy=copy)  # type: ignore[call-overload]


def infer_task(phi: ArrayLike, reward: ArrayLike, ridge: float = 0.0) -> InferredTask:
    """argmin_w Σ (r - φ·w)² + ridge ‖w‖²: the task behind observed rewards, Eq. 1.

    Warns if the observed features do not determine w; the result is then the smallest w that fits. Also warns if φ·w
    expresses less than 0.9 of the reward.

    Args:
        phi: [T, D], features of transitions.
        reward: [T], their rewards.
        ridge: strength of the regularisation, for few or noisy rewards.
    """
    try:
        features, rewards = np.asarray(phi, dtype=np.float64), np.asarray(reward, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("phi or reward is not an array of numbers; expected [T, D] and [T].") from None
    _check(features, rewards, ridge)
    singular = np.linalg.svd(features, compute_uv=False)
    w, rank = _solve(features, rewards, ridge)
    size = features.shape[1]
    condition = float(singular[0] / singular[-1]) if rank == size else float("inf")
    if rank < size:
        warnings.warn(
            f"The {len(rewards)} features seen span {rank} of {size} directions, so w is not determined by them; "
            "collect transitions with other features or fix the rest by hand.",
            stacklevel=2,
        )
    error = rewards - features @ w
    squares = float(rewards @ rewards)
    share = float(unexplained_share(error @ error, squares))
    unexplained = 0.0 if np.isnan(share) else min(1.0, share)
    if unexplained > LARGE_SHARE:
        warnings.warn(
            f"φ·w does not express {unexplained:.0%} of the rewards (expected at most {LARGE_SHARE:.0%}): they are "
            "noisy, or φ lacks what they depend on; usfa.learn_features learns φ from rewards.",
            stacklevel=2,
        )
    std = _standard_error(features, error, rank, ridge)
    return InferredTask(w, condition, rank, float(np.sqrt(np.mean(error**2))), std, unexplained)


def unexplained_share(errors: ArrayLike, squares: ArrayLike) -> NDArray[np.float64]:
    """Σ(r - φ·w)² / Σr² from both sums; NaN where the reward is always 0, up to rounding errors."""
    divisor = np.asarray(squares, np.float64)
    return np.asarray(errors, np.float64) / np.where(divisor > _ROUNDING, divisor, np.nan)


def _standard_error(
    features: NDArray[np.float64], error: NDArray[np.float64], rank: int, ridge: float
) -> NDArray[np.float64]:
    """√ diag σ² (ΦᵀΦ + ridge I)⁻¹ with σ² = Σe² / (T - rank); inf where w is not determined."""
    count, size = features.shape
    if count <= rank or (rank < size and not ridge):
        return np.full(size, np.inf)
    precision = features.T @ features + ridge * np.eye(size)
    variance = float(error @ error) / (count - rank)
    return np.sqrt(variance * np.diag(np.linalg.inv(precision)))


def _solve(
    features: NDArray[np.float64], rewards: NDArray[np.float64], ridge: float
) -> tuple[NDArray[np.float64], int]:
    rank = int(np.linalg.matrix_rank(features))
    if ridge:
        size = features.shape[1]
        features = np.vstack([features, np.sqrt(ridge) * np.eye(size)])
        rewards = np.concatenate([rewards, np.zeros(size)])
    w: NDArray[np.float64] = np.linalg.lstsq(features, rewards, rcond=None)[0].astype(np.float64)
    return w, rank


def _check(features: NDArray[np.float64], rewards: NDArray[np.float64], ridge: float) -> None:
    if features.ndim != 2 or not features.size:
        raise InputError(f"phi has shape {features.shape}; expected [transitions, features] with at least one each.")
    if rewards.shape != features.shape[:1]:
        raise InputError(f"reward has shape {rewards.shape}; expected {features.shape[:1]}, one per row of phi.")
    if not (np.isfinite(features).all() and np.isfinite(rewards).all()):
        raise InputError("phi or reward holds NaN or infinity; expected finite numbers.")
    if not (np.isfinite(ridge) and ridge >= 0):
        raise InputError(f"ridge is {ridge}; expected 0 or a positive number.")

"""From rewards to a task vector: least squares on r = φ·w."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usfa.errors import InputError

__all__ = ["InferredTask", "infer_task"]


@dataclass(frozen=True)
class InferredTask:
    """The least-squares task of observed rewards; accepted wherever a task is expected."""

    w: NDArray[np.float64]  # [D]
    condition_number: float  # of the observed features; inf if they do not determine w
    rank: int  # dimension of the space spanned by the observed features
    residual: float  # root mean square of r - φ·w

    @property
    def determined(self) -> bool:
        """Whether the observed features determine w uniquely."""
        return self.rank == len(self.w)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[np.float64]:
        return np.array(self.w, dtype=dtype, copy=copy)  # type: ignore[call-overload]


def infer_task(phi: ArrayLike, reward: ArrayLike, ridge: float = 0.0) -> InferredTask:
    """argmin_w Σ (r - φ·w)² + ridge ‖w‖²: the task behind observed rewards, Eq. 1.

    Warns if the observed features do not determine w; the result is then the smallest w that fits.

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
    residual = float(np.sqrt(np.mean((rewards - features @ w) ** 2)))
    return InferredTask(w, condition, rank, residual)


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

"""A task inferred from the user's ratings: least squares on r = φ·w, with the remaining uncertainty."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from usfa.functional import infer_task
from usfa.playground.protocol import TaskEstimate

__all__ = ["Ratings"]

_NOISE_STD = 0.3  # standard deviation of a user's ratings
_PRIOR_STD = 1.0  # standard deviation of a task's entries before any rating
_MAX_RATINGS = 500


class Ratings:
    """All ratings so far, and the task behind them by Bayesian linear regression.

    A rating covers the average of some steps: r = φ̄·w + noise with φ̄ = Σφ / Σ|φ|, so that w has the range of the
    sliders. The prior is w ~ N(0, 1); the posterior mean is a ridge regression.
    """

    def __init__(self, features: int) -> None:
        self._features = features
        self.clear()

    def clear(self) -> None:
        self._phi: list[NDArray[np.float64]] = []
        self._reward: list[float] = []

    def add(self, phi: NDArray[np.float64], reward: float) -> TaskEstimate:
        """Rate steps with the sum of features `phi`."""
        if not phi.any():
            return self.estimate(phi, "Nothing was collected in these steps (φ = 0): the rating was not used.")
        self._phi = [*self._phi[1 - _MAX_RATINGS :], phi / np.abs(phi).sum()]
        self._reward = [*self._reward[1 - _MAX_RATINGS :], reward]
        return self.estimate(phi)

    def estimate(self, phi: NDArray[np.float64], message: str = "") -> TaskEstimate:
        if not self._phi:
            return TaskEstimate(0, phi.tolist(), None, None, 0, message or "No ratings yet.")
        features = np.stack(self._phi)
        with warnings.catch_warnings():  # its warning is part of the message below
            warnings.simplefilter("ignore")
            inferred = infer_task(features, self._reward, ridge=(_NOISE_STD / _PRIOR_STD) ** 2)
        message = message or _missing_message(self._features - inferred.rank)
        w, std = inferred.w.round(4).tolist(), _posterior_std(features)
        return TaskEstimate(len(self._phi), phi.tolist(), w, std, inferred.rank, message)


def _posterior_std(features: NDArray[np.float64]) -> list[float]:
    """√ diag (ΦᵀΦ/σ² + I/τ²)⁻¹ / τ."""
    precision = features.T @ features / _NOISE_STD**2 + np.eye(features.shape[1]) / _PRIOR_STD**2
    return (np.sqrt(np.diag(np.linalg.inv(precision))) / _PRIOR_STD).round(4).tolist()


def _missing_message(missing: int) -> str:
    if missing == 0:
        return "Every direction of the task has been rated."
    directions = "direction of the task has" if missing == 1 else "directions of the task have"
    return f"{missing} {directions} not been rated yet: the estimate is a guess there."

"""From a visitor's marks to a task: least squares on r = φ·w, with what is still unknown told beside it."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from usfa.functional import infer_task
from usfa.playground.protocol import Rated

__all__ = ["Teaching"]

_NOISE = 0.3  # standard deviation of a person's marks
_PRIOR = 1.0  # of a task's entries before anything is known
_MOST = 500  # ratings that are kept


class Teaching:
    """Ratings so far, and the task behind them by Bayesian linear regression.

    A rating is about what happened on average: r = φ̄·w + noise with φ̄ = Σφ / Σ|φ|, so that w is of the sliders' size.
    Before any rating w ~ N(0, 1); the mean afterwards is a ridge regression.
    """

    def __init__(self, features: int) -> None:
        self._features = features
        self.forget()

    def forget(self) -> None:
        self._phi: list[NDArray[np.float64]] = []
        self._reward: list[float] = []

    def rate(self, phi: NDArray[np.float64], reward: float) -> Rated:
        """The visitor gives a reward for Σφ of some steps."""
        if phi.any():
            self._phi = [*self._phi[1 - _MOST :], phi / np.abs(phi).sum()]
            self._reward = [*self._reward[1 - _MOST :], reward]
            return self.estimate(phi)
        return self.estimate(phi, "Nothing happened in those steps (φ = 0), so they say nothing about the task.")

    def estimate(self, phi: NDArray[np.float64], says: str = "") -> Rated:
        if not self._phi:
            return Rated(0, phi.tolist(), None, None, 0, says or "No ratings yet.")
        features = np.stack(self._phi)
        with warnings.catch_warnings():  # what it warns of is told to the visitor below
            warnings.simplefilter("ignore")
            inferred = infer_task(features, self._reward, ridge=(_NOISE / _PRIOR) ** 2)
        std = _posterior_std(features)
        missing = self._features - inferred.rank
        if not says:
            says = "Every direction of the task has been rated." if not missing else _undetermined(missing)
        return Rated(len(self._phi), phi.tolist(), inferred.w.round(4).tolist(), std, inferred.rank, says)


def _posterior_std(features: NDArray[np.float64]) -> list[float]:
    """√ diag (ΦᵀΦ/σ² + I/τ²)⁻¹, in units of the prior's."""
    precision = features.T @ features / _NOISE**2 + np.eye(features.shape[1]) / _PRIOR**2
    return (np.sqrt(np.diag(np.linalg.inv(precision))) / _PRIOR).round(4).tolist()


def _undetermined(missing: int) -> str:
    directions = "direction of the task has" if missing == 1 else "directions of the task have"
    return f"{missing} {directions} not been rated yet and {'is' if missing == 1 else 'are'} a guess."

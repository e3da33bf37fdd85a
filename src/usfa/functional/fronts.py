"""Sets of value vectors [K, D], to be maximised: Pareto fronts, convex coverage sets, and indicators.

A value vector v is the vector return Σ γ^t φ_t of a policy; its utility for a preference w is v·w.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from usfa.errors import InputError

__all__ = [
    "best_utility",
    "convex_coverage",
    "expected_utility",
    "hypervolume",
    "nondominated",
    "pareto_front",
    "sparsity",
    "utility_loss",
]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


# --- which points matter ---


def nondominated(values: ArrayLike) -> Mask:
    """Mask of the points [K, D] that no other point dominates; equal points do not dominate each other."""
    return _nondominated(_points(values))


def _nondominated(points: Array) -> Mask:
    covers = np.ones((len(points), len(points)), np.bool_)  # point k is at least as good as point l
    for entry in points.T:  # one by one: [K, K, D] would be large
        covers &= entry[:, None] >= entry
    dominated: Mask = np.asarray((covers & ~covers.T).any(axis=0))
    return ~dominated


def pareto_front(values: ArrayLike) -> Array:
    """The nondominated points, without duplicates, in lexicographic order."""
    points = _points(values)
    front: Array = np.unique(points[_nondominated(points)], axis=0)
    return front


def convex_coverage(values: ArrayLike, tolerance: float = 1e-9) -> Mask:
    """Mask of the convex coverage set: points that alone are best for some preference w ≥ 0, and their duplicates.

    A point v belongs to it if and only if some w ≥ 0 has (v - v')·w ≥ 1 for all other points v' (w can be scaled). The
    set contains an optimum for every preference, and no smaller set does.

    Args:
        values: [K, D].
        tolerance: required lead of a point, with every entry scaled to the range 0 to 1.
    """
    points, twins = np.unique(_points(values), axis=0, return_inverse=True)
    spread = np.ptp(points, axis=0)
    scaled = (points - points.min(axis=0)) / np.where(spread > 0, spread, 1.0)  # w ≥ 0 can undo any positive scale
    wins = [_wins_somewhere(scaled[k] - np.delete(scaled, k, axis=0), tolerance) for k in range(len(points))]
    return np.array(wins)[twins.reshape(-1)]


def _wins_somewhere(lead: Array, tolerance: float) -> bool:
    """Whether some w ≥ 0 has lead·w ≥ 1 in every row, [K-1, D].

    The shortest such w is a least distance problem, and non-negative least squares solves those (Lawson and Hanson
    1974, chapter 23): the residual is 0 if there is none, and otherwise about the smallest lead for w/‖w‖.
    """
    features = lead.shape[1]
    constraints = np.vstack([lead, np.eye(features)])
    bounds = np.append(np.ones(len(lead)), np.zeros(features))
    system, target = np.vstack([constraints.T, bounds]), np.append(np.zeros(features), 1.0)
    residual = system @ _non_negative_least_squares(system, target) - target
    return bool(np.linalg.norm(residual) > tolerance)


def _non_negative_least_squares(a: Array, b: Array, tolerance: float = 1e-12) -> Array:
    """argmin_{x ≥ 0} ‖a x - b‖ by active sets (Lawson and Hanson 1974, chapter 23)."""
    x, free = np.zeros(a.shape[1]), np.zeros(a.shape[1], np.bool_)
    for _ in range(10 * a.shape[1]):
        descent = np.where(free, -np.inf, a.T @ (b - a @ x))
        if descent.max() <= tolerance:
            break
        free[descent.argmax()] = True
        while True:
            trial = np.zeros_like(x)
            trial[free] = np.linalg.lstsq(a[:, free], b)[0]
            blocked = free & (trial <= 0)
            if not blocked.any():
                break
            step = (x[blocked] / (x[blocked] - trial[blocked])).min()  # as far towards the trial as signs allow
            x += step * (trial - x)
            free &= x > tolerance
        x = trial
    return x


# --- how good a set is ---


def hypervolume(values: ArrayLike, reference: ArrayLike) -> float:
    """Volume dominated by the points that are better than a reference point [D] in every entry."""
    points, origin = _points(values), np.asarray(reference, dtype=np.float64)
    if origin.shape != points.shape[1:] or not np.isfinite(origin).all():
        raise InputError(f"The reference point is {origin.tolist()}; expected {points.shape[1]} finite numbers.")
    return _volume(points[(points > origin).all(axis=1)] - origin)


def _volume(points: Array) -> float:
    """Volume of the union of the boxes from 0 to each point.

    Points are sorted by descending last entry. Each adds the volume of its box minus the overlap with earlier boxes
    (While, Bradstreet and Barone 2012). Those are at least as long in the last entry, so the overlap has one dimension
    less.
    """
    if points.shape[1] == 1:
        return float(points.max(initial=0.0))
    points = points[np.argsort(-points[:, -1], kind="stable")]
    if points.shape[1] == 2:
        return float(np.diff(np.maximum.accumulate(points[:, 0]), prepend=0.0) @ points[:, 1])
    points = points[_nondominated(points)]
    bases, heights = points[:, :-1], points[:, -1]
    shared = [_volume(np.minimum(bases[:k], base)) for k, base in enumerate(bases)]
    return float((bases.prod(axis=1) - shared) @ heights)


def sparsity(values: ArrayLike) -> float:
    """Σ_d Σ_i (ṽ_d(i) - ṽ_d(i+1))² / (|P| - 1), with each entry ṽ_d of the Pareto front P sorted separately.

    The mean squared gap of Xu et al. 2020; smaller is denser. NaN for a single point.
    """
    front = pareto_front(values)
    if len(front) < 2:
        return float("nan")
    return float((np.diff(np.sort(front, axis=0), axis=0) ** 2).sum() / (len(front) - 1))


def best_utility(values: ArrayLike, w: ArrayLike) -> Array:
    """max_v v·w for each of the preferences w [K, D] -> [K]."""
    preferences, points = _points(w), _points(values)
    if preferences.shape[1] != points.shape[1]:
        raise InputError(
            f"The points have {points.shape[1]} entries and the preferences {preferences.shape[1]}; expected as many."
        )
    best: Array = (preferences @ points.T).max(axis=1)
    return best


def expected_utility(values: ArrayLike, w: ArrayLike) -> float:
    """E_w[max_v v·w] over equally likely preferences w [K, D] (Zintgraf et al. 2015)."""
    return float(best_utility(values, w).mean())


def utility_loss(values: ArrayLike, known: ArrayLike, w: ArrayLike) -> Array:
    """max_{v*} v*·w - max_v v·w: loss of each preference w [K, D] relative to a known front -> [K].

    Its mean is the loss of expected utility, its maximum the maximum utility loss of Zintgraf et al. 2015.
    """
    return best_utility(known, w) - best_utility(values, w)


def _points(values: ArrayLike) -> Array:
    try:
        points = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("The points are not an array of numbers; expected [K, D], a vector per row.") from None
    if points.ndim != 2 or not points.size:
        raise InputError(f"The points have shape {points.shape}; expected [K, D], a vector per row, at least one.")
    if not np.isfinite(points).all():
        raise InputError("The points hold NaN or infinity; expected finite numbers.")
    return points

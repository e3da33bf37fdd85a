"""Decisions for B states in one compiled loop, equal to those of :mod:`usfa.functional.decisions`.

A decision is about forty operations on a few numbers each. As tensor operations they were 9 to 41 % of acting in the
room; compiled they are 2 to 5 % (benchmarks/rule_cost.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.compiling import compiled
from usfa.functional.decisions import LEAST_TRUST, Choice

__all__ = ["decide"]


def decide(
    psi: Tensor,
    w: Tensor,
    z: Tensor,
    legal: Tensor,
    step_error: Tensor,
    optimism: Tensor,
    horizon: Tensor,
    gap_scale: Tensor,
    caution: float,
    improves: bool,
    steady: bool,
) -> Choice:
    """:func:`usfa.functional.choose_cautiously` or, if `steady`, `choose_steadily`; the arguments are the same."""
    batch, _, actions, _ = psi.shape
    number = psi.dtype
    values = _array(psi, number)
    chosen, improved = np.empty((2, batch), dtype=np.int64), np.empty(batch, dtype=np.bool_)
    best_q = np.empty((batch, actions), dtype=values.dtype)
    _decide(
        values,
        _array(w, number),
        _array(z, number),
        _array(legal, torch.bool),
        _array(step_error, number),
        _array(optimism, number),
        _array(horizon, number),
        _array(gap_scale, number),
        float(caution),  # numba would compile the loop again for a whole number
        improves,
        steady,
        chosen,
        improved,
        best_q,
    )
    tensor = torch.from_numpy
    return Choice(tensor(chosen[0]), tensor(chosen[1]), tensor(improved), tensor(best_q))


def _array(values: Tensor, dtype: torch.dtype) -> NDArray[Any]:
    """Convert to the array type that the loop is compiled for; the checks are faster than unneeded conversions."""
    if values.dtype is not dtype:
        values = values.to(dtype)
    if values.requires_grad:
        values = values.detach()
    array = values.numpy()
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


@compiled()
def _decide(
    psi: NDArray[Any],
    w: NDArray[Any],
    z: NDArray[Any],
    legal: NDArray[np.bool_],
    step_error: NDArray[Any],
    optimism: NDArray[Any],
    horizon: NDArray[Any],
    gap_scale: NDArray[Any],
    caution: float,
    improves: bool,
    steady: bool,
    chosen: NDArray[np.int64],
    improved: NDArray[np.bool_],
    best_q: NDArray[Any],
) -> None:
    """Fill `chosen` [2, B] with actions and policies, `improved` [B] and `best_q` [B, A]."""
    batch, policies, actions, _ = psi.shape
    q = np.empty((policies, actions), dtype=psi.dtype)
    along = np.empty_like(q)
    share, margin, doubt = np.empty((3, policies), dtype=psi.dtype)
    own = np.empty(policies, dtype=np.int64)
    for b in range(batch):
        trust = max(1 / (1 + caution * horizon[b] * step_error[b].max()), LEAST_TRUST)
        for n in range(policies):
            own[n] = _values(psi[b, n], w[b], z[b, n], legal[b], q[n], along[n])
            share[n], stake, across = _errors(psi[b, n, own[n]], w[b], z[b, n], step_error[b])
            margin[n] = 0.0 if steady else 2 * caution * across
            doubt[n] = caution * optimism[b, n] * stake
        # If z·w ≤ 0 for every z in C, no policy serves the task: use no margin and an unchanged ψ, as in Eq. 3.
        serves = share.max() > 0
        if not serves:
            margin[:] = 0
        for n in range(policies):
            if steady and serves:
                _temper(q[n], along[n], own[n], share[n], trust if share[n] > 0 else 1.0, gap_scale[b])
            q[n] -= doubt[n]
        action, policy = _choose(q, margin, own, improves, best_q[b])
        chosen[0, b], chosen[1, b], improved[b] = action, policy, action != own[policy]


@compiled(inner=True)
def _values(
    psi: NDArray[Any],
    task: NDArray[Any],
    policy: NDArray[Any],
    legal: NDArray[np.bool_],
    q: NDArray[Any],
    along: NDArray[Any],
) -> int:
    """Fill `q` and `along` [A] with ψ·w and ψ·z of one policy, q with -inf where illegal; return π_z(s)."""
    actions, features = psi.shape
    zero = psi.dtype.type(0)
    best, highest = -1, psi.dtype.type(-np.inf)
    for a in range(actions):
        if not legal[a]:
            q[a], along[a] = -np.inf, zero
            continue
        gains = psi[a]
        value, own_value = zero, zero
        for i in range(features):
            value += gains[i] * task[i]
            own_value += gains[i] * policy[i]
        q[a], along[a] = value, own_value
        if best < 0 or own_value > highest:
            best, highest = a, own_value
    return max(best, 0)  # like argmax if nothing is legal


@compiled(inner=True)
def _errors(
    gains: NDArray[Any], task: NDArray[Any], policy: NDArray[Any], error: NDArray[Any]
) -> tuple[float, float, float]:
    """z·w/‖z‖², Σ|ψ_i w_i| (`stake`) and the error of ψ·w across z (`across_error`) of a policy's own action."""
    zero = gains.dtype.type(0)
    product, length = zero, zero
    for i in range(len(task)):
        product += policy[i] * task[i]
        length += policy[i] * policy[i]
    share = product / max(length, gains.dtype.type(1e-12))
    stake, across = zero, zero
    for i in range(len(task)):
        stake += abs(gains[i] * task[i])
        across += error[i] * abs(gains[i]) * abs(task[i] - share * policy[i])
    return share, stake, across


@compiled(inner=True)
def _temper(q: NDArray[Any], along: NDArray[Any], own: int, share: float, trust: float, gap_scale: float) -> None:
    """Shrink the differences of `q` [A] from the value of the own action, as `usfa.functional.temper` does."""
    at_own, along_own = q[own], along[own]
    for a in range(len(q)):
        if q[a] > -np.inf:
            q[a] += gap_scale * (1 - trust) * share * (along[a] - along_own) - (1 - gap_scale * trust) * (q[a] - at_own)


@compiled(inner=True)
def _choose(
    q: NDArray[Any],
    margin: NDArray[Any],
    own: NDArray[np.int64],
    improves: bool,
    best_q: NDArray[Any],
) -> tuple[int, int]:
    """Action and policy for one state from the doubted values `q` [N, A]; ties go to the lowest action, then policy."""
    policies, actions = q.shape
    followed, following = 0, -np.inf
    for n in range(policies):
        if q[n, own[n]] > following:
            followed, following = n, q[n, own[n]]
    action, trusted, promise = own[followed], followed, -np.inf
    for a in range(actions):
        best_q[a] = -np.inf
        for n in range(policies):
            best_q[a] = max(best_q[a], q[n, a])
            if improves and q[n, a] - margin[n] >= following and q[n, a] - margin[n] > promise:
                action, trusted, promise = a, n, q[n, a] - margin[n]
    return action, trusted

"""One backward recursion for all returns of vectors: one step, n steps, and Watkins' Q(λ) per policy."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["lambda_return", "watkins_lambda"]


def lambda_return(phi_t: Tensor, discount_t: Tensor, v_t: Tensor, lambda_t: Tensor | float) -> Tensor:
    """G_{t-1} = φ_t + γ_t [(1-λ_t) v_t + λ_t G_t], backwards from G_T = v_T.

    λ_t alone determines the kind of return: 0 gives one-step returns, 1 bootstraps only at the end of the trajectory,
    :func:`watkins_lambda` cuts traces per policy.

    Args:
        phi_t: [T, ...], the cumulants: features [T,B,1,D], or rewards.
        discount_t: [T, ...], γ, and 0 where the transition terminates.
        v_t: [T, ...], the value of the destination state: [T,B,N,D].
        lambda_t: [T, ...] or a number; its last entry has no effect.

    All arguments broadcast against each other. Returns the T targets for ψ(s_{t-1}, a_{t-1}).
    """
    traces = torch.as_tensor(lambda_t, dtype=v_t.dtype, device=v_t.device)
    # Precompute everything but the recursion for the whole trajectory: G_{t-1} = fixed_t + decay_t G_t.
    decay_t = discount_t * traces
    fixed_t = phi_t + (discount_t - decay_t) * v_t
    fixed_t, decay_t, v_t = torch.broadcast_tensors(fixed_t, decay_t, v_t)
    g_t = v_t[-1]
    returns = []
    for fixed, decay in zip(fixed_t.flip(0).unbind(), decay_t.flip(0).unbind(), strict=True):
        g_t = torch.addcmul(fixed, decay, g_t)
        returns.append(g_t)
    return torch.stack(returns).flip(0)


def watkins_lambda(lambda_: float, action_t: Tensor, greedy_t: Tensor) -> Tensor:
    """λ_t = λ·1[a_t = a*_t]: the trace of policy z is cut where the behaviour deviates from it (Watkins 1989).

    Args:
        lambda_: λ.
        action_t: [T, B], taken at the destination states.
        greedy_t: [T, B, N], the action of each policy there: argmax_b ψ(s_t,b,z)·z.

    Returns: [T, B, N].
    """
    return lambda_ * (action_t[..., None] == greedy_t).to(torch.get_default_dtype())

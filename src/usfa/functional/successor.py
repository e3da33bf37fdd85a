"""From successor features to actions: Q = ψ·w, greedy actions and generalised policy improvement."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from usfa.errors import InputError

__all__ = ["Gpi", "gpi", "greedy_actions", "mask_illegal", "policy_actions", "q_values", "take_actions"]


class Gpi(NamedTuple):
    """The action of generalised policy improvement, and the policy that attains it."""

    action: Tensor  # [...]      argmax_a max_z Q(s,a,z)
    policy: Tensor  # [...]      index in C of the z that attains the maximum
    q_max: Tensor  # [..., A]   max_z Q(s,a,z); -inf where illegal


def q_values(psi: Tensor, w: Tensor) -> Tensor:
    """Q(s,a,w,z) = ψ(s,a,z)·w: the value of every policy z on task w, Section 3.1.

    Args:
        psi: [..., N, A, D].
        w: [..., D].

    Returns: [..., N, A].
    """
    return (psi @ w[..., None, :, None]).squeeze(-1)  # "...nad,...d->...na", in half the time of einsum


def mask_illegal(q: Tensor, legal: Tensor | None) -> Tensor:
    """Q with -inf where an action is illegal; `legal` [..., A] broadcasts against `q`, None allows everything."""
    return q if legal is None else q.masked_fill(~legal, -torch.inf)


def greedy_actions(q: Tensor, legal: Tensor | None = None) -> Tensor:
    """argmax_a q(a) over the last axis; ties go to the lowest index."""
    return mask_illegal(q, legal).argmax(dim=-1)


def policy_actions(psi: Tensor, z: Tensor, legal: Tensor | None = None) -> Tensor:
    """π_z(s) = argmax_b ψ(s,b,z)·z: the action of every policy, which does not depend on the task.

    Args:
        psi: [..., N, A, D].
        z: [..., N, D].
        legal: [..., A] or None.

    Returns: [..., N].
    """
    own_q = (psi @ z[..., None]).squeeze(-1)  # "...nad,...nd->...na", in half the time of einsum
    return greedy_actions(own_q, None if legal is None else legal[..., None, :])


def gpi(psi: Tensor, w: Tensor, legal: Tensor | None = None) -> Gpi:
    """π(s) = argmax_a max_{z∈C} ψ(s,a,z)·w: generalised policy improvement, Eq. 3.

    Ties go to the lowest action, then to the lowest policy.

    Args:
        psi: [..., N, A, D], the successor features of the N policies in C.
        w: [..., D].
        legal: [..., A] or None.
    """
    q = q_values(psi, w)
    q_max = mask_illegal(q.amax(dim=-2), legal)
    action = q_max.argmax(dim=-1)
    of_action = torch.take_along_dim(q, action[..., None, None], dim=-1).squeeze(-1)
    return Gpi(action, of_action.argmax(dim=-1), q_max)


def take_actions(psi: Tensor, action: Tensor) -> Tensor:
    """ψ(s, a_n, z_n): [..., N, A, D] and an action per policy [..., N], from 0 to A - 1 -> [..., N, D]."""
    *lead, actions, features = psi.shape
    if list(action.shape) != lead:
        raise InputError(f"The actions have shape {list(action.shape)}; expected {lead}, one per policy.")
    # Selecting among the rows [... · N · A, D] takes two thirds of the time of gather, forwards and backwards.
    rows = torch.arange(action.numel(), device=psi.device) * actions + action.flatten()
    return psi.reshape(-1, features).index_select(0, rows).view(*lead, features)

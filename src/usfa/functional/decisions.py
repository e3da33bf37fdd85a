"""From approximate successor features to an action: follow a policy, or improve on it where that is worth it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from usfa.functional.successor import mask_illegal, policy_actions, q_values, take_actions

__all__ = ["LEAST_TRUST", "Choice", "across_error", "choose", "choose_cautiously", "choose_steadily", "stake", "temper"]


LEAST_TRUST = 1e-3
"""Smallest factor of gains across z; with 0, actions that differ only across z would all look alike."""


class Choice(NamedTuple):
    """An action, the policy whose value led to it, and whether it differs from that policy's own action."""

    action: Tensor  # [...]
    policy: Tensor  # [...]     index in C of the trusted z
    improved: Tensor  # [...]     bool: the action is not π_z(s), the trusted policy's own
    q: Tensor  # [..., A]  max_z Q(s,a,z) less the doubts; -inf where illegal


def choose(
    psi: Tensor,
    w: Tensor,
    z: Tensor,
    legal: Tensor | None = None,
    doubt: Tensor | float = 0.0,
    margin: Tensor | float = 0.0,
    own: Tensor | None = None,
) -> Choice:
    """Follow the policy with the largest value on w, unless some action's value exceeds it by a margin.

    With Q(s,a,z) = ψ(s,a,z)·w - doubt(z), the value of following is v = max_z Q(s, π_z(s), z). An improving step takes
    the action of max_{a,z} Q(s,a,z) - margin(z) if that is at least v; otherwise the best policy is followed. Without
    doubt and margin this is generalised policy improvement, Eq. 3, including ties. An infinite margin never improves.

    Args:
        psi: [..., N, A, D], the successor features of the N policies in C.
        w: [..., D].
        z: [..., N, D].
        legal: [..., A] or None.
        doubt: [..., N], subtracted from the value of each policy.
        margin: [..., N], required excess of the value of an improving step over that of following.
        own: [..., N], π_z(s); computed if it is None.
    """
    q = mask_illegal(q_values(psi, w), None if legal is None else legal[..., None, :])  # [..., N, A]
    own = policy_actions(psi, z, legal) if own is None else own  # [..., N]
    doubted = q - _per_policy(doubt, q)
    following = _take(doubted, own).squeeze(-1)  # [..., N]
    improving = doubted - _per_policy(margin, q)
    promise = improving.amax(dim=-2)  # [..., A]
    improves = promise.amax(dim=-1) >= following.amax(dim=-1)
    best_action = promise.argmax(dim=-1)
    trusted = _take(improving, best_action[..., None].expand(own.shape)).squeeze(-1).argmax(dim=-1)
    policy = torch.where(improves, trusted, following.argmax(dim=-1))
    own_action = _take(own, policy).squeeze(-1)
    action = torch.where(improves, best_action, own_action)
    return Choice(action, policy, action != own_action, doubted.amax(dim=-2))


def choose_cautiously(
    psi: Tensor,
    w: Tensor,
    z: Tensor,
    legal: Tensor,
    step_error: Tensor,
    optimism: Tensor,
    caution: float,
    improves: bool = True,
) -> Choice:
    """Choose with doubts and margins from measured errors of ψ, see :class:`usfa.decisions.Cautious`.

    If z·w ≤ 0 for every z in C, no policy serves the task: there is no margin, as in Eq. 3.

    Args:
        psi: [B, N, A, D].
        w: [B, D].
        z: [B, N, D].
        legal: [B, A].
        step_error: [B, D].
        optimism: [B, N].
        caution: multiplies optimism and step_error; 0 is Eq. 3.
        improves: False only follows.
    """
    own = policy_actions(psi, z, legal)
    gains = take_actions(psi, own)
    doubt = caution * optimism * stake(gains, w)
    if not improves:
        return choose(psi, w, z, legal, doubt, math.inf, own)
    serves = (torch.einsum("bnd,bd->bn", z, w) > 0).any(dim=-1, keepdim=True)
    margin = 2 * caution * across_error(gains, w, z, step_error) * serves
    return choose(psi, w, z, legal, doubt, margin, own)


def choose_steadily(
    psi: Tensor,
    w: Tensor,
    z: Tensor,
    legal: Tensor,
    step_error: Tensor,
    optimism: Tensor,
    horizon: Tensor,
    gap_scale: Tensor,
    caution: float,
) -> Choice:
    """Choose with doubts and tempered gains, from the measured errors of ψ, see :class:`usfa.decisions.Steady`.

    Gains across z are divided by 1 + ρH, with ρ the largest step_error, if z·w > 0; otherwise there is nothing to lose
    along z. If z·w ≤ 0 for every z in C, no policy serves the task, and ψ is left unchanged.

    Args:
        psi: [B, N, A, D].
        w: [B, D].
        z: [B, N, D].
        legal: [B, A].
        step_error: [B, D].
        optimism: [B, N].
        horizon: [B], H.
        gap_scale: [B].
        caution: multiplies step_error and optimism.
    """
    own = policy_actions(psi, z, legal)
    doubt = caution * optimism * stake(take_actions(psi, own), w)
    serves = torch.einsum("bnd,bd->bn", z, w) > 0
    trust = (1 / (1 + caution * horizon * step_error.amax(dim=-1))).clamp(min=LEAST_TRUST)
    trust = torch.where(serves, trust[:, None], 1.0)
    tempered = temper(psi, z, own, trust, torch.where(serves.any(dim=-1), gap_scale, 1.0))
    return choose(tempered, w, z, legal, doubt, own=own)


def temper(psi: Tensor, z: Tensor, own: Tensor, trust: Tensor, gap_scale: Tensor) -> Tensor:
    """Shrink the differences between actions: ψ(s,π_z(s),z) + gap_scale · (A_∥ + trust · A_⊥).

    A = ψ(s,a,z) - ψ(s,π_z(s),z) is the difference from the policy's own action, A_∥ its part along z and A_⊥ the rest.
    Along z no action gains anything, because π_z(s) is the best one there. Gains are across z, and with a trust of 1/4
    they have to be four times the cost.

    Args:
        psi: [..., N, A, D].
        z: [..., N, D].
        own: [..., N], π_z(s).
        trust: [..., N], from 0 to 1.
        gap_scale: [...], the factor of all differences.

    Returns: [..., N, A, D]; ψ itself, to the bit, if both factors are 1.
    """
    trust, gap_scale = trust[..., None, None], gap_scale[..., None, None, None]
    difference = psi - take_actions(psi, own)[..., None, :]
    unit = z / z.square().sum(dim=-1, keepdim=True).sqrt().clamp(min=1e-6)
    along = torch.einsum("...nad,...nd->...na", difference, unit)[..., None] * unit[..., None, :]
    return psi - (1 - gap_scale * trust) * difference + gap_scale * (1 - trust) * along


def stake(psi: Tensor, w: Tensor) -> Tensor:
    """Σ_i |ψ_i w_i|, the sum of gains and losses of each policy: psi [..., N, D] and w [..., D] -> [..., N].

    Unlike the net value ψ·w it does not vanish where gains and losses cancel.
    """
    return torch.einsum("...nd,...d->...n", psi.abs(), w.abs())


def across_error(psi: Tensor, w: Tensor, z: Tensor, relative: Tensor) -> Tensor:
    """Σ_i ρ_i |ψ_i| |w_i - c z_i| with c = w·z/‖z‖²: the error of ψ·w across z.

    ψ·w is c ψ·z plus a remainder. Learning compares actions by ψ·z at every step, so differences between actions are
    accurate along z. Nothing in learning depends on differences in the remainder.

    Args:
        psi: [..., N, D], of each policy's own action.
        w: [..., D].
        z: [..., N, D].
        relative: [..., D], ρ.

    Returns: [..., N].
    """
    along = torch.einsum("...nd,...d->...n", z, w) / z.square().sum(dim=-1).clamp(min=1e-12)
    rest = (w[..., None, :] - along[..., None] * z).abs()
    return torch.einsum("...nd,...d->...n", psi.abs() * rest, relative)


def _per_policy(value: Tensor | float, q: Tensor) -> Tensor:
    """[..., N] or a number as [..., N, 1]."""
    return torch.as_tensor(value, dtype=q.dtype, device=q.device).expand(q.shape[:-1])[..., None]


def _take(x: Tensor, index: Tensor) -> Tensor:
    """x[..., index[...]], with a last axis of length 1."""
    return x.gather(-1, index[..., None])

"""From approximate successor features to an action: follow a policy, or improve on it where that is worth it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from usfa.functional.successor import mask_illegal, policy_actions, q_values, take_actions

__all__ = ["Choice", "choose", "choose_cautiously", "stake", "temper"]


class Choice(NamedTuple):
    """An action, the policy whose value it was chosen by, and whether it differs from that policy's own action."""

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
    error: Tensor,
    optimism: Tensor,
    gap_scale: Tensor,
    caution: float,
    improves: bool = True,
) -> Choice:
    """Choose with doubts and tempered gains, from the measured errors of ψ, see :class:`usfa.decisions.Cautious`.

    Args:
        psi: [B, N, A, D].
        w: [B, D].
        z: [B, N, D].
        legal: [B, A].
        error: [B].
        optimism: [B, N].
        gap_scale: [B].
        caution: multiplies error and optimism; 0 is Eq. 3.
        improves: False only follows.
    """
    if caution == 0:
        return choose(psi, w, z, legal, margin=0.0 if improves else math.inf)
    own = policy_actions(psi, z, legal)
    doubt = caution * optimism * stake(take_actions(psi, own), w)
    if not improves:
        return choose(psi, w, z, legal, doubt, math.inf, own)
    tempered = temper(psi, w, z, own, 1 / (1 + caution * error), gap_scale)
    return choose(tempered, w, z, legal, doubt, own=own)


def temper(psi: Tensor, w: Tensor, z: Tensor, own: Tensor, trust: Tensor, gap_scale: Tensor) -> Tensor:
    """Shrink the differences between actions: ψ(s,π_z(s),z) + gap_scale · (A_∥ + trust · A_⊥).

    A = ψ(s,a,z) - ψ(s,π_z(s),z) is the difference from the policy's own action, A_∥ its part along z and A_⊥ the rest.
    Along z every action costs something, because π_z(s) is the best one there. Gains on w are across z, and with a
    trust of 1/4 they have to be four times the cost. If z·w ≤ 0, nothing of A serves w, and all of it counts as across.
    If that is so for every z in C, no policy is worth following, and ψ stays as it is.

    Args:
        psi: [..., N, A, D].
        w: [..., D].
        z: [..., N, D].
        own: [..., N], π_z(s).
        trust: [...], from 0 to 1.
        gap_scale: [...], by which all differences are multiplied.

    Returns: [..., N, A, D]; ψ itself, to the bit, if both factors are 1.
    """
    trust, gap_scale = trust[..., None, None, None], gap_scale[..., None, None, None]
    difference = psi - take_actions(psi, own)[..., None, :]
    serves = torch.einsum("...nd,...d->...n", z, w) > 0
    unit = z / z.square().sum(dim=-1, keepdim=True).sqrt().clamp(min=1e-6) * serves[..., None]
    along = torch.einsum("...nad,...nd->...na", difference, unit)[..., None] * unit[..., None, :]
    tempered = psi - (1 - gap_scale * trust) * difference + gap_scale * (1 - trust) * along
    return torch.where(serves.any(dim=-1)[..., None, None, None], tempered, psi)


def stake(psi: Tensor, w: Tensor) -> Tensor:
    """Σ_i |ψ_i w_i|, the sum of gains and losses of each policy: psi [..., N, D] and w [..., D] -> [..., N].

    Unlike the net value ψ·w it does not vanish where gains and losses cancel.
    """
    return torch.einsum("...nd,...d->...n", psi.abs(), w.abs())


def _per_policy(value: Tensor | float, q: Tensor) -> Tensor:
    """[..., N] or a number as [..., N, 1]."""
    return torch.as_tensor(value, dtype=q.dtype, device=q.device).expand(q.shape[:-1])[..., None]


def _take(x: Tensor, index: Tensor) -> Tensor:
    """x[..., index[...]], with a last axis of length 1."""
    return x.gather(-1, index[..., None])

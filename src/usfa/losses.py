"""Temporal-difference errors of many policies from one trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from usfa.functional import lambda_return, take_actions, watkins_lambda
from usfa.trajectory import Trajectory, is_seam

__all__ = ["LossSettings", "least_promising", "mean_of", "squared_along", "squared_td", "td_errors", "with_action_gap"]


class LossSettings(NamedTuple):
    """The settings of a loss, from `LearnerConfig`, which describes them."""

    lambda_: float
    along_z: float = 0.0
    action_gap: float = 0.0
    per_trajectory: bool = False  # a loss for each trajectory, [B], instead of their mean


def td_errors(
    psi: Tensor, targets: Tensor, greedy: Tensor, cumulant: Tensor, trajectory: Trajectory, lambda_: float
) -> Tensor:
    """G_{t-1}(z) - ψ(s_{t-1}, a_{t-1}, z) for every policy z: Eq. 5 with Watkins' Q(λ) in place of n steps.

    Successor features are the general case; a UVFA is D = 1 with the rewards φ·w as cumulant.

    Args:
        psi: [T+1, B, N, A, D], with gradient at the source states.
        targets: values to bootstrap from: the same without gradient, or those of a target network.
        greedy: [T+1, B, N], the action of each policy: argmax_b ψ(s,b,z)·z.
        cumulant: [T, B, 1 or N, D], whose discounted sum ψ predicts.
        trajectory: actions, discounts and episode starts.
        lambda_: λ; 0 gives one-step targets.

    Returns: [T, B, N, D], zero at seams.
    """
    seam = is_seam(trajectory)
    v_t = take_actions(targets[1:], greedy[1:])
    # The action at the last state is unknown, but λ_T has no effect.
    lambda_t = watkins_lambda(lambda_, _shift(trajectory.action), greedy[1:]) * ~_shift(seam)[..., None]
    target = lambda_return(cumulant, trajectory.discount[..., None, None], v_t, lambda_t[..., None])
    # Gather from all T+1 states and slice afterwards; slicing first would copy the gradient twice.
    action = torch.cat([trajectory.action, trajectory.action[-1:]])[..., None].expand(*greedy.shape)
    return (target - take_actions(psi, action)[:-1]) * ~seam[..., None, None]


def with_action_gap(cumulant: Tensor, targets: Tensor, greedy: Tensor, action: Tensor, share: float) -> Tensor:
    """Subtract a share of the action gap, ψ(s, π_z(s), z) - ψ(s, a, z), from the cumulant.

    This is advantage learning (Bellemare et al., AAAI 2016). Values of the policy's own actions stay correct. Those of
    others become V - (V - Q) / (1 - share): the best action is the same, and errors of the network change it less.

    Args:
        cumulant: [T, B, 1 or N, D].
        targets: [T+1, B, N, A, D], without gradient.
        greedy: [T+1, B, N], the action of each policy.
        action: [T, B], the action taken.
        share: from 0, which changes nothing, to below 1.

    Returns: [T, B, N, D], or the cumulant itself if the share is 0.
    """
    if not share:
        return cumulant
    taken = action[..., None].expand(*greedy[:-1].shape)
    return cumulant - share * (take_actions(targets[:-1], greedy[:-1]) - take_actions(targets[:-1], taken))


def least_promising(members: Sequence[Tensor], along: Tensor) -> Tensor:
    """For every action, the values of the member of an ensemble that promises least along `along`.

    The maximum over actions picks overestimated values, and bootstrapping adds them up; the minimum over members that
    err independently counters this (Fujimoto et al., ICML 2018).

    Args:
        members: values of each member, [T, B, N, A, D].
        along: [B, N, D], the direction in which values are compared.

    Returns: [T, B, N, A, D].
    """
    if len(members) == 1:
        return members[0]
    values, least = members[0], torch.einsum("tbnad,bnd->tbna", members[0], along)
    for other in members[1:]:  # argmin over a short leading axis takes far longer
        promised = torch.einsum("tbnad,bnd->tbna", other, along)
        lower = promised < least
        values, least = torch.where(lower[..., None], other, values), torch.where(lower, promised, least)
    return values


def _shift(x_tm1: Tensor) -> Tensor:
    """Shift values of source states to destination states; the last row is repeated."""
    return torch.cat([x_tm1[1:], x_tm1[-1:]])


def squared_td(errors: Tensor, per_trajectory: bool = False) -> Tensor:
    """½ Σ_D δ², the mean over T, B and N; with `per_trajectory`, over T and N only, [B]."""
    return 0.5 * _mean(errors.square().sum(dim=-1), per_trajectory)


def squared_along(errors: Tensor, z: Tensor, per_trajectory: bool = False) -> Tensor:
    """½ (δ·z/‖z‖)², the mean as in :func:`squared_td`: the part of the error that affects the actions of a policy.

    Args:
        errors: [T, B, N, D].
        z: [B, N, D]; the loss is 0 where z = 0.
        per_trajectory: return a loss for each trajectory, [B].
    """
    along = torch.einsum("tbnd,bnd->tbn", errors, torch.nn.functional.normalize(z, dim=-1))
    return 0.5 * _mean(along.square(), per_trajectory)


def _mean(values: Tensor, per_trajectory: bool) -> Tensor:
    """Mean of values [T, B, N], over all axes or, with `per_trajectory`, over T and N."""
    return values.mean(dim=(0, 2)) if per_trajectory else values.mean()


def mean_of(losses: Sequence[Tensor]) -> Tensor:
    """The mean over the members of an ensemble, of scalar losses or of losses for each trajectory."""
    return losses[0] if len(losses) == 1 else torch.stack(tuple(losses)).mean(dim=0)

"""Proposition 1: a bound on the distance of the GPI policy from the optimum, term by term and per z.

Where r = φ·w + e holds only approximately, there is a third term for e.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from usfa.functional.exact import TabularMDP, effective_horizon

__all__ = ["GpiBound", "dual_norm", "gpi_bound"]

Norm = Literal["1", "2", "inf"]
_DUAL: dict[Norm, Norm] = {"1": "inf", "2": "2", "inf": "1"}


def dual_norm(norm: Norm) -> Norm:
    """The norm ‖·‖_* with |x·y| ≤ ‖x‖ ‖y‖_*."""
    return _DUAL[norm]


@dataclass(frozen=True)
class GpiBound:
    """‖Q*_r - Q^π_r‖_∞ ≤ distance_term + approximation_term + reward_term, for a reward r = φ·w' + e."""

    delta_d: Tensor  # [..., N]  δ_d(z) = ‖w' - z‖_*
    delta_psi: Tensor  # [..., N]  δ_ψ(z) = max_{s,a} ‖ψ^{π_z} - ψ̃(s,a,z)‖
    distance_term: Tensor  # [...]     2H min_z ‖φ‖ δ_d(z)
    approximation_term: Tensor  # [...]     2H ‖w'‖_* max_z δ_ψ(z)
    printed_approximation_term: Tensor  # [...]  ‖w'‖_* max_z δ_ψ(z), as printed in the paper: not a bound
    delta_r: Tensor  # [...]     max_{s,a} |E[e | s,a]|, 0 where r = φ·w'
    reward_term: Tensor  # [...]     2H δ_r

    @property
    def total(self) -> Tensor:
        """The bound, with the factor on all terms (Barreto et al. 2017, Theorem 2)."""
        return self.distance_term + self.approximation_term + self.reward_term

    @property
    def printed(self) -> Tensor:
        """Proposition 1 as printed, with the factor on the first term only; false in general."""
        return self.distance_term + self.printed_approximation_term


def gpi_bound(
    mdp: TabularMDP,
    w: Tensor,
    z: Tensor,
    psi: Tensor,
    psi_tilde: Tensor,
    norm: Norm = "2",
    reward: Tensor | None = None,
) -> GpiBound:
    """The terms of Proposition 1 for the GPI policy over C on task w', and a term for rewards that φ cannot express.

    The factor 2/(1-γ) is generalised to 2H with the effective horizon H, which also covers episodes without discount
    (see docs/paper-to-code.md for the proof). ‖φ‖ is the largest norm of the features of any possible transition, and
    tasks are measured in the dual norm, so that |φ·(w'-z)| ≤ ‖φ‖ ‖w'-z‖_*.

    Args:
        mdp: the environment.
        w: [..., D], the tasks w'.
        z: [..., N, D], the candidate set C of each.
        psi: [..., N, S, A, D], exact successor features of the optimal policy of each z.
        psi_tilde: [..., N, S, A, D], the approximation that GPI acts on.
        norm: the norm of features; tasks are measured in its dual.
        reward: [..., S, A, S], the reward of each task, if φ·w' only approximates it.
    """
    factor = 2 * effective_horizon(mdp)
    order, dual = float(norm), float(dual_norm(norm))
    phi_norm = torch.linalg.vector_norm(mdp.possible_phi, ord=order, dim=-1).amax()
    delta_d = torch.linalg.vector_norm(w[..., None, :] - z, ord=dual, dim=-1)
    error = torch.linalg.vector_norm(psi - psi_tilde, ord=order, dim=-1)  # [..., N, S, A]
    delta_psi = error.masked_fill(~mdp.legal, 0.0).amax(dim=(-2, -1))
    printed = torch.linalg.vector_norm(w, ord=dual, dim=-1) * delta_psi.amax(dim=-1)
    delta_r = _reward_error(mdp, w, reward)
    distance = factor * phi_norm * delta_d.amin(dim=-1)
    return GpiBound(delta_d, delta_psi, distance, factor * printed, printed, delta_r, factor * delta_r)


def _reward_error(mdp: TabularMDP, w: Tensor, reward: Tensor | None) -> Tensor:
    """δ_r = max_{s,a} |E[r - φ·w | s,a]| over legal actions, [...]: values depend on expected rewards only."""
    if reward is None:
        return torch.zeros_like(w[..., 0])
    error = reward - torch.einsum("satd,...d->...sat", mdp.phi, w.to(mdp.phi))
    expected = torch.where(mdp.transition > 0, mdp.transition * error, 0.0).sum(dim=-1)
    return expected.masked_fill(~mdp.legal, 0.0).abs().amax(dim=(-2, -1))

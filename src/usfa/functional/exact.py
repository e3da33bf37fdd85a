"""Exact solutions of finite MDPs, the reference for learned agents.

Every solver is batched over leading axes of tasks or policies.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from usfa.errors import InputError
from usfa.functional.successor import gpi, mask_illegal

__all__ = [
    "TabularMDP",
    "effective_horizon",
    "gpi_policy",
    "optimal_policy",
    "optimal_return",
    "optimal_values",
    "policy_features",
    "policy_return",
    "policy_values",
    "successor_features",
]


@dataclass(frozen=True)
class TabularMDP:
    """An MDP without its reward: r_w(s,a,s') = φ(s,a,s')·w, Eq. 1. Termination is discount 0."""

    transition: Tensor  # [S, A, S]     p(s'|s,a)
    phi: Tensor  # [S, A, S, D]  φ(s,a,s')
    discount: Tensor  # [S, A, S]     γ, and 0 where s' ends the episode
    legal: Tensor  # [S, A]        which actions exist in a state
    start: Tensor  # [S]           distribution of the first state

    def __post_init__(self) -> None:
        if self.phi.ndim != 4:
            raise InputError(f"The MDP's phi has shape {tuple(self.phi.shape)}; expected [S, A, S, D].")
        states, actions, _, features = self.phi.shape
        expected = {
            "transition": (states, actions, states),
            "phi": (states, actions, states, features),
            "discount": (states, actions, states),
            "legal": (states, actions),
            "start": (states,),
        }
        for name, shape in expected.items():
            found = tuple(getattr(self, name).shape)
            if found != shape:
                raise InputError(f"The MDP's {name} has shape {found}; its phi asks for {shape}.")
        for name, total in {
            "transition": self.transition.sum(-1)[self.legal],
            "start": self.start.sum(),
        }.items():
            if not torch.allclose(total, torch.ones_like(total)):
                worst = total.flatten()[(total - 1).abs().argmax()]
                raise InputError(f"The MDP's {name} probabilities sum to {worst:g}, expected 1.")
        if min(self.transition.min(), self.start.min()) < 0 or self.discount.min() < 0 or self.discount.max() > 1:
            raise InputError("The MDP has a negative probability, or a discount outside of 0 to 1.")
        if not self.legal.any(dim=-1).all():
            raise InputError("The MDP has a state without a legal action; every state needs one.")

    @property
    def states(self) -> int:
        return self.phi.shape[0]

    @property
    def actions(self) -> int:
        return self.phi.shape[1]

    @property
    def features(self) -> int:
        return self.phi.shape[3]

    @property
    def expected_phi(self) -> Tensor:
        """E[φ | s,a], [S, A, D]."""
        return torch.einsum("sat,satd->sad", self.transition, self.phi)

    @property
    def continuation(self) -> Tensor:
        """γ(s,a,s') p(s'|s,a), [S, A, S]: the factor of the value of the next state."""
        return self.discount * self.transition

    @property
    def possible_phi(self) -> Tensor:
        """φ of every transition that can happen, [transitions, D]."""
        return self.phi[(self.transition > 0) & self.legal[:, :, None]]


def optimal_values(mdp: TabularMDP, w: Tensor, tolerance: float = 1e-12, sweeps: int = 10_000) -> Tensor:
    """Q*_w by value iteration, for every task at once: [..., D] -> [..., S, A], -inf where illegal.

    The greedy policy of the result is then evaluated exactly, and improved until it is stable: near γ = 1, the error of
    value iteration can be larger than the differences between actions.

    Raises InputError if no finite optimum exists (γ = 1 with a rewarding loop).
    """
    reward = torch.einsum("sad,...d->...sa", mdp.expected_phi, w.to(mdp.phi))
    return _best_values(mdp, mask_illegal(reward, mdp.legal), tolerance, sweeps)


def _best_values(mdp: TabularMDP, reward: Tensor, tolerance: float, sweeps: int) -> Tensor:
    """Optimal values for rewards [..., S, A]."""
    q, converged = _sweep(mdp, reward, tolerance, sweeps)
    finite = reward.masked_fill(~mdp.legal, 0.0)[..., None]
    for _ in range(mdp.states * mdp.actions + 1):
        policy = q.argmax(dim=-1)
        if not _ends(_under(mdp, policy)):
            break
        values = _solve(mdp, policy, finite).squeeze(-1)
        previous, q = q, reward + torch.einsum("sat,...t->...sa", mdp.continuation, values)
        gain = (q.amax(dim=-1) - previous.amax(dim=-1)).abs().amax()
        if gain <= tolerance * (1 + values.abs().amax()):
            return q
    if converged:
        return q
    raise InputError(
        f"Value iteration has not converged after {sweeps} sweeps; expected a discount below 1 or episodes that end."
    )


def _sweep(mdp: TabularMDP, reward: Tensor, tolerance: float, sweeps: int) -> tuple[Tensor, bool]:
    """Value iteration, and whether it converged."""
    values = torch.zeros_like(reward[..., 0])
    for _ in range(sweeps):
        q = reward + torch.einsum("sat,...t->...sa", mdp.continuation, values)
        previous, values = values, q.amax(dim=-1)
        if (values - previous).abs().amax() <= tolerance * (1 + values.abs().amax()):
            return q, True
    return q, False


def optimal_policy(mdp: TabularMDP, w: Tensor, margin: float = 1e-9) -> Tensor:
    """π_w(s): the lowest action whose Q*_w(s,a) is within `margin` of the best, relative to the largest |Q*_w|.

    The margin makes ties independent of rounding. [..., D] -> [..., S].
    """
    q = optimal_values(mdp, w)
    best = q.amax(dim=-1, keepdim=True)
    scale = q.masked_fill(~mdp.legal, 0.0).abs().amax(dim=(-2, -1), keepdim=True)
    return (q >= best - margin * scale).to(torch.int8).argmax(dim=-1)


def successor_features(mdp: TabularMDP, policy: Tensor) -> Tensor:
    """ψ^π by one linear solve, Eq. 2: ψ(s,a) = E[φ + γ ψ(s',π(s'))]; policies [..., S] -> [..., S, A, D]."""
    at_states = _solve(mdp, policy, mdp.expected_phi)
    return mdp.expected_phi + torch.einsum("sat,...td->...sad", mdp.continuation, at_states)


def policy_values(mdp: TabularMDP, policy: Tensor, w: Tensor) -> Tensor:
    """Q^π_w, computed directly, without ψ: policies [..., S] and tasks [..., D] -> [..., S, A]."""
    reward = torch.einsum("sad,...d->...sa", mdp.expected_phi, w.to(mdp.phi))[..., None]
    at_states = _solve(mdp, policy, reward)
    return (reward + torch.einsum("sat,...td->...sad", mdp.continuation, at_states)).squeeze(-1)


def policy_return(mdp: TabularMDP, policy: Tensor, w: Tensor) -> Tensor:
    """The exact return of policies [..., S] on tasks [..., D], from the start -> [...]."""
    q = policy_values(mdp, policy, w)
    chosen = torch.nn.functional.one_hot(policy, mdp.actions).to(q)
    return torch.einsum("...sa,...sa,s->...", q, chosen, mdp.start)


def policy_features(mdp: TabularMDP, policy: Tensor) -> Tensor:
    """The exact vector return E[Σ γ^t φ_t] of policies [..., S], from the start -> [..., D]."""
    return torch.einsum("...sd,s->...d", _solve(mdp, policy, mdp.expected_phi), mdp.start)


def optimal_return(mdp: TabularMDP, w: Tensor) -> Tensor:
    """The return of an optimal policy on tasks [..., D], from the start -> [...]."""
    return torch.einsum("...s,s->...", optimal_values(mdp, w).amax(dim=-1), mdp.start)


def _solve(mdp: TabularMDP, policy: Tensor, cumulant: Tensor) -> Tensor:
    """v = c_π + P_π v for the cumulants c [..., S, A, D] -> [..., S, D]."""
    if not mdp.legal[torch.arange(mdp.states), policy].all():
        raise InputError("The policy takes an action that is not legal in its state.")
    p_pi = _under(mdp, policy)
    chosen = torch.nn.functional.one_hot(policy, mdp.actions).to(cumulant)
    c_pi = torch.einsum("...sad,...sa->...sd", cumulant, chosen)
    if not _ends(p_pi):
        raise InputError(
            "The policy's value is not defined: without discount it never ends; expected a discount below 1."
        )
    return torch.linalg.solve(torch.eye(mdp.states).to(p_pi) - p_pi, c_pi)


def _under(mdp: TabularMDP, policy: Tensor) -> Tensor:
    """γ p(s'|s,π(s)) for policies [..., S] -> [..., S, S]."""
    return mdp.continuation[torch.arange(mdp.states), policy]


def _ends(p_pi: Tensor) -> bool:
    """Whether every state leads to termination or a discount below 1, so that I - P_π can be inverted.

    Checked on the graph: because of rounding, the solver would return values of about 1e16 for an endless loop.
    """
    fades = p_pi.sum(dim=-1) < 1 - 1e-12
    for _ in range(p_pi.shape[-1] - 1):
        fades |= torch.einsum("...st,...t->...s", p_pi, fades.to(p_pi)) > 0
    return bool(fades.all())


def gpi_policy(mdp: TabularMDP, psi: Tensor, w: Tensor) -> Tensor:
    """The GPI policy in every state from tables ψ [..., N, S, A, D] on task w [..., D] -> [..., S]."""
    per_state = psi.movedim(-4, -3)  # [..., S, N, A, D]
    return gpi(per_state, w[..., None, :].to(psi), mdp.legal).action


def effective_horizon(mdp: TabularMDP) -> float:
    """H: the largest expected discounted number of steps of any policy from any state.

    1/(1-γ) if nothing terminates, and finite for episodes without discount: the Trip MDP with two states has H = 2. It
    generalises 1/(1-γ) in the paper.
    """
    one_per_step = mask_illegal(torch.ones_like(mdp.expected_phi[..., 0]), mdp.legal)
    return float(_best_values(mdp, one_per_step, tolerance=1e-12, sweeps=10_000).max())

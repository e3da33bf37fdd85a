"""φ without rewards: Laplacian features, contrastive ones, and random ones.

All are functions of the next observation, scaled to a mean square of 1 on the data.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from usfa.errors import InputError
from usfa.phi.data import Transitions
from usfa.phi.learners import NetworkLearner, Progress, descend, part_of, tensors_of
from usfa.phi.model import NetworkPhi, latest

__all__ = ["Contrastive", "Laplacian", "RandomFeatures"]


@dataclass(frozen=True)
class _Unsupervised(NetworkLearner):
    supervised = False

    def fit(self, data: Transitions, features: int, seed: int, progress: Progress) -> NetworkPhi:
        model = self.make_network(data, features, "next", seed)
        self._learn(model, data, seed, progress)
        model.project(_whitening(model, data))
        return model

    @abstractmethod
    def _learn(self, model: NetworkPhi, data: Transitions, seed: int, progress: Progress) -> None: ...


@dataclass(frozen=True)
class RandomFeatures(_Unsupervised):
    """Outputs of a network with random weights: a baseline."""

    def _learn(self, model: NetworkPhi, data: Transitions, seed: int, progress: Progress) -> None:
        progress.update(1.0)


@dataclass(frozen=True)
class Laplacian(_Unsupervised):
    """Smallest eigenfunctions of the graph Laplacian of the transitions (Wu, Tucker, Nachum 2019).

    Minimises E‖φ(s) − φ(s′)‖² + β (Σ_ij (E[φ_i φ_j] − δ_ij)²), whose second part keeps features orthonormal: nearby
    states have similar φ, distant ones do not.
    """

    orthonormal: float = 1.0
    """β."""

    def _learn(self, model: NetworkPhi, data: Transitions, seed: int, progress: Progress) -> None:
        eye = torch.eye(model.spec.features)

        def loss_of(rows: Tensor) -> Tensor:
            before, _, after, _ = part_of(data, rows)
            source, destination = model.of_state(before), model.of_state(latest(model.spec, before, after))
            near = ((source - destination) ** 2).sum(dim=1).mean()
            first, second = destination.chunk(2)  # two independent estimates, so that their product is unbiased
            size = min(len(first), len(second))
            gram, other = (x[:size].T @ x[:size] / size - eye for x in (first, second))
            return near + self.orthonormal * (gram * other).sum()

        descend(model, loss_of, data.weight, self, seed, progress)


@dataclass(frozen=True)
class Contrastive(_Unsupervised):
    """Contrastive features of the successor measure (InfoNCE; Eysenbach et al. 2022, Touati et al. 2023).

    φ(s)·φ(s″) is trained to distinguish a later state s″ of the same episode, a geometric number of steps ahead, from
    later states of other transitions. Its optimum is the logarithm of how much more often s leads to s″ than chance.
    """

    gamma: float = 0.9
    """The number of steps to the later state has probability ∝ γ^n."""

    def _learn(self, model: NetworkPhi, data: Transitions, seed: int, progress: Progress) -> None:
        if not (data.weight == data.weight[0]).all():
            raise InputError(
                "The data has weights, so transitions of its episodes were left out and the steps between them are not "
                "known; expected all transitions, as learn-features collects them."
            )
        later = _later(data, self.gamma, seed)

        def loss_of(rows: Tensor) -> Tensor:
            before, *_ = part_of(data, rows)
            ahead, _, after, _ = part_of(data, later[rows])
            source, target = model.of_state(before), model.of_state(latest(model.spec, ahead, after))
            logits = torch.nn.functional.normalize(source) @ torch.nn.functional.normalize(target).T / 0.1
            return torch.nn.functional.cross_entropy(logits, torch.arange(len(rows)))

        descend(model, loss_of, data.weight, self, seed, progress)


def _later(data: Transitions, gamma: float, seed: int) -> Tensor:
    """For each transition, the index of a later one of its episode; the rows of an episode must be in order."""
    order = np.argsort(data.episode, kind="stable")
    sorted_episode = data.episode[order]
    last = np.searchsorted(sorted_episode, sorted_episode, side="right") - 1
    ahead = np.random.default_rng([seed, 13]).geometric(1 - gamma, size=len(order)) - 1
    later = np.empty(len(order), np.int64)
    later[order] = order[np.minimum(np.arange(len(order)) + ahead, last)]
    return torch.from_numpy(later)


@torch.no_grad()
def _whitening(model: NetworkPhi, data: Transitions) -> Tensor:
    """A map [D, D] that makes features uncorrelated with a mean square of 1, or 0 if they span fewer directions."""
    rows = np.random.default_rng(0).permutation(len(data))[:10_000]
    part = data.rows(rows)
    phi, weight = model(*tensors_of(part)).double(), torch.from_numpy(part.weight).double()[:, None]
    values, vectors = torch.linalg.eigh(phi.T @ (weight * phi) / weight.sum())
    scale = torch.where(values > 1e-9 * values.max(), values.clamp(min=1e-30) ** -0.5, 0.0)
    return (vectors * scale).flip(1).float()

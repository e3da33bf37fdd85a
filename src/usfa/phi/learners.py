"""Learners of φ from transitions with rewards: exact, by least squares, and by a network with linear heads."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.environments import ObservationSpec
from usfa.errors import Diverged, InputError
from usfa.networks import Precision, autocast, convolutions_for
from usfa.phi.data import Transitions
from usfa.phi.model import LinearPhi, NetworkPhi, PhiModel, PhiSpec, RewardsPhi, cell_of
from usfa.records import settle

__all__ = [
    "LeastSquares",
    "NetworkFit",
    "NetworkLearner",
    "NoProgress",
    "PhiLearner",
    "Progress",
    "RewardsThemselves",
    "default_learner",
    "descend",
    "part_of",
    "tensors_of",
]


class Progress(Protocol):
    """Reports a learner's progress, and stores the state to resume from."""

    def load(self) -> tuple[int, dict[str, Tensor]] | None:
        """The step and the tensors of the last :meth:`save`; None at the start."""
        ...

    def save(self, step: int, tensors: dict[str, Tensor]) -> None: ...

    def update(self, share: float, note: str = "") -> None:
        """Report the share that is done, 0 to 1."""
        ...


class NoProgress:
    """Reports nothing and keeps nothing."""

    def load(self) -> None:
        return None

    def save(self, step: int, tensors: dict[str, Tensor]) -> None:
        pass

    def update(self, share: float, note: str = "") -> None:
        pass


class PhiLearner(ABC):
    """Learns φ. Derive your own learners from this class, as dataclasses, so that they can be saved as text.

    A supervised learner returns a model with K outputs that predict the K rewards; the directions of φ are then chosen
    among these (see :func:`usfa.phi.learn_phi`). An unsupervised one returns a model of `features` outputs.
    """

    supervised: bool = True

    def check(self, observation: ObservationSpec, actions: int) -> None:  # noqa: B027
        """Raise InputError if φ of such an environment cannot be learned; called before data are collected."""

    @abstractmethod
    def fit(self, data: Transitions, features: int, seed: int, progress: Progress) -> PhiModel:
        """Fit a model to transitions.

        Args:
            data: transitions, without the held-out ones.
            features: K for supervised learners, D for unsupervised ones.
            seed: for everything random.
            progress: to report to, and to resume from.
        """


def tensors_of(data: Transitions) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Arguments of :meth:`PhiModel.forward`."""
    arrays = (data.observation, data.action, data.next_observation, data.rewards)
    observation, action, after, rewards = (torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)
    return observation, action, after, rewards


@dataclass(frozen=True)
class RewardsThemselves(PhiLearner):
    """φ = the rewards: exact, for environments that give all of them at every step."""

    def fit(self, data: Transitions, features: int, seed: int, progress: Progress) -> RewardsPhi:
        return RewardsPhi(PhiSpec(data.spec, data.actions, features, data.history), data.names)


@dataclass(frozen=True)
class LeastSquares(PhiLearner):
    """Least squares on rich features; φ is the part of them that the rewards depend on."""

    rich: str = "auto"
    """table: one feature for every (s, a, s′); linear: the entries of s and s′ for each action; module:function; auto:
    table if there are few states, otherwise linear."""
    ridge: float = 1e-6
    """Strength of the regularisation, relative to the mean square of the rich features."""

    def __post_init__(self) -> None:
        settle(self)

    def fit(self, data: Transitions, features: int, seed: int, progress: Progress) -> LinearPhi:
        spec = PhiSpec(data.spec, data.actions, features, data.history)
        rich = ("table" if spec.is_table else "linear") if self.rich == "auto" else self.rich
        if rich == "table" and not spec.is_table:
            raise InputError("rich is 'table', but there are too many states for one; expected 'linear'.")
        if rich not in ("table", "linear") and ":" not in rich:
            raise InputError(f"rich is {rich!r}; expected 'auto', 'table', 'linear' or 'module:function'.")
        return _table(spec, data) if rich == "table" else self._linear(spec, data, rich)

    def _linear(self, spec: PhiSpec, data: Transitions, rich: str) -> LinearPhi:
        grams: list[Tensor] = []  # of the rich features, for each reward
        moments: list[Tensor] = []  # of the rich features and the reward
        for part in _parts(data):
            observation, action, after, _ = tensors_of(part)
            inputs = LinearPhi(spec, rich).rich_features(observation, action, after).double()
            for index in range(len(data.names)):
                root = torch.from_numpy(np.sqrt(part.weight) * part.seen[:, index]).double()[:, None]
                own = inputs * root
                target = torch.from_numpy(part.rewards[:, index]).double()[:, None] * root
                _accumulate(grams, index, own.T @ own)
                _accumulate(moments, index, own.T @ target)
        model = LinearPhi(spec, rich, len(grams[0]))
        for index, (gram, moment) in enumerate(zip(grams, moments, strict=True)):
            ridge = self.ridge * gram.diagonal().mean().clamp(min=1e-12) * torch.eye(len(gram)).double()
            model.weight[:, index] = torch.linalg.solve(gram + ridge, moment)[:, 0].float()
        return model


_ROWS = 1 << 16  # transitions that are in memory at once


def _parts(data: Transitions) -> Iterator[Transitions]:
    """The data in parts that fit into memory."""
    for begin in range(0, len(data), _ROWS):
        yield data.rows(np.arange(begin, min(begin + _ROWS, len(data))))


def _accumulate(sums: list[Tensor], index: int, value: Tensor) -> None:
    if index == len(sums):
        sums.append(value)
    else:
        sums[index] += value


def _table(spec: PhiSpec, data: Transitions) -> LinearPhi:
    """The weighted mean reward of every cell (s, a, s′); cells without data get the mean of all data."""
    cells = spec.observation.shape[0] ** 2 * spec.actions
    model = LinearPhi(spec, "table", cells)
    total, count = torch.zeros(2, cells, len(data.names))
    for part in _parts(data):
        observation, action, after, rewards = tensors_of(part)
        index = cell_of(spec, observation, action, after)
        weight = torch.from_numpy(part.weight)[:, None] * torch.from_numpy(part.seen)
        total.index_add_(0, index, weight * rewards.nan_to_num())
        count.index_add_(0, index, weight)
    mean = total.sum(dim=0) / count.sum(dim=0)
    model.weight.copy_(torch.where(count > 0, total / count.clamp(min=1e-12), mean))
    return model


@dataclass(frozen=True)
class NetworkLearner(PhiLearner):
    """Settings of learners that train a network."""

    hidden: tuple[int, ...] = (256,)
    """Widths of the dense layers."""
    convolutions: tuple[tuple[int, int, int], ...] = ()
    """(channels, kernel, stride) of each layer, for images; by default chosen for their size."""
    steps: int = 2000
    """Number of updates."""
    batch: int = 256
    """Transitions per update."""
    learning_rate: float = 1e-3
    """Largest learning rate: it rises over the first tenth, then falls to 0."""

    def __post_init__(self) -> None:
        settle(self)
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least 1.")

    def make_network(self, data: Transitions, features: int, of: str, seed: int) -> NetworkPhi:
        """A network with random weights, whose inputs are scaled to the data."""
        layers = self.convolutions or (convolutions_for(min(data.spec.shape[:2])) if data.spec.is_image else ())
        spec = PhiSpec(data.spec, data.actions, features, data.history)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = NetworkPhi(spec, self.hidden, layers, of)
        if not data.spec.is_image:
            model.fit_inputs(torch.from_numpy(np.asarray(data.with_latest_only().observation)))
        return model


@dataclass(frozen=True)
class NetworkFit(NetworkLearner):
    """A network with a linear head for each reward, on vectors or pixels."""

    steps: int = 3000
    """Number of updates."""
    learning_rate: float = 2e-3
    """Largest learning rate: it rises over the first tenth, then falls to 0."""
    precision: Precision = "fp32"
    """Precision of convolutions and matrix products while φ is learned; bf16 is faster on processors that have it."""
    mirrored_actions: tuple[int, ...] = ()
    """For images of environments with left-right symmetry: the index of each action's mirror image. If set, half of the
    transitions in each update are flipped horizontally."""

    def __post_init__(self) -> None:
        super().__post_init__()
        mirrored = self.mirrored_actions
        actions = len(mirrored)
        if any(not 0 <= a < actions for a in mirrored) or any(mirrored[mirrored[a]] != a for a in range(actions)):
            raise InputError(
                f"mirrored_actions is {mirrored}; expected the mirrored action of each action, a permutation that is "
                "its own inverse."
            )

    def check(self, observation: ObservationSpec, actions: int) -> None:
        mirrored = self.mirrored_actions
        if mirrored and not observation.is_image:
            raise InputError(f"mirrored_actions is {mirrored}, but observations are vectors; expected ().")
        if mirrored and len(mirrored) != actions:
            raise InputError(
                f"mirrored_actions is {mirrored}; expected the mirrored action of each of the {actions} actions."
            )

    def fit(self, data: Transitions, features: int, seed: int, progress: Progress) -> NetworkPhi:
        self.check(data.spec, data.actions)
        model = self.make_network(data, features, "transition", seed)
        mean, scale = _moments(data)
        targets = torch.from_numpy((np.where(data.seen, data.rewards, 0.0) - mean) / scale).float()
        chance = _chances(data)
        weight = data.weight / data.weight.mean() / chance
        weights = torch.from_numpy(weight.astype(np.float32))[:, None] * torch.from_numpy(data.seen)

        def loss_of(rows: Tensor) -> Tensor:
            observation, action, after, rewards = part_of(data, rows)
            if self.mirrored_actions:
                observation, action, after = half_mirrored(observation, action, after, self.mirrored_actions)
            with autocast(torch.device("cpu"), self.precision):
                predicted = model(observation, action, after, rewards).float()
            return (weights[rows] * (predicted - targets[rows]) ** 2).mean()

        descend(model, loss_of, chance, self, seed, progress)
        with torch.no_grad():  # predict rewards in their own units
            model.output.weight *= torch.from_numpy(scale).float()[:, None]
            model.output.bias.copy_(model.output.bias * torch.from_numpy(scale) + torch.from_numpy(mean))
        return model


def half_mirrored(
    observation: Tensor, action: Tensor, after: Tensor, mirrored: tuple[int, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """Mirror the first half of the transitions; rows are in random order."""
    half = len(action) // 2
    actions = torch.tensor([*mirrored, -1])  # -1, before an episode, stays

    def half_flipped(images: Tensor) -> Tensor:
        return torch.cat([images[:half].flip(2), images[half:]])

    return half_flipped(observation), torch.cat([actions[action[:half]], action[half:]]), half_flipped(after)


def _chances(data: Transitions) -> NDArray[np.float64]:
    """Relative probability of each row in an update, [N]: on average at least a fifth of the rows have a rare reward,
    if there are any.
    """
    rare = data.rare
    share = rare.mean()
    if data.is_thinned or not 0 < share < _RARE:
        return np.ones(len(data))
    return np.where(rare, _RARE / share, (1 - _RARE) / (1 - share))


_RARE = 0.2  # least share of transitions with a rare reward in an update


def _moments(data: Transitions) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], ...]:
    """Weighted mean and standard deviation of each reward, [K]."""
    weight = data.weight[:, None] * data.seen
    total = weight.sum(axis=0)
    rewards = np.where(data.seen, data.rewards, 0.0).astype(np.float64)
    mean = (weight * rewards).sum(axis=0) / total
    deviation = np.sqrt((weight * (rewards - mean) ** 2 * data.seen).sum(axis=0) / total)
    return mean, np.where(deviation > 0, deviation, 1.0)


def default_learner(spec: PhiSpec) -> PhiLearner:
    """Least squares for tables, a network for everything else."""
    if spec.is_table:
        return LeastSquares()
    return NetworkFit((1024, 512, 256), steps=20_000) if spec.observation.is_image else NetworkFit()


# --- networks ---


def part_of(data: Transitions, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Arguments of :meth:`PhiModel.forward` for some transitions."""
    return tensors_of(data.rows(rows.numpy()))


_SAVE_EVERY = 500  # updates


def descend(
    model: PhiModel,
    loss_of: Callable[[Tensor], Tensor],
    weight: NDArray[Any],
    learner: NetworkLearner,
    seed: int,
    progress: Progress,
) -> None:
    """Minimise a loss over rows of the data by Adam, resumable to the bit.

    Args:
        model: its parameters are changed in place.
        loss_of: loss of some rows.
        weight: relative probability of each row, [N].
        learner: number and size of updates, and the learning rate.
        seed: for drawing rows.
        progress: to report to, and to resume from.
    """
    steps, size = learner.steps, min(learner.batch, len(weight))
    bounds = None if (weight == weight[0]).all() else weight.cumsum(dtype=np.float64)
    optimizer = torch.optim.Adam(model.parameters(), learner.learning_rate)
    saved = progress.load()
    begin = 0 if saved is None else _restore(model, optimizer, *saved)
    for step in range(begin, steps):
        for group in optimizer.param_groups:
            group["lr"] = learner.learning_rate * _schedule(step / steps)
        rng = np.random.default_rng([seed, 11, step])
        rows = (
            rng.integers(len(weight), size=size)
            if bounds is None
            else bounds.searchsorted(rng.random(size) * bounds[-1], side="right")
        )
        loss = loss_of(torch.from_numpy(rows))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not bool(loss.isfinite()):
            raise Diverged(f"The loss of φ is {float(loss.detach())} after {step} updates; try a lower learning_rate.")
        if (step + 1) % _SAVE_EVERY == 0 and step + 1 < steps:
            progress.save(step + 1, dict(_state(model, optimizer)))
        progress.update((step + 1) / steps, f"loss {float(loss.detach()):.3g}")


def _schedule(share: float) -> float:
    """Factor of the learning rate after a share of the updates."""
    return share / 0.1 if share < 0.1 else 0.5 * (1 + math.cos(math.pi * (share - 0.1) / 0.9))


def _state(model: PhiModel, optimizer: torch.optim.Adam) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in model.state_dict().items():
        yield f"model.{name}", tensor
    for index, state in optimizer.state_dict()["state"].items():
        for name, tensor in state.items():
            yield f"adam.{index}.{name}", tensor


def _restore(model: PhiModel, optimizer: torch.optim.Adam, step: int, tensors: dict[str, Tensor]) -> int:
    own = {name.removeprefix("model."): x for name, x in tensors.items() if name.startswith("model.")}
    if {name: x.shape for name, x in own.items()} != {name: x.shape for name, x in model.state_dict().items()}:
        raise InputError("The run was begun with another network of φ; expected the version of usfa that began it.")
    model.load_state_dict(own)
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("adam."):
            _, index, name = key.split(".")
            state.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return step

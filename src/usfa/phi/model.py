"""Models of φ(s, a, s′): the rewards themselves, a linear map of rich features, and a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from usfa.environments import ObservationSpec, check_history, runs_code
from usfa.errors import InputError, told
from usfa.networks import MNIH_2015, Convolutions, mlp
from usfa.registry import Registry, imported

__all__ = [
    "LARGEST_TABLE",
    "PHI_MODELS",
    "LinearPhi",
    "NetworkPhi",
    "PhiModel",
    "PhiSpec",
    "RewardsPhi",
    "cell_of",
    "latest",
]

LARGEST_TABLE = 1_000_000
"""Largest number of cells (s, a, s′) of a table."""


@dataclass(frozen=True)
class PhiSpec:
    """Sizes that a model of φ is made for."""

    observation: ObservationSpec
    actions: int
    features: int
    history: int = 1  # H, the number of observations before the next one

    def __post_init__(self) -> None:
        check_history(self.history)

    def with_features(self, features: int) -> PhiSpec:
        """The same sizes with another number of features."""
        return replace(self, features=features)

    @property
    def is_table(self) -> bool:
        """Whether observations are states of a small table, encoded one-hot."""
        observation = self.observation
        one_hot = bool(observation.states) or observation.joint or len(observation.counts) == 1
        return one_hot and self.history == 1 and observation.shape[0] ** 2 * self.actions <= LARGEST_TABLE


class PhiModel(nn.Module, ABC):
    """φ(s, a, s′) with parameters. Derive your own models from this class.

    The constructor takes a :class:`PhiSpec` and keyword arguments that fit into JSON, which `settings` returns. The
    rest of the model is in its parameters and buffers.
    """

    rewards: tuple[str, ...] = ()
    """Rewards of the environment that φ is computed from; none for models of the transition."""

    def __init__(self, spec: PhiSpec) -> None:
        super().__init__()
        self.spec = spec

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments of the constructor."""
        return {}

    @classmethod
    def functions_in(cls, settings: Mapping[str, Any]) -> list[str]:
        """Texts in `settings`, perhaps from an untrusted file, that may make a model import modules."""
        return [text for text in _texts_in(settings) if ":" in text]

    @abstractmethod
    def forward(self, observation: Tensor, action: Tensor, next_observation: Tensor, rewards: Tensor) -> Tensor:
        """φ [N, D] of N transitions.

        Args:
            observation: s, encoded, [N, ..., C]; with a history the last H, newest last, [N, ..., H · C].
            action: a, [N]; with a history the last H, [N, H], -1 before the episode.
            next_observation: s′, encoded, [N, ..., C].
            rewards: [N, K], only if :attr:`rewards` names any.
        """

    def project(self, mix: Tensor) -> None:
        """Replace φ by φ·mix, for mix [D, D′], and update :attr:`spec`; required for supervised learners."""
        raise InputError(f"{type(self).__name__} cannot change its features; expected a method project.")


def latest(spec: PhiSpec, observation: Tensor, next_observation: Tensor) -> Tensor:
    """The last H observations at s′: those at s without the oldest, and s′; [N, ..., H · C]."""
    if spec.history == 1:
        return next_observation
    return torch.cat([observation[..., spec.observation.shape[-1] :], next_observation], dim=-1)


class RewardsPhi(PhiModel):
    """φ = (r_1, …, r_K)·mix: the rewards themselves, or fewer directions that span them."""

    mix: Tensor

    def __init__(self, spec: PhiSpec, rewards: tuple[str, ...] = ()) -> None:
        super().__init__(spec)
        self.rewards = _reward_names(rewards)
        self.register_buffer("mix", torch.eye(len(self.rewards), spec.features))

    @classmethod
    def functions_in(cls, settings: Mapping[str, Any]) -> list[str]:
        rest = {name: value for name, value in settings.items() if name != "rewards"}
        names = _reward_names(settings.get("rewards", ()))
        return [*(text for text in names if runs_code(text)), *super().functions_in(rest)]

    @property
    def settings(self) -> dict[str, Any]:
        return {"rewards": list(self.rewards)}

    def forward(self, observation: Tensor, action: Tensor, next_observation: Tensor, rewards: Tensor) -> Tensor:
        return rewards @ self.mix

    def project(self, mix: Tensor) -> None:
        self.mix, self.spec = self.mix @ mix, self.spec.with_features(mix.shape[1])


def _reward_names(rewards: object) -> tuple[str, ...]:
    if not isinstance(rewards, list | tuple) or not all(isinstance(text, str) for text in rewards):
        raise InputError(f"The rewards of φ are {rewards!r}; expected a list of texts.")
    return tuple(rewards)


def _texts_in(value: object) -> Iterator[str]:
    """All texts in nested lists and mappings, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts_in(list(value.keys()))
        yield from _texts_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts_in(part)


class LinearPhi(PhiModel):
    """φ = rich(s, a, s′)·weight, where the rich features are given.

    Args:
        spec: sizes.
        rich: "table", one feature for every (s, a, s′); "linear", the entries of s and s′ and a constant for each
            action; or module:function, a function of arrays s [N, ...], a [N] and s′ that returns [N, F].
        inputs: F, the number of rich features.
    """

    weight: Tensor

    def __init__(self, spec: PhiSpec, rich: str = "linear", inputs: int = 0) -> None:
        super().__init__(spec)
        self.rich, self.inputs = rich, inputs
        self._function: Callable[..., Any] | None = imported(rich, "rich features") if ":" in rich else None
        self.register_buffer("weight", torch.zeros(inputs, spec.features))

    @property
    def settings(self) -> dict[str, Any]:
        return {"rich": self.rich, "inputs": self.inputs}

    def forward(self, observation: Tensor, action: Tensor, next_observation: Tensor, rewards: Tensor) -> Tensor:
        if self.rich == "table":
            return self.weight[cell_of(self.spec, observation, action, next_observation)]
        return self.rich_features(observation, action, next_observation) @ self.weight

    def rich_features(self, observation: Tensor, action: Tensor, next_observation: Tensor) -> Tensor:
        """[N, F], except for tables."""
        if self._function is None:
            ones = torch.ones(len(action), 1)
            inputs = torch.cat([ones, observation.flatten(1).float(), next_observation.flatten(1).float()], dim=1)
            last = action if self.spec.history == 1 else action[:, -1]
            chosen = nn.functional.one_hot(last, self.spec.actions).float()
            return torch.einsum("na,nf->naf", chosen, inputs).flatten(1)
        try:
            found = self._function(observation.numpy(), action.numpy(), next_observation.numpy())
            values = torch.from_numpy(np.array(found, np.float32))
        except Exception as error:  # the function is the user's code and may raise anything
            raise InputError(f"The rich features {self.rich!r} failed: {told(error)}.") from error
        if values.ndim != 2 or len(values) != len(action) or not values.isfinite().all():
            raise InputError(
                f"The rich features {self.rich!r} have shape {tuple(values.shape)}; expected ({len(action)}, F), "
                "finite numbers."
            )
        return values

    def project(self, mix: Tensor) -> None:
        self.weight, self.spec = self.weight @ mix, self.spec.with_features(mix.shape[1])


def cell_of(spec: PhiSpec, observation: Tensor, action: Tensor, next_observation: Tensor) -> Tensor:
    """Index [N] of the cell (s, a, s′) of a table."""
    states = spec.observation.shape[0]
    return (observation.argmax(dim=1) * spec.actions + action) * states + next_observation.argmax(dim=1)


class NetworkPhi(PhiModel):
    """φ computed by a network: convolutions on images, dense layers on vectors, then a linear layer.

    Args:
        spec: sizes.
        hidden: widths of the dense layers.
        convolutions: (channels, kernel, stride) of each layer, for images.
        of: "transition" for φ(s, a, s′), "next" for φ(s′).
    """

    centre: Tensor
    scale: Tensor

    def __init__(
        self,
        spec: PhiSpec,
        hidden: tuple[int, ...] = (256,),
        convolutions: tuple[tuple[int, int, int], ...] = MNIH_2015,
        of: str = "transition",
    ) -> None:
        super().__init__(spec)
        if of not in ("transition", "next"):
            raise InputError(f"of is {of!r}; expected 'transition' or 'next'.")
        self.hidden, self.of = tuple(hidden), of
        self.layers_of_images = tuple(tuple(layer) for layer in convolutions) if spec.observation.is_image else ()
        pair = of == "transition"
        shape, seen = spec.observation.shape, spec.history
        if spec.observation.is_image:
            *size, channels = shape
            self.convolutions = Convolutions(self.layers_of_images, (*size, channels * (seen + pair)))  # type: ignore[arg-type]
            inputs = self.convolutions.features
        else:
            inputs = shape[0] * (seen + 2 * pair)
        inputs += seen * spec.actions * pair
        self.layers = mlp([inputs, *self.hidden])
        width = self.hidden[-1] if self.hidden else inputs
        self.output = nn.Linear(width, spec.features)
        vector = 1 if spec.observation.is_image else shape[0]
        self.register_buffer("centre", torch.zeros(vector))
        self.register_buffer("scale", torch.ones(vector))

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "hidden": list(self.hidden),
            "convolutions": [list(layer) for layer in self.layers_of_images],
            "of": self.of,
        }

    def forward(self, observation: Tensor, action: Tensor, next_observation: Tensor, rewards: Tensor) -> Tensor:
        if self.of == "next":
            return self.of_state(latest(self.spec, observation, next_observation))
        chosen = (action.reshape(len(action), -1, 1) == torch.arange(self.spec.actions)).flatten(1).float()
        if self.spec.observation.is_image:
            inputs = self.convolutions(torch.cat([observation, next_observation], dim=-1))
        else:
            before, after = self._scaled(observation), self._scaled(next_observation)
            inputs = torch.cat([before, after, after - before[:, -after.shape[1] :]], dim=-1)
        return self._outputs(torch.cat([inputs, chosen], dim=-1))

    def of_state(self, observation: Tensor) -> Tensor:
        """φ(s) [N, D] of the last H observations [N, ..., H · C]; only for models of "next"."""
        return self._outputs(
            self.convolutions(observation) if self.spec.observation.is_image else self._scaled(observation)
        )

    def _outputs(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.relu_(layer(x))
        phi: Tensor = self.output(x)
        return phi

    def _scaled(self, observation: Tensor) -> Tensor:
        """Centre and scale vectors [N, F], or several of them concatenated."""
        count = observation.shape[1] // len(self.centre)
        return (observation - self.centre.repeat(count)) / self.scale.repeat(count)

    @torch.no_grad()
    def fit_inputs(self, observation: Tensor) -> None:
        """Set centre and scale of the inputs from observations, [N, H · F]; for images they are fixed."""
        if self.spec.observation.is_image:
            return
        observation = observation[:, -len(self.centre) :]
        amounts = torch.from_numpy(self.spec.observation.amounts)
        deviation = observation.std(dim=0, correction=0)
        self.centre.copy_(torch.where(amounts, observation.mean(dim=0), 0.0))
        self.scale.copy_(torch.where(amounts & (deviation > 1e-6), deviation, 1.0))

    @torch.no_grad()
    def project(self, mix: Tensor) -> None:
        projected = nn.utils.skip_init(nn.Linear, self.output.in_features, mix.shape[1])  # draws no random numbers
        projected.weight.copy_(mix.T @ self.output.weight)
        projected.bias.copy_(mix.T @ self.output.bias)
        self.output, self.spec = projected, self.spec.with_features(mix.shape[1])


PHI_MODELS: Registry[PhiModel] = Registry(
    "model of φ", PhiModel, {"rewards": RewardsPhi, "linear": LinearPhi, "network": NetworkPhi}
)
"""Models of φ by name, for saved files."""

"""Environments as the playground uses them: acted in by a player, drawn by the page. The room is in `room_view`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from usfa.environments import Environment, ObservationSpec, TabularEnv, Trip, action_count, feature_names
from usfa.environments.batch import close_environment, failing_in
from usfa.environments.room import RoomRules
from usfa.errors import InputError
from usfa.functional import optimal_return
from usfa.playground.outbox import Pixels, shrunk
from usfa.playground.protocol import FeatureInfo, PresetGroup
from usfa.tasks import format_task, task_set

__all__ = ["EnvironmentView", "MdpView", "RenderedView", "StepResult", "ViewKind", "feature_infos", "preset_group"]

ViewKind = Literal["room", "mdp", "picture"]
# Okabe and Ito's palette, as in the figures.
_PALETTE = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A7A7A", "#B8A800")


class StepResult(NamedTuple):
    """The features of a step, and whether it ended the episode."""

    phi: NDArray[np.float64]  # [D]
    over: bool


class EnvironmentView(ABC):
    """One environment, with everything that the page draws of it."""

    kind: ViewKind
    smooth = False  # whether it can be drawn between two decisions
    rate: float  # decisions per second at speed 1
    rating_steps: int  # number of steps that a rating "good" or "bad" covers
    rules: RoomRules | None = None  # of a room, for its oracle
    features: list[FeatureInfo]
    actions: list[str]
    presets: list[PresetGroup]
    observation: NDArray[Any]  # encoded for the agent
    legal: NDArray[np.bool_]  # [A]

    @abstractmethod
    def reset(self, seed: int) -> None: ...

    @abstractmethod
    def step(self, action: int) -> StepResult: ...

    @abstractmethod
    def close(self) -> None: ...

    def plan(self) -> dict[str, Any]:
        """Fixed part of the map, JSON-ready; empty without a map."""
        return {}

    def position(self, share: float = 1.0) -> dict[str, Any] | None:
        """Moving part of the map; `share` interpolates from the previous step (0) to the current state (1)."""
        return None

    def picture(self, size: int, share: float = 1.0) -> Pixels | None:
        """Picture for people, at most `size` pixels wide and high; `share` as in :meth:`position`."""
        return None

    def observation_picture(self) -> Pixels | None:
        """The observation in its own pixels; None if it is no picture."""
        return None

    def optimum(self, w: NDArray[np.float64]) -> float | None:
        """Largest possible return of an episode; None if unknown."""
        return None


class MdpView(EnvironmentView):
    """A finite MDP: the page draws its graph, the current state and the path to it."""

    kind: ViewKind = "mdp"
    rate = 1.5
    rating_steps = 2

    def __init__(self, env: TabularEnv) -> None:
        self._env = env
        self.features = feature_infos(feature_names(env))
        self.presets = _trip_presets() if isinstance(env, Trip) else []
        self.actions = list(env.action_names)
        self._spec = ObservationSpec.of(env.observation_space)
        self.reset(0)

    def reset(self, seed: int) -> None:
        state, info = self._env.reset(seed=seed)
        self._trail: list[tuple[int, int]] = []  # state and action of each step
        self._update(int(state), info)

    def step(self, action: int) -> StepResult:
        self._trail.append((self._state, action))
        state, phi, terminated, truncated, info = self._env.step(action)
        self._update(int(state), info)
        return StepResult(np.array(phi, np.float64), terminated or truncated)

    def _update(self, state: int, info: dict[str, Any]) -> None:
        self._state = state
        self.observation = self._spec.encode(state)
        self.legal = np.array(info["action_mask"], np.bool_)

    def plan(self) -> dict[str, Any]:
        """States, and an edge for every possible transition: [state, action, next state or -1, φ]."""
        mdp = self._env.mdp
        continues = (mdp.discount > 0) & (mdp.transition > 0)
        edges = []
        for state, action in mdp.legal.nonzero().tolist():
            phi = mdp.expected_phi[state, action].numpy().round(3).tolist()
            targets = continues[state, action].nonzero().flatten().tolist()
            edges += [[state, action, target, phi] for target in targets or [-1]]
        return {"states": list(self._env.state_names), "edges": edges}

    def position(self, share: float = 1.0) -> dict[str, Any]:
        return {"state": self._state, "trail": self._trail[-50:]}

    def optimum(self, w: NDArray[np.float64]) -> float | None:
        """None where episodes do not end, because only a discounted return is defined there."""
        return float(optimal_return(self._env.mdp, torch.from_numpy(w))) if isinstance(self._env, Trip) else None

    def close(self) -> None:
        close_environment(self._env)


class RenderedView(EnvironmentView):
    """A Gymnasium environment with vector reward, made with render_mode "rgb_array"."""

    kind: ViewKind = "picture"
    rating_steps = 5

    def __init__(self, env: Environment) -> None:
        self._env = env
        inner: Any = env.unwrapped
        self.features = feature_infos(feature_names(env))
        self.actions = list(getattr(inner, "action_names", [f"action {index}" for index in range(action_count(env))]))
        self.presets = []
        self.rate = float(np.clip(env.metadata.get("render_fps") or 10, 2, 15))
        self._spec = ObservationSpec.of(env.observation_space)
        self.reset(0)

    def reset(self, seed: int) -> None:
        with failing_in("reset", self._env):
            self._update(*self._env.reset(seed=seed))

    def step(self, action: int) -> StepResult:
        with failing_in("step", self._env):
            observation, phi, terminated, truncated, info = self._env.step(action)
            self._update(observation, info)
        return StepResult(np.array(phi, np.float64), bool(terminated or truncated))

    def _update(self, observation: object, info: dict[str, Any]) -> None:
        self.observation = self._spec.encode(observation)
        self.legal = np.array(info.get("action_mask", np.ones(len(self.actions))), np.bool_)
        self._info = info

    def picture(self, size: int, share: float = 1.0) -> Pixels:
        picture: Any = self._env.render()
        if not isinstance(picture, np.ndarray):
            raise InputError(f"The environment {self._env} does not render pictures; expected render_mode 'rgb_array'.")
        return shrunk(np.ascontiguousarray(picture[..., :3], np.uint8), size)

    def observation_picture(self) -> Pixels | None:
        shape = self.observation.shape
        return self.observation[..., -3:].copy() if len(shape) == 3 and shape[2] % 3 == 0 else None

    def close(self) -> None:
        close_environment(self._env)


def feature_infos(names: Sequence[str]) -> list[FeatureInfo]:
    """Features without pictures."""
    return [FeatureInfo(name, _PALETTE[index % len(_PALETTE)]) for index, name in enumerate(names)]


def preset_group(name: str, tasks: NDArray[np.float64]) -> PresetGroup:
    return PresetGroup(name, [(format_task(w), w.tolist()) for w in tasks])


def _trip_presets() -> list[PresetGroup]:
    return [
        preset_group("Directions, Section 4.1", task_set("trip-directions")[[12, 25, 38]].round(2)),
        preset_group("Diagonal, Appendix B", task_set("trip-diagonal")[[25, 50]]),
    ]

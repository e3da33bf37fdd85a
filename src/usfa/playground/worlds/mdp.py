"""Finite MDPs: a graph to draw, where the agent is in it, and the way it came."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from usfa.environments import ObservationSpec, TabularEnv, Trip
from usfa.functional import optimal_return
from usfa.playground.protocol import PresetGroup
from usfa.playground.worlds.world import Happening, Pixels, WorldKind, feature_cards, preset_group
from usfa.tasks import task_set

__all__ = ["MdpWorld"]


class MdpWorld:
    """A table to walk through; the picture is drawn by the page."""

    kind: WorldKind = "mdp"
    smooth = False
    rate = 1.5
    moment = 2
    rules = None

    def __init__(self, env: TabularEnv) -> None:
        self._env = env
        self.features = feature_cards(env.mdp.features, ("coffee", "food") if isinstance(env, Trip) else None)
        self.presets = _presets(env)
        self.actions = list(env.action_names)
        self._spec = ObservationSpec.of(env.observation_space)
        self.reset(0)

    def reset(self, seed: int) -> None:
        state, info = self._env.reset(seed=seed)
        self._trail: list[tuple[int, int]] = []  # state and action of each step
        self._arrive(int(state), info)

    def step(self, action: int) -> Happening:
        self._trail.append((self._state, action))
        state, phi, terminated, truncated, info = self._env.step(action)
        self._arrive(int(state), info)
        return Happening(np.array(phi, np.float64), terminated or truncated)

    def _arrive(self, state: int, info: dict[str, Any]) -> None:
        self._state = state
        self.observation: NDArray[Any] = self._spec.encode(state)
        self.legal: NDArray[np.bool_] = np.array(info["action_mask"], np.bool_)

    def plan(self) -> dict[str, Any]:
        """States, and an edge for every transition that can happen: [state, action, next state or -1, φ]."""
        mdp = self._env.mdp
        goes_on = (mdp.discount > 0) & (mdp.transition > 0)
        edges = []
        for state, action in mdp.legal.nonzero().tolist():
            phi = mdp.expected_phi[state, action].numpy().round(3).tolist()
            targets = goes_on[state, action].nonzero().flatten().tolist()
            edges += [[state, action, target, phi] for target in targets or [-1]]
        return {"states": list(self._env.state_names), "edges": edges}

    def place(self, share: float = 1.0) -> dict[str, Any]:
        return {"state": self._state, "trail": self._trail[-50:]}

    def optimum(self, w: NDArray[np.float64]) -> float | None:
        """The best return of an episode; None where episodes do not end, and only a discounted one has a meaning."""
        if not isinstance(self._env, Trip):
            return None
        return float(optimal_return(self._env.mdp, torch.from_numpy(w)))

    def picture(self, size: int, share: float = 1.0) -> Pixels | None:
        return None

    def eyes(self) -> Pixels | None:
        return None

    def close(self) -> None:
        self._env.close()


def _presets(env: TabularEnv) -> list[PresetGroup]:
    if not isinstance(env, Trip):
        return []
    directions = task_set("trip-directions")[[12, 25, 38]].round(2)
    return [
        preset_group("Directions, Section 4.1", directions),
        preset_group("Diagonal, Appendix B", task_set("trip-diagonal")[[25, 50]]),
    ]

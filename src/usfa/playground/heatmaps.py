"""Heat maps over a plane of task space: two entries of w vary, the others are fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from usfa.agents import TrainedAgent
from usfa.decisions import CandidateSet, Rule, parse_rule
from usfa.environments import EnvironmentSource, RoomBatch, RoomRules
from usfa.environments.room.oracle import Oracle, StatePolicy, random_policy
from usfa.evaluation import EpisodeBatch, acting, bound_table, environments_of, exact_mdp, exact_scores, repeated
from usfa.functional import TabularMDP, optimal_return
from usfa.playground.protocol import Candidates, Heatmap
from usfa.playground.views import EnvironmentView

__all__ = ["HeatmapRequest", "PartialHeatmap", "heatmap", "is_exact", "quantities"]

_MAX_STEPS = 1000  # per episode
_BATCH_SIZES = {"room": 1024, "room-doom": 2}  # environments at once; others 32
_FROM_EPISODES = ("score", "normalised")
_BOUND_COLUMNS = {"distance-term": "distance", "approximation-term": "approximation", "bound": "total"}


@dataclass(frozen=True)
class HeatmapRequest:
    """A heat map to compute."""

    agent: str  # argument of usfa.load
    environment: str | None  # to act in, instead of the one in training
    trust: bool  # whether the agent's file may name modules to import
    player: int
    quantity: str
    x: int
    y: int
    w: tuple[float, ...]
    candidates: Candidates
    rule: str
    resolution: int
    episodes: int  # per cell, from the same seeds; 0 if the values are exact
    seed: int

    @property
    def ticks(self) -> NDArray[np.float64]:
        return np.linspace(-1.0, 1.0, self.resolution)

    @property
    def tasks(self) -> NDArray[np.float64]:
        """Tasks of all cells, [resolution², D], along x first."""
        y, x = np.meshgrid(self.ticks, self.ticks, indexing="ij")
        tasks = np.tile(np.array(self.w), (x.size, 1))
        tasks[:, self.x], tasks[:, self.y] = x.ravel(), y.ravel()
        return tasks

    def message(self, partial: PartialHeatmap, message: str = "") -> Heatmap:
        ticks, values = self.ticks.round(4).tolist(), partial.values.round(4).tolist()  # NaN becomes null in JSON
        return Heatmap(
            self.x,
            self.y,
            self.quantity,
            self.player,
            self.rule,
            ticks,
            list(self.w),
            values,
            partial.progress,
            self.episodes if self.quantity in _FROM_EPISODES else 0,
            message,
        )

    def empty(self, message: str) -> Heatmap:
        return self.message(PartialHeatmap(np.full((self.resolution, self.resolution), np.nan), 0.0), message)


class PartialHeatmap(NamedTuple):
    """A heat map while it is computed."""

    values: NDArray[np.float64]  # [resolution, resolution]  rows along y; NaN where not computed yet
    progress: float  # 0 to 1


def quantities(agent: TrainedAgent, view: EnvironmentView) -> dict[str, str]:
    """Quantities that can be mapped for an agent, with their labels."""
    exact = is_exact(agent, view)
    by_oracle = view.rules is not None and agent.file.phi == "reward"
    measure = "return / optimum" if exact else "0 random, 1 oracle" if by_oracle else "return / ‖w‖"
    labels = {"score": "Score: return of an episode", "normalised": f"Normalised score: {measure}"}
    if exact:
        labels |= {"gap": "Gap to the optimum"}
    if agent.actor.learns_psi:
        labels |= {"distance": "Distance to the nearest z in C, min ‖w′ − z‖"}
    if agent.actor.learns_psi and exact:
        labels |= {
            "distance-term": "Bound of Eq. 3, first term: 2H ‖φ‖ min δd(z)",
            "approximation-term": "Bound of Eq. 3, second term: 2H ‖w′‖ max δψ(z)",
            "bound": "Bound of Eq. 3: both terms",
        }
    return labels


def is_exact(agent: TrainedAgent, view: EnvironmentView) -> bool:
    """Whether scores are computed from the MDP instead of episodes."""
    return view.kind == "mdp" and not agent.actor.remembers


def heatmap(request: HeatmapRequest, agent: TrainedAgent) -> Iterator[PartialHeatmap]:
    """Yield the map as it grows; the last one has progress 1."""
    environments = environments_of(agent, request.trust, request.environment)
    w = request.tasks
    candidates = agent.candidates(w, request.candidates, np.random.default_rng(0))
    for values, progress in _values(request, agent, environments, w, candidates):
        yield PartialHeatmap(values.reshape(request.resolution, request.resolution), progress)


def _values(
    request: HeatmapRequest,
    agent: TrainedAgent,
    environments: EnvironmentSource,
    w: NDArray[np.float64],
    candidates: CandidateSet[NDArray[np.float64]],
) -> Iterator[tuple[NDArray[np.float64], float]]:
    if request.quantity == "distance":
        yield np.linalg.norm(w[:, None] - candidates.z, axis=-1).min(axis=1), 1.0
        return
    with environments.opened() as env:
        mdp = exact_mdp(env)
    if mdp is not None and not agent.actor.remembers:
        yield _exact(request, agent, mdp, w, candidates), 1.0
    else:
        yield from _scores(request, agent, environments, w, candidates)


def _exact(
    request: HeatmapRequest,
    agent: TrainedAgent,
    mdp: TabularMDP,
    w: NDArray[np.float64],
    candidates: CandidateSet[NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Exact values in a finite MDP: bounds of Eq. 3, scores and gaps of the rule."""
    if request.quantity in _BOUND_COLUMNS:
        return bound_table(agent, mdp, w, candidates.z)[_BOUND_COLUMNS[request.quantity]].to_numpy()
    scores = exact_scores(agent.actor, agent.network, mdp, w, candidates, parse_rule(request.rule))
    if request.quantity == "score":
        return scores
    best = optimal_return(mdp, torch.from_numpy(w)).numpy()
    return best - scores if request.quantity == "gap" else scores / _positive(best)


def _scores(
    request: HeatmapRequest,
    agent: TrainedAgent,
    environments: EnvironmentSource,
    w: NDArray[np.float64],
    candidates: CandidateSet[NDArray[np.float64]],
) -> Iterator[tuple[NDArray[np.float64], float]]:
    """Mean return on every task as it grows, normalised if asked for; all tasks use the same layouts."""
    episodes = max(1, request.episodes)
    seeds = np.arange(episodes) + request.seed
    environment = agent.file.environment if request.environment is None else request.environment
    at_once = max(1, _BATCH_SIZES.get(environment, 32) // episodes)
    values, rule = np.full(len(w), np.nan), parse_rule(request.rule)
    yardstick_of = _yardsticks(request, environments, agent.file.phi)
    for first in range(0, len(w), at_once):
        here = slice(first, min(first + at_once, len(w)))
        count = here.stop - here.start
        layouts = np.repeat(seeds, count).tolist()
        batch, yardstick = environments.batch(layouts, gamma=1.0), yardstick_of(w[here], layouts)
        with closing(batch):
            sets = CandidateSet(*(array[here] for array in candidates))
            for returns, progress in _returns(agent, repeated(batch, w[here], sets, episodes), rule):
                values[here] = yardstick.normalised(returns.reshape(episodes, count).mean(axis=0))
                yield values, (here.start + progress * count) / len(w)


def _yardsticks(
    request: HeatmapRequest, environments: EnvironmentSource, phi: str
) -> Callable[[NDArray[np.float64], list[int]], _Yardstick]:
    """Make yardsticks for tasks and layouts: the oracle in the room with its own φ, otherwise the length of w."""
    if request.quantity != "normalised":
        return lambda w, layouts: _Length(np.ones(len(w)))
    with environments.opened() as env:
        rules = getattr(env.unwrapped, "rules", None)
    if not isinstance(rules, RoomRules) or phi != "reward":
        return lambda w, layouts: _Length(np.linalg.norm(w, axis=1))
    policies = random_policy(request.seed), Oracle(rules)
    return lambda w, layouts: _InTheSameRooms(rules, policies, w, layouts)


class _Yardstick(Protocol):
    def normalised(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Normalise the scores [K] of K tasks; call this after each step of the episodes."""


@dataclass(frozen=True)
class _Length:
    """Division by the length of w, with which returns grow."""

    length: NDArray[np.float64]  # [K]

    def normalised(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return scores / _positive(self.length)


class _InTheSameRooms:
    """Scale from the random policy (0) to the oracle (1), which act along with the agent in the same layouts."""

    def __init__(
        self, rules: RoomRules, policies: tuple[StatePolicy, ...], w: NDArray[np.float64], layouts: list[int]
    ) -> None:
        self._policies, self._tasks = policies, len(w)
        self._w = np.tile(w, (len(layouts) // len(w), 1))
        self._rooms = [RoomBatch(len(layouts), rules, seeds=layouts, image_size=8) for _ in policies]

    def normalised(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        for policy, rooms in zip(self._policies, self._rooms, strict=True):
            rooms.move(policy.act(rooms.world, self._w))
        of_random, of_oracle = (self._score(rooms) for rooms in self._rooms)
        return (scores - of_random) / _positive(of_oracle - of_random)

    def _score(self, rooms: RoomBatch) -> NDArray[np.float64]:
        returns = np.einsum("bd,bd->b", rooms.world.collected, self._w)
        mean: NDArray[np.float64] = returns.reshape(-1, self._tasks).mean(axis=0)
        return mean


def _positive(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Replace divisors that are not positive by NaN, as at w = 0 or if even the best return is not positive."""
    return np.where(values > 1e-9, values, np.nan)


def _returns(agent: TrainedAgent, batch: EpisodeBatch, rule: Rule) -> Iterator[tuple[NDArray[np.float64], float]]:
    """Σφ·w of the first episode in each of B environments after every step, and the progress of the episode."""
    returns, running = np.zeros(len(batch.w)), np.ones(len(batch.w), np.bool_)
    longest = getattr(getattr(batch.environments, "rules", None), "decisions", _MAX_STEPS)
    moments = acting(agent.actor, agent.network, batch, rule, 0.0, np.random.default_rng(0), agent.file.gamma)
    for number, moment in enumerate(islice(moments, longest)):
        returns[running] += np.einsum("bd,bd->b", moment.step.phi, batch.w)[running]
        running &= ~moment.step.ended
        if not running.any():
            break
        yield returns, (number + 1) / longest
    yield returns, 1.0

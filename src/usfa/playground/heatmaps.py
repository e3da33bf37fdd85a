"""Maps over a plane of task space: two features vary, the others stay. Made step by step, to be watched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from usfa.agents import TrainedAgent
from usfa.decisions import CandidateSet, Rule, parse_rule
from usfa.environments import EnvironmentSource
from usfa.evaluation import EpisodeBatch, acting, bound_table, environments_of, exact_mdp, exact_scores, repeated
from usfa.functional import TabularMDP, optimal_return
from usfa.playground.protocol import Candidates, ShownHeatmap

__all__ = ["HeatmapRequest", "Partial", "heatmap"]

EPISODES = 2  # of every task, from the same seeds
LONGEST = 1000  # steps of an episode that count
_AT_ONCE = {"room": 1024, "room-doom": 2}  # environments side by side; others 32
_BOUND_COLUMNS = {"distance-term": "distance", "approximation-term": "approximation", "bound": "total"}


@dataclass(frozen=True)
class HeatmapRequest:
    """What to map."""

    agent: str  # for usfa.load
    environment: str | None  # in place of where the agent was trained
    trust: bool  # whether the agent's file may name modules to import
    player: int
    quantity: str
    x: int
    y: int
    w: tuple[float, ...]
    candidates: Candidates
    rule: str
    resolution: int
    seed: int

    @property
    def ticks(self) -> NDArray[np.float64]:
        return np.linspace(-1.0, 1.0, self.resolution)

    @property
    def tasks(self) -> NDArray[np.float64]:
        """[resolution², D]: along x first."""
        y, x = np.meshgrid(self.ticks, self.ticks, indexing="ij")
        tasks = np.tile(np.array(self.w), (x.size, 1))
        tasks[:, self.x], tasks[:, self.y] = x.ravel(), y.ravel()
        return tasks

    def shown(self, partial: Partial) -> ShownHeatmap:
        return self._shown(partial.values.round(4).tolist(), partial.progress, "")

    def empty(self, says: str) -> ShownHeatmap:
        return self._shown([[None] * self.resolution for _ in range(self.resolution)], 0.0, says)

    def _shown(self, values: list[list[float | None]], progress: float, says: str) -> ShownHeatmap:
        ticks = self.ticks.round(4).tolist()
        return ShownHeatmap(
            self.x, self.y, self.quantity, self.player, self.rule, ticks, list(self.w), values, progress, says
        )


class Partial(NamedTuple):
    """A map in the making."""

    values: NDArray[np.float64]  # [resolution, resolution]  rows along y; NaN where nothing is known yet
    progress: float  # 0 to 1


def heatmap(request: HeatmapRequest, agent: TrainedAgent) -> Iterator[Partial]:
    """The map, better and better; the last one has progress 1."""
    environments = environments_of(agent, request.trust, request.environment)
    w = request.tasks
    candidates = agent.candidates(w, request.candidates, np.random.default_rng(0))
    for values, progress in _values(request, agent, environments, w, candidates):
        yield Partial(values.reshape(request.resolution, request.resolution), progress)


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
    env = environments.one()
    mdp = exact_mdp(env)
    env.close()
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
    """In a finite MDP nothing needs to be tried out. Bounds are about Eq. 3, scores and gaps about the rule."""
    if request.quantity in _BOUND_COLUMNS:
        return bound_table(agent, mdp, w, candidates.z)[_BOUND_COLUMNS[request.quantity]].to_numpy()
    one_run = {name: tensor[None] for name, tensor in agent.parameters.items()}
    one_set = candidates.map(lambda values: values[None])
    scores = exact_scores(agent.actor, one_run, mdp, w, one_set, parse_rule(request.rule))[0]
    return scores if request.quantity == "score" else optimal_return(mdp, torch.from_numpy(w)).numpy() - scores


def _scores(
    request: HeatmapRequest,
    agent: TrainedAgent,
    environments: EnvironmentSource,
    w: NDArray[np.float64],
    candidates: CandidateSet[NDArray[np.float64]],
) -> Iterator[tuple[NDArray[np.float64], float]]:
    """The mean return of some episodes on every task, as it grows; all tasks meet the same worlds."""
    seeds = np.arange(EPISODES) + request.seed
    environment = agent.file.environment if request.environment is None else request.environment
    at_once = max(1, _AT_ONCE.get(environment, 32) // EPISODES)
    values, rule = np.full(len(w), np.nan), parse_rule(request.rule)
    for first in range(0, len(w), at_once):
        here = slice(first, min(first + at_once, len(w)))
        count = here.stop - here.start
        batch = environments.batch(np.repeat(seeds, count).tolist(), gamma=1.0)
        with closing(batch):
            sets = CandidateSet(*(of_all[here] for of_all in candidates))
            for returns, progress in _returns(agent, repeated(batch, w[here], sets, EPISODES), rule):
                values[here] = returns.reshape(EPISODES, count).mean(axis=0)
                yield values, (here.start + progress * count) / len(w)


def _returns(agent: TrainedAgent, batch: EpisodeBatch, rule: Rule) -> Iterator[tuple[NDArray[np.float64], float]]:
    """Σφ·w of the first episode in each of B environments, after every step, and the share of it that is over."""
    returns, running = np.zeros(len(batch.w)), np.ones(len(batch.w), np.bool_)
    longest = getattr(getattr(batch.environments, "rules", None), "decisions", LONGEST)
    moments = acting(agent.actor, agent.parameters, batch, rule, 0.0, np.random.default_rng(0))
    for number, moment in enumerate(islice(moments, longest)):
        returns[running] += np.einsum("bd,bd->b", moment.step.phi, batch.w)[running]
        running &= ~moment.step.ended
        if not running.any():
            break
        yield returns, (number + 1) / longest
    yield returns, 1.0

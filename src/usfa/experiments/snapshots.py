"""Snapshots: each run frozen at its own milestones, and scored afterwards."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import Agent
from usfa.evaluation import Scores, ScoringProtocol, score, score_table
from usfa.experiments.config import TrainConfig
from usfa.experiments.run_directory import RunDirectory
from usfa.learners import Improver
from usfa.networks import Parameters
from usfa.policies import candidate_set, parse_sampler
from usfa.progress import ProgressBar
from usfa.tasks import parse_tasks

__all__ = ["ScoringPlan", "SnapshotWriter", "score_snapshots"]


class SnapshotWriter:
    """Copies a run's parameters the moment it reaches a milestone; writes the file when the last run is there.

    Runs count their own episodes, so that they do not arrive together.
    """

    def __init__(self, milestones: tuple[int, ...], run: RunDirectory) -> None:
        self._run = run
        self._waiting = list(milestones)
        self._open: dict[int, _OpenSnapshot] = {}

    def update(self, learner: Improver) -> None:
        """Call after every update of the learner."""
        for milestone in list(self._waiting):
            arrived = learner.progress >= milestone
            if not arrived.any():
                break
            snapshot = self._open.setdefault(milestone, _OpenSnapshot.empty(learner))
            snapshot.freeze(learner, arrived)
            if snapshot.filled.all():
                self._run.save_snapshot(milestone, snapshot.tensors, snapshot.counters())
                self._waiting.remove(milestone)
                del self._open[milestone]

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {
            f"snapshot/{milestone}/{name}": tensor
            for milestone, snapshot in self._open.items()
            for name, tensor in snapshot.tensors.items()
        }
        open_snapshots = {
            str(milestone): {**snapshot.counters(), "filled": snapshot.filled.tolist()}
            for milestone, snapshot in self._open.items()
        }
        return tensors, {"waiting": self._waiting, "open": open_snapshots}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self._waiting = list(values["waiting"])
        for text, counters in values["open"].items():
            prefix = f"snapshot/{text}/"
            mine = {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}
            arrays = {name: np.array(counters[name]) for name in ("filled", "frames", "episodes")}
            self._open[int(text)] = _OpenSnapshot(mine, **arrays)


class _OpenSnapshot:
    def __init__(
        self,
        tensors: Parameters,
        filled: NDArray[np.bool_],
        frames: NDArray[np.int64],
        episodes: NDArray[np.int64],
    ) -> None:
        self.tensors = tensors
        self.filled = filled
        self.frames = frames
        self.episodes = episodes

    @classmethod
    def empty(cls, learner: Improver) -> _OpenSnapshot:
        tensors = {name: torch.full_like(x, torch.nan).detach() for name, x in learner.parameters.items()}
        counts = np.zeros_like(learner.frames)
        return cls(tensors, counts.astype(np.bool_), counts.copy(), counts.copy())

    @torch.no_grad()
    def freeze(self, learner: Improver, arrived: NDArray[np.bool_]) -> None:
        new = np.flatnonzero(arrived & ~self.filled)
        for name, tensor in self.tensors.items():
            tensor[new] = learner.best_parameters[name][new].to(tensor.device)
        self.frames[new] = learner.frames[new]
        self.episodes[new] = learner.episodes[new]
        self.filled[new] = True

    def counters(self) -> dict[str, Any]:
        return {"frames": self.frames.tolist(), "episodes": self.episodes.tolist()}


def score_snapshots(config: TrainConfig, agent: Agent, run: RunDirectory, name: str, bar: ProgressBar) -> pd.DataFrame:
    """Every snapshot on every set of test tasks with every candidate set: the table of scores."""
    plan = ScoringPlan(config, agent.spec.features)
    tables: list[pd.DataFrame] = []
    for count, milestone in enumerate(config.milestones, 1):
        parameters, counters = run.load_snapshot(milestone)
        runs = {"seed": config.seeds, "snapshot": [milestone] * len(config.seeds), **counters}
        columns = {key: np.array(values, np.int64) for key, values in runs.items()}
        scores = plan.score(agent, parameters)
        for part in plan.parts:
            labels = {
                "agent": name,
                "candidates": part.candidates,
                "training_set": config.training_tasks,
                "policies": config.learner.policies,
                "task_set": part.tasks,
            }
            returns, optimal = scores.returns.mean(axis=1)[:, part.rows], scores.optimal[part.rows]
            tables.append(score_table(returns, plan.w[part.rows], optimal, labels, columns))
        bar.update(count)
    return pd.concat(tables, ignore_index=True)


class _Part(NamedTuple):
    """The rows of one set of tasks with one candidate set."""

    tasks: str
    candidates: str
    rows: slice


class ScoringPlan:
    """All test tasks with all candidate sets, one below the other, so that one batch of episodes serves them all."""

    def __init__(self, config: TrainConfig, features: int) -> None:
        self.config = config
        self.parts: list[_Part] = []
        tasks: list[NDArray[np.float64]] = []
        for name in config.evaluation.tasks or (config.training_tasks,):
            for candidates in config.evaluation.candidates:
                begin = sum(map(len, tasks))
                tasks.append(parse_tasks(name, features))
                self.parts.append(_Part(name, candidates, slice(begin, begin + len(tasks[-1]))))
        self.w = np.concatenate(tasks)

    def score(self, agent: Agent, parameters: Parameters) -> Scores:
        rngs = [np.random.default_rng([seed, 1]) for seed in self.config.seeds]
        z = np.stack([self.policies(seed) for seed in self.config.seeds])
        protocol = ScoringProtocol(self.config.evaluation.episodes, self.config.evaluation.epsilon)
        return score(agent, parameters, self.config.environments, self.w, z, rngs, protocol)

    def policies(self, seed: int) -> NDArray[np.float64]:
        """The candidate sets of all rows, [K, N, D].

        One stream per seed, the same at every snapshot: sampled candidates do not add noise along the curve.
        """
        sampler = parse_sampler(self.config.learner.policies, self.config.tasks)
        sets = [
            candidate_set(name, self.w[rows], self.config.tasks, sampler, np.random.default_rng([seed, 1]))
            for _, name, rows in self.parts
        ]
        largest = max(z.shape[-2] for z in sets)
        return np.concatenate([_filled_up(z, largest) for z in sets])


def _filled_up(z: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Candidate sets [K, N, D] with their first policy repeated up to a size, which changes no maximum over them."""
    return np.concatenate([z, np.repeat(z[:, :1], size - z.shape[1], axis=1)], axis=1)

"""Snapshots: each run frozen at its own milestones, and scored afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import Agent
from usfa.decisions import SINGLE, Accuracy, CandidateSet, rule_name
from usfa.evaluation import Scores, ScoringProtocol, score, score_table
from usfa.runs.config import TrainConfig
from usfa.runs.directory import RunDirectory
from usfa.learning import Improver
from usfa.networks import Parameters
from usfa.samplers import candidate_set, distance_from_learned, parse_sampler
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


def score_snapshots(
    config: TrainConfig,
    agent: Agent,
    run: RunDirectory,
    name: str,
    accuracy: tuple[Accuracy, ...],
    bar: ProgressBar,
) -> pd.DataFrame:
    """Every snapshot on every set of test tasks with every candidate set and rule: the table of scores.

    `accuracy` is that of each run's last snapshot; ψ of the earlier ones is taken as exact.
    """
    tables: list[pd.DataFrame] = []
    for count, milestone in enumerate(config.milestones, 1):
        parameters, counters = run.load_snapshot(milestone)
        last = count == len(config.milestones)
        plan = ScoringPlan(config, agent.spec.features, accuracy if last else ())
        runs = {"seed": config.seeds, "snapshot": [milestone] * len(config.seeds), **counters}
        columns = {key: np.array(values, np.int64) for key, values in runs.items()}
        for rule in rules_of(config, last):
            tables += plan.tables(agent, parameters, rule, name, columns)
        bar.update(count)
    return pd.concat(tables, ignore_index=True)


def rules_of(config: TrainConfig, last: bool) -> tuple[str, ...]:
    """The rules to score a snapshot with; only the first for a UVFA, which has one policy, so that all rules agree."""
    chosen = (*config.evaluation.rules, *(config.evaluation.final_rules if last else ()))
    chosen = tuple({rule_name(rule): rule for rule in chosen}.values())
    return chosen[:1] if config.agent == "uvfa" else chosen


class _Part(NamedTuple):
    """The rows of one set of tasks with one candidate set."""

    tasks: str
    candidates: str
    rows: slice


class ScoringPlan:
    """All test tasks with all candidate sets, one below the other, so that one batch of episodes serves them all."""

    def __init__(self, config: TrainConfig, features: int, accuracy: tuple[Accuracy, ...] = ()) -> None:
        self.config = config
        self.accuracy = accuracy
        self.parts: list[_Part] = []
        tasks: list[NDArray[np.float64]] = []
        for name in config.evaluation.tasks or (config.training_tasks,):
            for candidates in config.evaluation.candidates:
                begin = sum(map(len, tasks))
                tasks.append(parse_tasks(name, features))
                self.parts.append(_Part(name, candidates, slice(begin, begin + len(tasks[-1]))))
        self.w = np.concatenate(tasks)

    def tables(
        self, agent: Agent, parameters: Parameters, rule: str, name: str, columns: dict[str, NDArray[np.int64]]
    ) -> list[pd.DataFrame]:
        """Scores of one rule, a table for each part; with single, only for parts whose C has several policies."""
        tables = []
        whole = None if rule == SINGLE else self.score(agent, parameters, rule, self.parts)
        for part in self.parts:
            if whole is not None:
                returns, optimal = whole.returns[..., part.rows], whole.optimal[part.rows]
            elif self.candidates(self.config.seeds[0], [part]).z.shape[-2] > 1:
                alone = self.score(agent, parameters, rule, [part])
                returns, optimal = alone.returns, alone.optimal
            else:
                continue
            labels = {
                "agent": name,
                "candidates": part.candidates,
                "rule": rule_name(rule),
                "training_set": self.config.training_tasks,
                "policies": self.config.learner.policies,
                "task_set": part.tasks,
            }
            tables.append(score_table(returns.mean(axis=1), self.w[part.rows], optimal, labels, columns))
        return tables

    def score(self, agent: Agent, parameters: Parameters, rule: str, parts: Sequence[_Part]) -> Scores:
        seeds = self.config.seeds
        rngs = [np.random.default_rng([seed, 1]) for seed in seeds]
        of_runs = [self.candidates(seed, parts) for seed in seeds]
        candidates = CandidateSet(*(np.stack(values) for values in zip(*of_runs, strict=True)))
        w = np.concatenate([self.w[part.rows] for part in parts])
        protocol = ScoringProtocol(self.config.evaluation.episodes, self.config.evaluation.epsilon)
        return score(agent, parameters, self.config.environments, w, candidates, rule, rngs, protocol)

    def candidates(self, seed: int, parts: Sequence[_Part]) -> CandidateSet[NDArray[np.float64]]:
        """The candidate sets of all rows, [K, N, D].

        One stream per seed, the same at every snapshot: sampled candidates do not add noise along the curve.
        """
        sampler = parse_sampler(self.config.learner.policies, self.config.tasks)
        accuracy = self.accuracy[self.config.seeds.index(seed)] if self.accuracy else None
        sets = []
        for _, name, rows in parts:
            z = candidate_set(name, self.w[rows], self.config.tasks, sampler, np.random.default_rng([seed, 1]))
            distance = distance_from_learned(z, sampler, self.config.tasks, self.config.learner.tasks)
            sets.append(CandidateSet.believed(z) if accuracy is None else accuracy.of(z, distance))
        return CandidateSet.joined(sets)

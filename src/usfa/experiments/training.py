"""Training from a configuration to a finished run directory: resumable at any moment, to the bit."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from torch import Tensor

from usfa.agents import Agent, AgentFile, AgentSpec, make_agent, save_agent
from usfa.environments import Environment, ObservationSpec, action_count, feature_count, make
from usfa.errors import InputError, Interrupted
from usfa.evaluation import exact_mdp, write_table
from usfa.experiments.config import TrainConfig
from usfa.experiments.progress import interruptible, progress_bar
from usfa.experiments.run_directory import OnExisting, RunDirectory
from usfa.experiments.snapshots import SnapshotWriter, score_snapshots
from usfa.learners import Learner, Update
from usfa.records import to_json
from usfa.tasks import candidate_set, parse_sampler, parse_tasks

__all__ = ["build_agent", "train"]

LOG_EVERY = 20


def train(
    config: TrainConfig,
    path: str | os.PathLike[str],
    existing: OnExisting = "refuse",
    console: Console | None = None,
    name: str | None = None,
) -> RunDirectory:
    """Train all seeds of a configuration, freeze snapshots, score them, save the agent.

    A killed run goes on with `existing="resume"` and ends with the same scores and agent as one that was left alone.

    Args:
        config: what to train.
        path: the run directory.
        existing: what to do if it already holds a run.
        console: where to show progress; None is silent.
        name: what the table of scores calls the agent; by default its kind.
    """
    agent = build_agent(config)
    run = RunDirectory.prepare(Path(path), config, existing)
    with run.locked(), _threads(config.threads):
        if not run.scores.exists():
            _train(config, agent, run, console, name or config.agent)
    return run


def _train(config: TrainConfig, agent: Agent, run: RunDirectory, console: Console | None, name: str) -> None:
    learner = _learn(config, agent, run, console, name)
    with progress_bar(f"{name}: scoring snapshots", _scorings(config), "tables", console) as bar:
        scores = score_snapshots(config, agent, run, name, bar)
    parameters = {key: x.detach() for key, x in learner.parameters.items()}
    save_agent(run.agent, _agent_file(config, agent, scores), parameters)
    write_table(run.scores, scores)


def build_agent(config: TrainConfig) -> Agent:
    """The agent for the environment of a configuration; InputError if the training tasks do not fit its φ."""
    env = make(config.environment, **config.environment_arguments)
    _, info = env.reset(seed=0)
    spec = AgentSpec(
        ObservationSpec.of(env.observation_space), action_count(env), feature_count(env), "action_mask" in info
    )
    _check_discount(config, env)
    env.close()
    if config.tasks.shape[1] != spec.features:
        raise InputError(
            f"The training tasks {config.training_tasks!r} have {config.tasks.shape[1]} entries; the environment "
            f"{config.environment!r} has {spec.features} features."
        )
    _check_evaluation(config, spec.features)
    return make_agent(config.agent, spec, config.network)


def _check_discount(config: TrainConfig, env: Environment) -> None:
    """A finite MDP brings its own discount, and exact scores use it: learning has to use the same."""
    mdp = exact_mdp(env)
    if mdp is None:
        return
    discounts = mdp.discount[mdp.discount > 0]
    if not torch.allclose(discounts, torch.full_like(discounts, config.learner.gamma)):
        raise InputError(
            f"learner.gamma is {config.learner.gamma}; the environment {config.environment!r} has the discount "
            f"{mdp.discount.max():g} in its tables, expected the same."
        )


def _check_evaluation(config: TrainConfig, features: int) -> None:
    """What would fail after hours of training fails now."""
    sampler = parse_sampler(config.learner.policies, config.tasks)
    for tasks in config.evaluation.tasks:
        w = parse_tasks(tasks, features)
        if len(np.unique(w, axis=0)) < len(w):
            raise InputError(f"The test tasks {tasks!r} hold a task twice; expected each once.")
    for name in ("tasks", "candidates"):
        given = getattr(config.evaluation, name)
        if len(set(given)) < len(given):
            raise InputError(f"evaluation.{name} is {given}; expected each once.")
    for candidates in config.evaluation.candidates:
        candidate_set(candidates, config.tasks, config.tasks, sampler, np.random.default_rng(0))
        if config.agent == "uvfa" and candidates != "task":
            raise InputError(f"A UVFA has no candidate set but 'task'; evaluation.candidates has {candidates!r}.")


def _learn(config: TrainConfig, agent: Agent, run: RunDirectory, console: Console | None, label: str) -> Learner:
    learner = Learner(
        agent,
        config.learner,
        partial(make, config.environment, **config.environment_arguments),
        config.tasks,
        config.seeds,
    )
    snapshots = SnapshotWriter(config.milestones, run)
    _resume(run, learner, snapshots)
    unit = config.learner.budget_unit
    with (
        progress_bar(f"{label}: {len(config.seeds)} runs", config.learner.budget, unit, console) as bar,
        _MetricsLog(run, learner) as log,
        interruptible() as interrupted,
        closing(learner.rollout.batch),
    ):
        snapshots.update(learner)
        while not learner.done:
            log.write(learner.step())
            snapshots.update(learner)
            bar.update(float(np.minimum(learner.progress, config.learner.budget).mean()), log.note)
            if learner.updates % config.checkpoint_every == 0:
                _checkpoint(run, learner, snapshots)
            if interrupted.is_set():
                _stop(run, learner, snapshots)
    return learner


def _resume(run: RunDirectory, learner: Learner, snapshots: SnapshotWriter) -> None:
    saved = run.load_checkpoint()
    if saved is None:
        run.rewind_metrics(0)
        return
    tensors, values = saved
    learner.load_state(tensors, values["learner"])
    snapshots.load_state(tensors, values["snapshots"])
    run.rewind_metrics(learner.updates)


def _checkpoint(run: RunDirectory, learner: Learner, snapshots: SnapshotWriter) -> None:
    learner_tensors, learner_values = learner.state()
    snapshot_tensors, snapshot_values = snapshots.state()
    tensors: dict[str, Tensor] = {**learner_tensors, **snapshot_tensors}
    values: dict[str, Any] = {"learner": learner_values, "snapshots": snapshot_values}
    run.save_checkpoint(learner.updates, tensors, values)


def _stop(run: RunDirectory, learner: Learner, snapshots: SnapshotWriter) -> None:
    # Saving may restart episodes, and an undisturbed run would not: then the last checkpoint is the one to resume.
    if learner.rollout.batch.saves_exactly:
        _checkpoint(run, learner, snapshots)
        since = learner.updates
    else:
        since = learner.updates - learner.updates % run.config(TrainConfig).checkpoint_every
    raise Interrupted(
        f"Stopped after {learner.updates} updates; the same command with --resume goes on from update {since}."
    )


class _MetricsLog:
    """metrics.jsonl: a line of means for every LOG_EVERY updates."""

    def __init__(self, run: RunDirectory, learner: Learner) -> None:
        self._path = run.metrics
        self._learner = learner
        self._recent: list[Update] = []
        self._started = time.monotonic()
        self.note = ""

    def __enter__(self) -> _MetricsLog:
        self._file: TextIO = self._path.open("a")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, update: Update) -> None:
        self._recent.append(update)
        if self._learner.updates % LOG_EVERY:
            return
        loss = float(np.mean([recent.loss for recent in self._recent]))
        self.note = f"loss {loss:.4f}"
        episode_phi = np.concatenate([recent.episode_phi for recent in self._recent])
        line = {
            "updates": self._learner.updates,
            "frames": float(self._learner.frames.mean()),
            "episodes": float(self._learner.episodes.mean()),
            "loss": loss,
            "episode_phi": episode_phi.mean(axis=0).tolist() if len(episode_phi) else None,
            "seconds": round(time.monotonic() - self._started, 3),
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        self._recent.clear()


def _scorings(config: TrainConfig) -> int:
    return len(config.milestones) * max(1, len(config.evaluation.tasks)) * len(config.evaluation.candidates)


def _agent_file(config: TrainConfig, agent: Agent, scores: pd.DataFrame) -> AgentFile:
    return AgentFile(
        kind=config.agent,
        spec=agent.spec,
        network=config.network,
        environment=config.environment,
        environment_arguments=config.environment_arguments,
        gamma=config.learner.gamma,
        training_tasks=tuple(tuple(w) for w in config.tasks.tolist()),
        policies=config.learner.policies,
        seeds=config.seeds,
        training=to_json(config),
        scores=_final_means(scores),
    )


def _final_means(scores: pd.DataFrame) -> dict[str, float]:
    """The mean score of the last snapshot, and its gap to the optimum where that is known."""
    last = scores[scores.snapshot == scores.snapshot.max()]
    means = {}
    for (candidates, tasks), group in last.groupby(["candidates", "task_set"], sort=False):
        where = f"C = {candidates}, tasks {tasks if len(tasks) <= 40 else tasks[:37] + '...'}"
        means[f"score, {where}"] = float(group.score.mean())
        if group.optimal.notna().all():
            means[f"gap, {where}"] = float((group.optimal - group.score).mean())
    return means


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

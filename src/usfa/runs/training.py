"""Train from a configuration to a finished run directory. Training can be resumed at any time, to the bit."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
import torch
from rich.console import Console

from usfa.agents import (
    AGENT_FILES,
    AGENTS,
    Agent,
    AgentFile,
    AgentSpec,
    check_candidates,
    keep_phi,
    read_agent,
    save_agent,
)
from usfa.cluster import ClusterConfig
from usfa.cluster.ray import RayFleet, connected
from usfa.cluster.remote_acting import ClusterActing
from usfa.decisions import candidate_set
from usfa.environments import LEARNED, Environment, ObservationSpec, action_count, feature_count
from usfa.environments.batch import close_environment, failing_in
from usfa.errors import Diverged, InputError, counted
from usfa.evaluation import csv_bytes, exact_mdp
from usfa.files import require_space
from usfa.learning import Learner, bytes_of_past, check_replay, choose_device, choose_precision
from usfa.networks import Parameters, Precision
from usfa.phi import PHI_FILES
from usfa.progress import AUTO, Display, interruptible, progress_bar, shown_on
from usfa.records import to_json
from usfa.registry import text_of
from usfa.runs.callbacks import Callback, Training, check_callbacks
from usfa.runs.checkpoints import Checkpoints, MetricsLog, SnapshotWriter, in_half
from usfa.runs.config import TrainConfig
from usfa.runs.directory import OnExisting, RunDirectory
from usfa.runs.presets import agent_name, command_for
from usfa.runs.scoring import final_counts, final_means, measure_accuracy, score_snapshot, score_snapshots
from usfa.samplers import parse_sampler
from usfa.tasks import TASKS_OF_M, parse_tasks
from usfa.threads import threads

__all__ = ["build_agent", "train"]

Result = TypeVar("Result")
ROOM_FOR_LOGS = 16 * 2**20  # metrics, ledger, scores
_SAME_LOSS, _SAME_WEIGHTS = 0.1, 0.01  # relative changes over a training in which nothing was learned
_SMALL = 1e-3  # returns below this share of output_scale are lost in the errors of a network


def train(
    config: TrainConfig,
    path: str | os.PathLike[str],
    existing: OnExisting = "refuse",
    console: Display = AUTO,
    name: str | None = None,
    cluster: ClusterConfig | None = None,
    callbacks: Sequence[Callback] = (),
) -> RunDirectory:
    """Train all seeds of a configuration, freeze snapshots, score them, save the agent.

    A killed run continues with `existing="resume"`, and gives the same scores and agent as an uninterrupted one.

    Args:
        config: the configuration.
        path: the run directory.
        existing: "refuse", "resume" or "overwrite", if the directory already holds a run.
        console: for progress bars; None shows nothing, and "auto" shows them in a terminal and in notebooks.
        name: name of the agent in the table of scores; by default its variant in the paper, or its kind.
        cluster: settings of a cluster; by default everything runs in this process.
        callbacks: objects that watch the training, see :class:`usfa.Callback`. If one stops it, the directory has no
            agent yet, and can be resumed.
    """
    _check_arguments(config, path, cluster)
    console, watching = shown_on(console), check_callbacks(callbacks)
    agent = build_agent(config)
    choose_device(config.device)  # raises if there is none, before the directory is changed
    RunDirectory(Path(path)).check(config, existing)  # before a cluster is started
    cluster = cluster or ClusterConfig()
    with (
        nullcontext() if cluster.cluster is None else connected(cluster),
        RunDirectory.opened(Path(path), config, existing) as run,
        threads(config.threads),
    ):
        _keep_phi(config, run)
        scores = _intact(run, run.read_scores) if run.was_written(run.scores) else None
        if scores is None or _intact(run, partial(read_agent, run.agent)) is None:
            _train(config, agent, run, console, name or agent_name(config), cluster, watching, scores)
        return run


def _keep_phi(config: TrainConfig, run: RunDirectory) -> None:
    """Write a learned φ into the run directory, so that the run can be resumed without the one it came from."""
    if config.phi.startswith(LEARNED):
        run.claim(*(f"{run.phi.name}/{file}" for file in PHI_FILES))
        keep_phi(run.phi, config.phi)


def _check_arguments(config: object, path: object, cluster: object) -> None:
    """Raise InputError for arguments of the wrong type, which would fail later and less clearly."""
    if not isinstance(config, TrainConfig):
        raise InputError(f"config is {config!r}; expected a TrainConfig, such as usfa.preset('trip-usfa').")
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path is {path!r}; expected a directory for the run, such as 'runs/mine'.")
    if not isinstance(cluster, ClusterConfig | None):
        raise InputError(f"cluster is {cluster!r}; expected a ClusterConfig, or None.")


def _intact(run: RunDirectory, read: Callable[[], Result]) -> Result | None:
    """Read a result of a finished run. If it is damaged, warn and return None, or raise if there is no checkpoint."""
    try:
        return read()
    except InputError as error:
        if not run.has_checkpoints:
            raise InputError(f"{error} There is no checkpoint to make it again from.") from error
        warnings.warn(f"{error} It is made again.", stacklevel=3)
        return None


def _train(
    config: TrainConfig,
    agent: Agent,
    run: RunDirectory,
    console: Console | None,
    name: str,
    cluster: ClusterConfig,
    callbacks: tuple[Callback, ...],
    scores: pd.DataFrame | None,
) -> None:
    """Train, save the agent and write the scores; if `scores` are given, only the agent is missing."""
    if console is not None:
        told = f"{config.environment}: {agent.spec.observation.describe()}"
        console.print(told, highlight=False, markup=False, soft_wrap=True)
    learner = _learner(config, agent, run, choose_device(config.device), cluster, console)
    training = Training(run, config, learner)
    try:
        _learn(training, console, name, cluster, callbacks)
        if training.reason is None:
            _finish(training, agent, console, name, cluster, scores)
        elif console is not None:
            told = f"Stopped after {learner.updates} updates: {training.reason}."
            console.print(told, highlight=False, markup=False, soft_wrap=True)
    finally:
        for callback in callbacks:
            callback.on_end(training)


def _finish(
    training: Training,
    agent: Agent,
    console: Console | None,
    name: str,
    cluster: ClusterConfig,
    scores: pd.DataFrame | None,
) -> None:
    """Measure the accuracy of ψ, score all snapshots unless there are scores already, and save the agent with both."""
    config, run, learner = training.config, training.run, training.learner
    weights, counts = _final_weights(config, learner), final_counts(config, run, learner)
    file = _agent_file(config, agent, learner, counts, cluster)
    _warn_of_no_learning(learner, run)
    file = replace(file, accuracy=measure_accuracy(config, agent, weights, counts["frames"], console, name))
    if scores is None:
        with progress_bar(f"{name}: scoring snapshots", len(config.milestones), "snapshots", console) as bar:
            scores = score_snapshots(config, file, run, name, bar, training.snapshot_scores)
    save_agent(run.agent, replace(file, scores=final_means(config, scores)), weights)
    run.seal_logs()
    run.write(run.scores.name, csv_bytes(scores))
    training.scores = scores


def build_agent(config: TrainConfig) -> Agent:
    """Make the agent of a configuration; raise InputError if any setting does not fit the environment."""
    env = config.environments.one()
    with failing_in("reset", env):
        _, info = env.reset(seed=0)
    spec = AgentSpec(
        ObservationSpec.of(env.observation_space), action_count(env), feature_count(env), "action_mask" in info
    )
    _check_discount(config, env)
    close_environment(env)
    if config.tasks.shape[1] != spec.features:
        raise InputError(
            f"The training tasks {config.training_tasks!r} have {counted(config.tasks.shape[1], 'entry', 'entries')}; "
            f"expected {spec.features}, the number of features of the environment {config.environment!r}."
        )
    agent = AGENTS.make(config.agent, spec, config.network)
    _check_evaluation(config, agent)
    check_replay(config.learner, spec.observation)
    return agent


def _check_discount(config: TrainConfig, env: Environment) -> None:
    """Raise InputError if γ differs from the discount of a finite MDP, which exact scores use."""
    mdp = exact_mdp(env)
    if mdp is None:
        return
    discounts = mdp.discount[mdp.discount > 0]
    if not torch.allclose(discounts, torch.full_like(discounts, config.learner.gamma)):
        raise InputError(
            f"learner.gamma is {config.learner.gamma}; expected {mdp.discount.max():g}, the discount in the tables of "
            f"the environment {config.environment!r}."
        )


def _check_evaluation(config: TrainConfig, agent: Agent) -> None:
    """Raise InputError before training if the evaluation after it would fail."""
    sampler = parse_sampler(config.learner.policies, config.tasks)
    for tasks in config.evaluation.tasks:
        w = parse_tasks(tasks, agent.spec.features)
        if len(np.unique(w, axis=0)) < len(w):
            raise InputError(f"The test tasks {tasks!r} hold a task twice; expected each once.")
    for name in ("tasks", "candidates"):
        given = getattr(config.evaluation, name)
        if len(set(given)) < len(given):
            raise InputError(f"evaluation.{name} is {given}; expected each once.")
    for candidates in config.evaluation.candidates:
        candidate_set(candidates, config.tasks, config.tasks, sampler, np.random.default_rng(0))
        check_candidates(agent, candidates, "evaluation.candidates")


def _learn(
    training: Training, console: Console | None, label: str, cluster: ClusterConfig, callbacks: tuple[Callback, ...]
) -> None:
    config, run, learner = training.config, training.run, training.learner
    snapshots = SnapshotWriter(config.milestones, run, config.saved_weights == "fp16")
    checkpoints = Checkpoints(run, learner, snapshots, config.checkpoint_every)
    resumed = checkpoints.resume()
    if not learner.done:
        require_space(run.path, _bytes_of_run(config, learner) - run.bytes_of_checkpoints)
    if not resumed:
        learner.precision = _precision(config, learner.agent, learner.device)
    runs = f"{len(config.seeds)} runs" if len(config.seeds) > 1 else f"seed {config.seeds[0]}"
    with (
        progress_bar(f"{label}: {runs}", config.learner.budget, config.learner.budget_unit, console) as bar,
        MetricsLog(run, learner) as log,
        interruptible() as interrupted,
        closing(learner),
        _explained(checkpoints),
    ):
        _report_snapshots(training, snapshots.update(learner), callbacks)
        while not learner.done and training.reason is None:
            training.update = learner.step()
            training.metrics = log.write(training.update)
            written = snapshots.update(learner)
            log.score = _score_now(training, written, label, cluster, log.score)
            note = ", ".join(filter(None, (log.note, learner.acting.note)))
            bar.update(float(np.minimum(learner.progress, config.learner.budget).mean()), note)
            if checkpoints.due:
                checkpoints.save()
            for callback in callbacks:
                callback.on_round(training)
            _report_snapshots(training, written, callbacks)
            if interrupted.is_set():
                checkpoints.stop()
        checkpoints.save()  # keep the result even if closing or scoring fails
        if learner.done:
            _keep_agent(training, cluster)


def _score_now(
    training: Training, written: Sequence[int], name: str, cluster: ClusterConfig, before: float | None
) -> float | None:
    """Score the snapshots just written, except the first and the last, if tasks are drawn from a distribution.

    The scores are needed at the end anyway. With tasks of M, the returns of training episodes tell as much.

    Returns: the mean score of the newest snapshot, or `before` if there is none.
    """
    config, learner = training.config, training.learner
    if config.learner.tasks in TASKS_OF_M:
        return before
    for milestone in written:
        if 0 < milestone < config.milestones[-1]:
            counts = {"frames": learner.frames.tolist(), "episodes": learner.episodes.tolist()}
            file = _agent_file(config, learner.agent, learner, counts, cluster)
            training.snapshot_scores[milestone] = score_snapshot(config, file, training.run, name, milestone)
            before = float(training.snapshot_scores[milestone].score.mean())
    return before


def _keep_agent(training: Training, cluster: ClusterConfig) -> None:
    """Save the agent, without its accuracy and scores, unless there is a finished one."""
    config, run, learner = training.config, training.run, training.learner
    run.claim(*(f"{run.agent.name}/{file}" for file in AGENT_FILES))
    if not (run.scores.exists() and _has_agent(run)):
        file = _agent_file(config, learner.agent, learner, final_counts(config, run, learner), cluster)
        save_agent(run.agent, file, _final_weights(config, learner))


def _has_agent(run: RunDirectory) -> bool:
    try:
        read_agent(run.agent)
    except InputError:
        return False
    return True


def _report_snapshots(training: Training, written: Sequence[int], callbacks: tuple[Callback, ...]) -> None:
    for training.milestone in written:
        for callback in callbacks:
            callback.on_snapshot(training)


def _warn_of_no_learning(learner: Learner, run: RunDirectory) -> None:
    """Warn if neither the loss nor the weights moved, or if rewards are far too small for the network's outputs."""
    losses, change = [line["loss"] for line in run.read_metrics()], float(learner.change().max())
    if losses and change < _SAME_WEIGHTS:
        tenth = max(1, len(losses) // 10)
        before, after = np.mean(losses[:tenth]), np.mean(losses[-tenth:])
        if abs(after - before) <= _SAME_LOSS * max(before, after):
            warnings.warn(
                f"The loss did not move: it was {before:.3g} at the start and {after:.3g} at the end, and the weights "
                f"changed by {change:.1g} of their size. Try a higher learning_rate, and check the rewards with "
                "usfa check-env.",
                stacklevel=2,
            )
    scale, gamma = learner.agent.network_config.output_scale, learner.config.gamma
    largest = learner.largest_phi / (1 - gamma) if gamma < 1 else np.inf
    if 0 < largest < _SMALL * scale:
        warnings.warn(
            f"network.output_scale is {scale:g}, but no return can exceed {largest:.2g}; expected about the size of "
            "returns, as usfa train ENVIRONMENT measures it.",
            stacklevel=2,
        )


def _learner(
    config: TrainConfig,
    agent: Agent,
    run: RunDirectory,
    device: torch.device,
    cluster: ClusterConfig,
    console: Console | None,
) -> Learner:
    acting = None
    if cluster.cluster is not None:
        report_problem = None if console is None else partial(console.print, markup=False, highlight=False)
        acting = ClusterActing(cluster, RayFleet(cluster.cpus_per_actor), run.trajectories, report_problem)
    return Learner(agent, config.learner, config.environments, config.tasks, config.seeds, device, acting=acting)


def _bytes_of_run(config: TrainConfig, learner: Learner) -> int:
    """Size of a run on disk, with a margin of a tenth: snapshots of the weights, three checkpoints and logs.

    A checkpoint has the weights, two moments of Adam, the target network if there is one, and the replay buffer.
    """
    parameters = sum(x.nbytes for x in learner.network.state.values())
    target = parameters if learner.target is not None else 0
    past = len(config.seeds) * bytes_of_past(config.learner, learner.agent.spec.observation)
    files = parameters * (len(config.milestones) + 1) + 3 * (3 * parameters + target + past)
    return round(1.1 * files) + ROOM_FOR_LOGS


def _precision(config: TrainConfig, agent: Agent, device: torch.device) -> Precision:
    """The precision of the configuration; "auto" measures both on a temporary learner."""
    if config.precision != "auto":
        return config.precision
    trial = Learner(agent, config.learner, config.environments, config.tasks, config.seeds, device)

    def work(precision: Precision) -> None:
        trial.precision = precision
        trial.step()

    with closing(trial):
        return choose_precision(work)


@contextmanager
def _explained(checkpoints: Checkpoints) -> Iterator[None]:
    """Add the available checkpoint to the errors of training."""
    try:
        yield
    except Diverged as error:
        raise Diverged(f"{error}. {_kept(checkpoints)}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        where = f" {error.filename}" if error.filename else ""
        raise InputError(
            f"A file{where} could not be written: {reason}; mend this and continue with --resume. {_kept(checkpoints)}"
        ) from error


def _kept(checkpoints: Checkpoints) -> str:
    return f"The state at update {checkpoints.saved_at} is kept." if checkpoints.saved_at else "Nothing was saved yet."


def _agent_file(
    config: TrainConfig, agent: Agent, learner: Learner, counts: Mapping[str, list[int]], cluster: ClusterConfig
) -> AgentFile:
    """The file of a trained agent, without its accuracy and scores, which are measured later."""
    return AgentFile(
        kind=text_of(config.agent, "agent"),
        spec=agent.spec,
        network=config.network,
        environment=config.environment,
        environment_arguments=config.environment_arguments,
        phi=config.phi,
        gamma=config.learner.gamma,
        training_tasks=tuple(tuple(w) for w in config.tasks.tolist()),
        policies=text_of(config.learner.policies, "policies"),
        seeds=config.seeds,
        training=to_json(replace(config, precision=learner.precision)),
        command=f"{command_for(replace(config, precision=learner.precision))} {cluster.flags}".strip(),
        frames=round(float(np.mean(counts["frames"]))),
        episodes=round(float(np.mean(counts["episodes"]))),
    )


def _final_weights(config: TrainConfig, learner: Learner) -> Parameters:
    """Weights of the finished agent, as they are in the last snapshot."""
    return in_half(learner.best.state) if config.saved_weights == "fp16" else learner.best.state

"""Train from a configuration to a finished run directory. Training can be resumed at any time, to the bit."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from usfa.agents import AGENTS, Agent, AgentFile, AgentSpec, check_candidates, save_agent
from usfa.cluster import ClusterConfig
from usfa.cluster.acting import ClusterActing
from usfa.cluster.ray import RayFleet, connected
from usfa.decisions import Accuracy, candidate_set
from usfa.environments import Environment, ObservationSpec, action_count, feature_count
from usfa.environments.batch import failing_in
from usfa.errors import Diverged, InputError
from usfa.evaluation import exact_mdp, write_table
from usfa.files import require_space
from usfa.learning import Learner, Precision, bytes_of_past, check_replay, choose_device, choose_precision
from usfa.progress import AUTO, Display, interruptible, progress_bar, shown_on
from usfa.records import to_json
from usfa.registry import text_of
from usfa.runs.callbacks import Callback, Training, check_callbacks
from usfa.runs.checkpoints import Checkpoints, MetricsLog, SnapshotWriter
from usfa.runs.config import TrainConfig
from usfa.runs.directory import OnExisting, RunDirectory
from usfa.runs.presets import agent_name, command_for
from usfa.runs.scoring import final_means, measure_accuracy, score_snapshots
from usfa.samplers import parse_sampler
from usfa.tasks import parse_tasks
from usfa.threads import threads

__all__ = ["build_agent", "train"]


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
        if not run.scores.exists():
            _train(config, agent, run, console, name or agent_name(config), cluster, watching)
        return run


def _check_arguments(config: object, path: object, cluster: object) -> None:
    """Raise InputError for arguments of the wrong type, which would fail later and less clearly."""
    if not isinstance(config, TrainConfig):
        raise InputError(f"config is {config!r}; expected a TrainConfig, such as usfa.preset('trip-usfa').")
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path is {path!r}; expected a directory for the run, such as 'runs/mine'.")
    if not isinstance(cluster, ClusterConfig | None):
        raise InputError(f"cluster is {cluster!r}; expected a ClusterConfig, or None.")


def _train(
    config: TrainConfig,
    agent: Agent,
    run: RunDirectory,
    console: Console | None,
    name: str,
    cluster: ClusterConfig,
    callbacks: tuple[Callback, ...],
) -> None:
    if console is not None:
        console.print(f"{config.environment}: {agent.spec.observation.describe()}", highlight=False, soft_wrap=True)
    learner = _learner(config, agent, run, choose_device(config.device), cluster, console)
    training = Training(run, config, learner)
    try:
        _learn(training, console, name, callbacks)
        if training.reason is None:
            _finish(training, agent, console, name, cluster)
        elif console is not None:
            console.print(f"Stopped after {learner.updates} updates: {training.reason}.", highlight=False)
    finally:
        for callback in callbacks:
            callback.on_end(training)


def _finish(training: Training, agent: Agent, console: Console | None, name: str, cluster: ClusterConfig) -> None:
    """Measure the accuracy of ψ, score all snapshots, and save the agent."""
    config, run, learner = training.config, training.run, training.learner
    accuracy = measure_accuracy(config, agent, run, console, name)
    file = _agent_file(replace(config, precision=learner.precision), agent, accuracy, cluster)
    with progress_bar(f"{name}: scoring snapshots", len(config.milestones), "snapshots", console) as bar:
        scores = score_snapshots(config, file, run, name, bar)
    frames = round(scores[scores.snapshot == scores.snapshot.max()].frames.mean())
    save_agent(run.agent, replace(file, frames=frames, scores=final_means(scores)), learner.best.state)
    write_table(run.scores, scores)
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
    env.close()
    if config.tasks.shape[1] != spec.features:
        raise InputError(
            f"The training tasks {config.training_tasks!r} have {config.tasks.shape[1]} entries; the environment "
            f"{config.environment!r} has {spec.features} features."
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


def _learn(training: Training, console: Console | None, label: str, callbacks: tuple[Callback, ...]) -> None:
    config, run, learner = training.config, training.run, training.learner
    snapshots = SnapshotWriter(config.milestones, run)
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
            note = ", ".join(filter(None, (log.note, learner.acting.note)))
            bar.update(float(np.minimum(learner.progress, config.learner.budget).mean()), note)
            if checkpoints.due:
                checkpoints.save()
            for callback in callbacks:
                callback.on_round(training)
            _report_snapshots(training, written, callbacks)
            if interrupted.is_set():
                checkpoints.stop()
        if learner.done:
            checkpoints.save()  # keep the result even if scoring fails
        else:
            checkpoints.keep()


def _report_snapshots(training: Training, written: Sequence[int], callbacks: tuple[Callback, ...]) -> None:
    for training.milestone in written:
        for callback in callbacks:
            callback.on_snapshot(training)


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
        report_problem = None if console is None else console.print
        acting = ClusterActing(cluster, RayFleet(cluster.cpus_per_actor), run.trajectories, report_problem)
    return Learner(agent, config.learner, config.environments, config.tasks, config.seeds, device, acting=acting)


def _bytes_of_run(config: TrainConfig, learner: Learner) -> int:
    """Size of a run on disk: snapshots of the weights, and three checkpoints.

    A checkpoint has the weights, two moments of Adam, the target network if there is one, and the replay buffer.
    """
    parameters = sum(x.nbytes for x in learner.network.state.values())
    target = parameters if learner.target is not None else 0
    past = len(config.seeds) * bytes_of_past(config.learner, learner.agent.spec.observation)
    return parameters * len(config.milestones) + 3 * (3 * parameters + target + past)


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
    """Add to errors of training which checkpoint is available."""
    try:
        yield
    except Diverged as error:
        raise Diverged(f"{error}; try a lower learning_rate, or set clip. {_kept(checkpoints)}") from error
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise InputError(f"The disk is full; free space and continue with --resume. {_kept(checkpoints)}") from error


def _kept(checkpoints: Checkpoints) -> str:
    return f"The state at update {checkpoints.saved_at} is kept." if checkpoints.saved_at else "Nothing was saved yet."


def _agent_file(config: TrainConfig, agent: Agent, accuracy: tuple[Accuracy, ...], cluster: ClusterConfig) -> AgentFile:
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
        training=to_json(config),
        command=f"{command_for(config)} {cluster.flags}".strip(),
        accuracy=accuracy,
    )

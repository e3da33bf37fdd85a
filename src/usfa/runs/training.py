"""Training from a configuration to a finished run directory: resumable at any moment, to the bit."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from rich.console import Console

from usfa.agents import Agent, AgentFile, AgentSpec, make_agent, save_agent
from usfa.cluster import ClusterConfig
from usfa.cluster.connection import connected
from usfa.cluster.fleet import RayFleet
from usfa.cluster.learner import ClusterLearner
from usfa.decisions import Accuracy
from usfa.environments import Environment, ObservationSpec, action_count, feature_count
from usfa.environments.batch import failing_in
from usfa.errors import Diverged, InputError
from usfa.evaluation import LearnedPolicies, exact_mdp, measured_accuracy, write_table
from usfa.runs.checkpoints import Checkpoints
from usfa.runs.config import TrainConfig
from usfa.runs.metrics import MetricsLog
from usfa.runs.presets import agent_name, command_for
from usfa.runs.directory import OnExisting, RunDirectory
from usfa.runs.snapshots import SnapshotWriter, score_snapshots
from usfa.files import require_space
from usfa.learning import Improver, Learner, Precision, bytes_of_past, check_replay, choose_device, choose_precision
from usfa.networks import select_run
from usfa.samplers import candidate_set, parse_sampler
from usfa.progress import interruptible, progress_bar
from usfa.records import to_json
from usfa.tasks import parse_tasks

__all__ = ["build_agent", "train"]


def train(
    config: TrainConfig,
    path: str | os.PathLike[str],
    existing: OnExisting = "refuse",
    console: Console | None = None,
    name: str | None = None,
    cluster: ClusterConfig | None = None,
) -> RunDirectory:
    """Train all seeds of a configuration, freeze snapshots, score them, save the agent.

    A killed run goes on with `existing="resume"` and ends with the same scores and agent as one that was left alone.

    Args:
        config: what to train.
        path: the run directory.
        existing: what to do if it already holds a run.
        console: where to show progress; None is silent.
        name: what the table of scores calls the agent; by default the paper's variant that it is, or its kind.
        cluster: where actors run; by default everything is done in this process.
    """
    agent = build_agent(config)
    choose_device(config.device)  # what is not there is said before the directory is touched
    RunDirectory(Path(path)).check(config, existing)  # before a cluster is started
    cluster = cluster or ClusterConfig()
    with (
        nullcontext() if cluster.cluster is None else connected(cluster),
        RunDirectory.opened(Path(path), config, existing) as run,
        _threads(config.threads),
    ):
        if not run.scores.exists():
            _train(config, agent, run, console, name or agent_name(config), cluster)
        return run


def _train(
    config: TrainConfig, agent: Agent, run: RunDirectory, console: Console | None, name: str, cluster: ClusterConfig
) -> None:
    if console is not None:
        console.print(f"{config.environment}: {agent.spec.observation.describe()}", highlight=False, soft_wrap=True)
    learner = _learn(config, agent, run, console, name, cluster)
    accuracy = _accuracy(config, agent, run, console, name)
    with progress_bar(f"{name}: scoring snapshots", len(config.milestones), "snapshots", console) as bar:
        scores = score_snapshots(config, agent, run, name, accuracy, bar)
    parameters = {key: x.detach() for key, x in learner.best_parameters.items()}
    made_by = replace(config, precision=learner.precision)
    save_agent(run.agent, replace(_agent_file(made_by, agent, scores, cluster), accuracy=accuracy), parameters)
    write_table(run.scores, scores)


def _accuracy(
    config: TrainConfig, agent: Agent, run: RunDirectory, console: Console | None, name: str
) -> tuple[Accuracy, ...]:
    """How wrong ψ of every run is at the end, see :func:`measured_accuracy`; nothing for a UVFA."""
    if config.agent == "uvfa":
        return ()
    parameters, counters = run.load_snapshot(config.milestones[-1])
    learned = LearnedPolicies(config.tasks, parse_sampler(config.learner.policies, config.tasks), config.learner.tasks)
    measured = []
    with progress_bar(f"{name}: measuring how wrong ψ is", len(config.seeds), "runs", console) as bar:
        for index, (seed, frames) in enumerate(zip(config.seeds, counters["frames"], strict=True)):
            of_run, rng = select_run(parameters, index), np.random.default_rng([seed, 3])
            measured.append(
                measured_accuracy(agent, of_run, config.environments, learned, config.learner.gamma, frames // 20, rng)
            )
            bar.update(index + 1)
    return tuple(measured)


def build_agent(config: TrainConfig) -> Agent:
    """The agent for the environment of a configuration; InputError if the training tasks do not fit its φ."""
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
    _check_evaluation(config, spec.features)
    check_replay(config.learner, spec.observation)
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


def _learn(
    config: TrainConfig, agent: Agent, run: RunDirectory, console: Console | None, label: str, cluster: ClusterConfig
) -> Improver:
    device = choose_device(config.device)
    learner = _learner(config, agent, run, device, cluster, console)
    snapshots = SnapshotWriter(config.milestones, run)
    checkpoints = Checkpoints(run, learner, snapshots, config.checkpoint_every)
    resumed = checkpoints.resume()
    if not learner.done:
        require_space(run.path, _bytes_of_run(config, learner) - run.bytes_of_checkpoints)
    if not resumed:
        learner.precision = _precision(config, agent, device)
    with (
        progress_bar(_label(label, config), config.learner.budget, config.learner.budget_unit, console) as bar,
        MetricsLog(run, learner) as log,
        interruptible() as interrupted,
        closing(learner),
        _explained(checkpoints),
    ):
        snapshots.update(learner)
        while not learner.done:
            log.write(learner.step())
            snapshots.update(learner)
            note = ", ".join(filter(None, (log.note, learner.note)))
            bar.update(float(np.minimum(learner.progress, config.learner.budget).mean()), note)
            if checkpoints.due:
                checkpoints.save()
            if interrupted.is_set():
                checkpoints.stop()
        checkpoints.save()  # what is trained stays so, whatever becomes of the scoring
    return learner


def _learner(
    config: TrainConfig,
    agent: Agent,
    run: RunDirectory,
    device: torch.device,
    cluster: ClusterConfig,
    console: Console | None,
) -> Improver:
    settings = (agent, config.learner, config.environments, config.tasks, config.seeds)
    if cluster.cluster is None:
        return Learner(*settings, device)
    fleet = RayFleet(cluster.cpus_per_actor)
    tell = None if console is None else console.print
    return ClusterLearner(*settings, cluster, fleet, run.trajectories, device, tell)


def _label(label: str, config: TrainConfig) -> str:
    return f"{label}: {len(config.seeds)} runs" if len(config.seeds) > 1 else f"{label}: seed {config.seeds[0]}"


def _bytes_of_run(config: TrainConfig, learner: Improver) -> int:
    """What a run will take on disk: snapshots of the parameters, and three states.

    A state has Adam's two moments, perhaps older parameters, and the trajectories of the past besides.
    """
    parameters, older = (sum(x.nbytes for x in group.values()) for group in (learner.parameters, learner.older))
    past = len(config.seeds) * bytes_of_past(config.learner, learner.agent.spec.observation)
    return parameters * len(config.milestones) + 3 * (3 * parameters + older + past)


def _precision(config: TrainConfig, agent: Agent, device: torch.device) -> Precision:
    """What the configuration says; "auto" is measured on a learner of its own, which is thrown away."""
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
    """Say what is left when training goes wrong."""
    try:
        yield
    except Diverged as error:
        raise Diverged(f"{error}; expected a lower learning_rate, or a clip. {_kept(checkpoints)}") from error
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise InputError(f"The disk is full; make room and go on with --resume. {_kept(checkpoints)}") from error


def _kept(checkpoints: Checkpoints) -> str:
    return f"The state at update {checkpoints.saved_at} is kept." if checkpoints.saved_at else "Nothing was saved yet."


def _agent_file(config: TrainConfig, agent: Agent, scores: pd.DataFrame, cluster: ClusterConfig) -> AgentFile:
    return AgentFile(
        kind=config.agent,
        spec=agent.spec,
        network=config.network,
        environment=config.environment,
        environment_arguments=config.environment_arguments,
        phi=config.phi,
        gamma=config.learner.gamma,
        training_tasks=tuple(tuple(w) for w in config.tasks.tolist()),
        policies=config.learner.policies,
        seeds=config.seeds,
        training=to_json(config),
        command=f"{command_for(config)} {cluster.flags}".strip(),
        frames=round(scores[scores.snapshot == scores.snapshot.max()].frames.mean()),
        scores=_final_means(scores),
    )


def _final_means(scores: pd.DataFrame) -> dict[str, float]:
    """The mean score of the last snapshot, and its gap to the optimum where that is known."""
    last = scores[scores.snapshot == scores.snapshot.max()]
    means = {}
    for (candidates, rule, tasks), group in last.groupby(["candidates", "rule", "task_set"], sort=False):
        where = f"C = {candidates}, {rule}, tasks {tasks if len(tasks) <= 40 else tasks[:37] + '...'}"
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

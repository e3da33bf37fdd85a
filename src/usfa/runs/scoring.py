"""Measurements after training: the accuracy of ψ, and the scores of all snapshots."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console

from usfa.agents import Agent, AgentFile, TrainedAgent, check_weights
from usfa.decisions import SINGLE, Accuracy, rule_name
from usfa.errors import InputError
from usfa.evaluation import Scorer, ScoringProtocol, measured_accuracy, score_table
from usfa.learning import Learner
from usfa.networks import Parameters
from usfa.progress import ProgressBar, progress_bar
from usfa.registry import text_of
from usfa.runs.config import TrainConfig
from usfa.runs.directory import RunDirectory
from usfa.samplers import LearnedPolicies, parse_sampler
from usfa.tasks import parse_tasks

__all__ = [
    "MEASURED",
    "final_counts",
    "final_means",
    "measure_accuracy",
    "score_agent",
    "score_snapshot",
    "score_snapshots",
]

MEASURED = 20
"""Training steps for each step that measures the errors of ψ afterwards."""


def measure_accuracy(
    config: TrainConfig,
    agent: Agent,
    parameters: Parameters,
    frames: Sequence[int],
    console: Console | None,
    name: str,
) -> tuple[Accuracy, ...]:
    """Measure the errors of ψ of every run after training; empty if that is turned off, or ψ is not learned.

    Args:
        config: the configuration.
        agent: the agent.
        parameters: its weights after training, each [R, ...].
        frames: training frames of every run; measuring takes one step for each `MEASURED` of them.
        console: for the progress bar; None shows nothing.
        name: name of the agent.
    """
    if not (agent.learns_psi and config.evaluation.measure_errors):
        return ()
    networks = agent.networks(parameters)
    learned = LearnedPolicies(config.tasks, parse_sampler(config.learner.policies, config.tasks), config.learner.tasks)
    measured = []
    with progress_bar(f"{name}: measuring the errors of ψ", len(config.seeds), "runs", console) as bar:
        for index, (seed, own) in enumerate(zip(config.seeds, frames, strict=True)):
            of_run, rng = networks.network(index), np.random.default_rng([seed, 3])
            measured.append(
                measured_accuracy(
                    agent, of_run, config.environments, learned, config.learner.gamma, own // MEASURED, rng
                )
            )
            bar.update(index + 1)
    return tuple(measured)


def score_snapshots(
    config: TrainConfig,
    file: AgentFile,
    run: RunDirectory,
    name: str,
    bar: ProgressBar,
    known: Mapping[int, pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """Score every snapshot on every set of test tasks with every candidate set and rule.

    Each run is scored with its own seed, see :class:`ScoringProtocol`, so that `usfa evaluate` can repeat the scores.
    The accuracy in `file` applies to the last snapshot; in earlier ones ψ is treated as exact. A snapshot that is
    missing or damaged is left out with a warning; InputError is raised if none is left. `known` has tables of
    :func:`score_snapshot` by milestone, which are not computed again.
    """
    tables: list[pd.DataFrame] = []
    scorer = Scorer(config.environments)
    for count, milestone in enumerate(config.milestones, 1):
        last = count == len(config.milestones)
        try:
            table = None if last else (known or {}).get(milestone)
            own = _score(config, file, run, name, milestone, scorer, last) if table is None else table
        except InputError as error:
            warnings.warn(f"The scores lack snapshot {milestone}: {error}", stacklevel=2)
            continue
        tables.append(own)
        bar.update(count)
    if not tables:
        raise InputError(f"The run in {run.path} has no intact snapshot to score; its agent is in {run.agent}.")
    return pd.concat(tables, ignore_index=True)


def score_snapshot(config: TrainConfig, file: AgentFile, run: RunDirectory, name: str, milestone: int) -> pd.DataFrame:
    """Score one snapshot before the last, as :func:`score_snapshots` does."""
    return _score(config, file, run, name, milestone, Scorer(config.environments), last=False)


def _score(
    config: TrainConfig,
    file: AgentFile,
    run: RunDirectory,
    name: str,
    milestone: int,
    scorer: Scorer,
    last: bool,
) -> pd.DataFrame:
    """Scores of one snapshot; raise InputError if it is missing or damaged."""
    parameters, counters = _read_snapshot(config, file.agent(), run, milestone)
    own_file = file if last else _without_errors(file)
    weights = [{key: x[index] for key, x in parameters.items()} for index in range(len(config.seeds))]
    agents = [TrainedAgent(own_file, own, seed) for own, seed in zip(weights, config.seeds, strict=True)]
    runs = {"seed": config.seeds, "snapshot": [milestone] * len(agents), **counters}
    columns = {key: np.array(values, np.int64) for key, values in runs.items()}
    rules = _rules(config, agents[0].actor, last)
    return pd.concat(_tables_of(config, scorer, agents, name, rules, columns), ignore_index=True)


def score_agent(agent: TrainedAgent, config: TrainConfig, name: str) -> pd.DataFrame:
    """Score a saved agent as the last snapshot of its training was scored; gives the same scores."""
    counts = {"seed": agent.seed, "snapshot": config.milestones[-1]}
    counts |= {"frames": agent.file.frames, "episodes": agent.file.episodes}
    columns = {key: np.array([value], np.int64) for key, value in counts.items()}
    rules = _rules(config, agent.actor, last=True)
    return pd.concat(_tables_of(config, Scorer(config.environments), [agent], name, rules, columns), ignore_index=True)


def _read_snapshot(
    config: TrainConfig, agent: Agent, run: RunDirectory, milestone: int
) -> tuple[Parameters, dict[str, list[int]]]:
    """Weights [R, ...] and counters of all runs; raise InputError if they are missing, damaged or not of this run."""
    parameters, counters = run.load_snapshot(milestone)
    check_weights("Its weights", agent, len(config.seeds), parameters)
    expected = {"frames": len(config.seeds), "episodes": len(config.seeds)}
    if not _is_whole(counters) or {name: len(counts) for name, counts in counters.items()} != expected:
        raise InputError(f"Its counters are {str(counters)[:100]}; expected frames and episodes of each seed.")
    return parameters, counters


def _is_whole(counters: object) -> bool:
    """Whether these are lists of whole numbers."""
    if not isinstance(counters, dict) or not all(isinstance(counts, list) for counts in counters.values()):
        return False
    return all(type(count) is int and 0 <= count < 2**63 for counts in counters.values() for count in counts)


def _without_errors(file: AgentFile) -> AgentFile:
    no_error = Accuracy((0.0,) * file.spec.features, ((0.0, 0.0),))
    return replace(file, accuracy=(no_error,) * (len(file.seeds) if file.agent().learns_psi else 0))


def _rules(config: TrainConfig, agent: Agent, last: bool) -> tuple[str, ...]:
    """Rules to score a snapshot with; only the first for an agent with a single policy, because all rules agree."""
    listed = (*config.evaluation.rules, *(config.evaluation.final_rules if last else ()))
    chosen = tuple({rule_name(rule): text_of(rule, "rules") for rule in listed}.values())
    return chosen if agent.only_candidates is None else chosen[:1]


def _tables_of(
    config: TrainConfig,
    scorer: Scorer,
    agents: Sequence[TrainedAgent],
    name: str,
    rules: Sequence[str],
    columns: dict[str, NDArray[np.int64]],
) -> Iterator[pd.DataFrame]:
    """Tables of one snapshot, one for each rule, task set and candidate set, without "single" if C has one policy."""
    settings = config.evaluation
    keeps_loops = agents[0].actor.remembers  # as in the paper
    protocol = ScoringProtocol(settings.episodes, settings.epsilon, break_loops=not keeps_loops)
    for rule, tasks, candidates in product(rules, settings.tasks or (config.training_tasks,), settings.candidates):
        w = parse_tasks(tasks, agents[0].file.spec.features)
        if rule == SINGLE and agents[0].candidates(w, candidates, np.random.default_rng(0)).z.shape[-2] == 1:
            continue
        protocols = [replace(protocol, seed=agent.seed) for agent in agents]
        scores = [scorer.score(agent, w, candidates, rule, own) for agent, own in zip(agents, protocols, strict=True)]
        labels = {
            "agent": name,
            "candidates": candidates,
            "rule": rule_name(rule),
            "training_set": config.training_tasks,
            "policies": text_of(config.learner.policies, "policies"),
            "task_set": tasks,
        }
        yield score_table(np.stack([one.mean for one in scores]), w, scores[0].optimal, labels, columns)


def final_counts(config: TrainConfig, run: RunDirectory, learner: Learner) -> dict[str, list[int]]:
    """Frames and episodes of every run at its last snapshot.

    If the snapshot is missing or damaged, these are the counts when all runs had ended.
    """
    try:
        return _read_snapshot(config, learner.agent, run, config.milestones[-1])[1]
    except InputError:
        return {"frames": learner.frames.tolist(), "episodes": learner.episodes.tolist()}


def final_means(config: TrainConfig, scores: pd.DataFrame) -> dict[str, float]:
    """Mean score of the last snapshot, and its gap to the optimum if that is known."""
    last = scores[scores.snapshot == config.milestones[-1]]
    means = {}
    for (candidates, rule, tasks), group in last.groupby(["candidates", "rule", "task_set"], sort=False):
        where = f"C = {candidates}, {rule}, tasks {tasks if len(tasks) <= 40 else tasks[:37] + '...'}"
        means[f"score, {where}"] = float(group.score.mean())
        if group.optimal.notna().all():
            means[f"gap, {where}"] = float((group.optimal - group.score).mean())
    return means

"""Sections 4.2 and 4.3, Appendices C and D: zero-shot generalisation in the room.

The results are written from runs that are trained here, or from agents that are already trained.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pandas as pd
from rich.console import Console

from usfa.agents import load_agent
from usfa.environments.room import OBJECTS
from usfa.environments.room.yardstick import read_yardstick
from usfa.errors import InputError, unknown_name
from usfa.evaluation import read_scores, write_table
from usfa.figures.room import all_figures, has_curves
from usfa.files import read_json
from usfa.networks import Precision
from usfa.paper.experiment import Job, RunsFailed, run_jobs, write_results
from usfa.paper.room_report import room_report, settings_of, summary_of
from usfa.progress import progress_bar
from usfa.records import from_json
from usfa.registry import without_working_directory
from usfa.runs.config import TrainConfig
from usfa.runs.directory import OnExisting, RunDirectory
from usfa.runs.presets import ROOM_VARIANTS, agent_name, preset
from usfa.runs.scoring import score_agent

__all__ = ["RoomExperiment", "report_agents", "reproduce_room"]


@dataclass(frozen=True)
class RoomExperiment:
    """The settings of the room experiment."""

    preset: Literal["room-laptop", "room-paper"] = "room-laptop"
    """Preset for the size of images, networks and training."""
    variants: tuple[str, ...] = tuple(ROOM_VARIANTS)
    """Agents to train."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    """Random seeds; one run of every variant for each."""
    frames: int | None = None
    """Training frames per run; by default those of the preset."""
    snapshots: int = 5
    """Number of snapshots of each run that are scored, besides the initial one."""
    precision: Precision = "fp32"
    """Numerical precision, the same for all runs so that they are comparable."""

    def __post_init__(self) -> None:
        for variant in self.variants:
            if variant not in ROOM_VARIANTS:
                raise unknown_name("variant", variant, ROOM_VARIANTS)
        if not self.variants or len(set(self.variants)) < len(self.variants):
            raise InputError(f"variants are {self.variants}; expected one or more different ones.")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"seeds are {self.seeds}; expected one or more different ones.")
        for variant in self.variants:
            self.config(variant, self.seeds[0])

    def config(self, variant: str, seed: int) -> TrainConfig:
        """The preset of a variant with this experiment's settings."""
        base = preset(self.preset + ROOM_VARIANTS[variant])
        return replace(
            base,
            seeds=(seed,),
            precision=self.precision,
            saved_weights="fp16",  # the agents of all runs are published
            learner=replace(base.learner, budget=base.learner.budget if self.frames is None else self.frames),
            evaluation=replace(base.evaluation, snapshots=self.snapshots),
        )

    def jobs(self, path: Path) -> list[Job]:
        """A job for every variant and seed, ordered by seed."""
        return [
            Job(variant, self.config(variant, seed), path / "runs" / f"{variant}-seed-{seed}")
            for seed in self.seeds
            for variant in self.variants
        ]


def reproduce_room(
    experiment: RoomExperiment,
    path: Path,
    existing: OnExisting = "refuse",
    console: Console | None = None,
    at_once: int | None = None,
    training: bool = True,
) -> RunDirectory:
    """Train and score all variants with all seeds, draw the figures and write the report.

    Args:
        experiment: the settings.
        path: the directory; `runs/` in it holds a run directory for each variant and seed.
        existing: what to do if it already holds an experiment.
        console: where to show progress.
        at_once: number of runs to train in parallel; by default one per core.
        training: if false, train nothing and report on the runs that are finished.
    """
    jobs = experiment.jobs(path)
    if at_once is None:
        at_once = max(1, (os.cpu_count() or 1) // jobs[0].config.threads)
    if at_once < 1:
        raise InputError(f"at_once is {at_once}; expected at least 1 run at a time.")
    if not training and existing == "overwrite":
        raise InputError("The runs to report on would be overwritten without training; expected --resume.")
    if not training and not any(job.finished for job in jobs):
        raise InputError(f"No run in {path / 'runs'} is finished; expected at least one for a report without training.")
    with RunDirectory.opened(path, experiment, existing) as run:
        try:
            run_jobs(jobs if training else [job for job in jobs if job.finished], at_once, console)
        except RunsFailed:
            _write_results(experiment, run, jobs, console)  # of the runs that are finished
            raise
        _write_results(experiment, run, jobs, console)
    return run


def _write_results(experiment: RoomExperiment, run: RunDirectory, jobs: list[Job], console: Console | None) -> None:
    finished = [job for job in jobs if job.finished]
    if not finished:
        return
    scores = pd.concat([RunDirectory(job.path).read_scores() for job in finished], ignore_index=True)
    training = pd.concat([_behaviour(job) for job in finished], ignore_index=True)
    configs = {name: experiment.config(name, experiment.seeds[0]) for name in experiment.variants}
    _report(run, scores, training, configs, console)


def _report(
    run: RunDirectory,
    scores: pd.DataFrame,
    training: pd.DataFrame,
    configs: Mapping[str, TrainConfig],
    console: Console | None,
) -> None:
    """Write tables, figures and the report; curves only if there are scores of several snapshots."""
    with progress_bar("figures and report", 1, "steps", console) as bar:
        yardstick = read_yardstick()
        summary = summary_of(scores, yardstick)
        figures = all_figures(training, summary, yardstick, [kind.name for kind in OBJECTS])
        tables = {"scores": scores, "summary": summary} | ({"training": training} if has_curves(summary) else {})
        report = room_report(scores, training, summary, yardstick, settings_of(configs))
        write_results(run, tables, figures, report)
        bar.update(1)


def _behaviour(job: Job) -> pd.DataFrame:
    """ε-greedy returns during training: agent, seed, task, frames, score."""
    rows: Iterable[tuple[str, int, str, float, float]] = (
        (job.name, job.config.seeds[0], task, line["frames"], score)
        for line in RunDirectory(job.path).read_metrics()
        for task, score in (line["returns"] or {}).items()
    )
    return pd.DataFrame(rows, columns=["agent", "seed", "task", "frames", "score"])


# --- from trained agents ---


def report_agents(
    agents: Path,
    path: Path,
    existing: OnExisting = "refuse",
    console: Console | None = None,
    at_once: int | None = None,
) -> RunDirectory:
    """Score trained agents as their training did, draw the figures of the final scores and write the report.

    Args:
        agents: a directory with a run or agent directory for each variant and seed, such as `runs/` of an experiment.
        path: the directory to write to; with "resume", agents that are already scored are not scored again.
        existing: what to do if it already holds an experiment.
        console: where to show progress.
        at_once: number of agents to score in parallel; by default one per core.
    """
    found = _agents_in(agents)
    checksums = {_name_of(agent): read_json(agent / "config.json")["weights_sha256"] for agent in found}
    with RunDirectory.opened(path, AgentScores(checksums), existing) as run:
        run.claim(*(f"agent-scores/{_name_of(agent)}.csv" for agent in found))
        tables = _score_in_parallel(found, run.path / "agent-scores", at_once or os.cpu_count() or 1, console)
        names = {str(table.agent.iloc[0]): config for table, config in zip(tables, found.values(), strict=True)}
        nothing = pd.DataFrame(columns=["agent", "seed", "task", "frames", "score"])
        _report(run, pd.concat(tables, ignore_index=True), nothing, names, console)
    return run


@dataclass(frozen=True)
class AgentScores:
    """The configuration of a report about trained agents."""

    weights: Mapping[str, str]
    """Checksums of the weights, by the name of the agent's directory."""


def _agents_in(directory: Path) -> dict[Path, TrainConfig]:
    """Agent directories with the configurations of their training; raise InputError if there are none."""
    found = {}
    for folder in sorted(path.parent for path in directory.glob("*/config.json")):
        within = RunDirectory(folder).agent
        path = within if within.is_dir() else folder
        agent = load_agent(path)
        if agent.file.environment != "room":
            raise InputError(f"The agent in {path} is for {agent.file.environment!r}; expected the room.")
        found[path] = from_json(TrainConfig, dict(agent.file.training), f"File {path / 'config.json'}")
    if not found:
        raise InputError(f"The directory {directory} has no agents; expected directories such as usfa-seed-0.")
    return found


def _name_of(agent: Path) -> str:
    """The name of an agent's directory, or of the run that it is in."""
    return agent.parent.name if agent == RunDirectory(agent.parent).agent else agent.name


def _score_in_parallel(
    agents: Mapping[Path, TrainConfig], path: Path, at_once: int, console: Console | None
) -> list[pd.DataFrame]:
    """Scores of every agent, from processes of their own; finished tables are kept in `path`."""
    path.mkdir(exist_ok=True)
    tables = {directory: path / f"{_name_of(directory)}.csv" for directory in agents}
    missing = [directory for directory in agents if not tables[directory].exists()]
    done = len(agents) - len(missing)
    with (
        progress_bar(f"scoring {len(agents)} agents", len(agents), "agents", console) as bar,
        without_working_directory(),
        ProcessPoolExecutor(at_once, multiprocessing.get_context("spawn")) as pool,
    ):
        bar.update(done)
        running = [pool.submit(_score, directory, agents[directory], tables[directory]) for directory in missing]
        for count, future in enumerate(as_completed(running), done + 1):
            future.result()
            bar.update(count)
    return [read_scores(table) for table in tables.values()]


def _score(directory: Path, config: TrainConfig, table: Path) -> None:
    write_table(table, score_agent(load_agent(directory), config, agent_name(config)))

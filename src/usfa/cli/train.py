"""`usfa train`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import pandas as pd
import tyro

from usfa.agents import part_texts
from usfa.cli.options import HELP, Output
from usfa.cli.parsing import parse, parse_some
from usfa.cli.tables import print_table
from usfa.cli.terminal import print_lines, print_next, progress_console
from usfa.cluster import ClusterConfig, read_account
from usfa.environments import ENVIRONMENTS, LEARNED, check_trusted, known_phi, similar_environments
from usfa.environments.room.yardstick import is_standard_room, read_yardstick
from usfa.errors import InputError, unknown_name
from usfa.evaluation import summarise
from usfa.figures import save
from usfa.figures.learning import learning_curves
from usfa.paper.room_report import ROOM_TITLE, final_table, has_rows_for, summary_of
from usfa.phi import LearnedPhi
from usfa.records import to_json
from usfa.registry import import_modules, is_own
from usfa.runs import (
    PRESETS,
    Callback,
    TensorBoard,
    TrainConfig,
    WeightsAndBiases,
    load_features,
    preset,
    settings_for,
    train,
)
from usfa.runs.budget import check_budget
from usfa.runs.curves import curves_of
from usfa.runs.directory import RunDirectory
from usfa.runs.loading import read_training
from usfa.runs.presets import agent_name
from usfa.runs.settings import fitting_numbers
from usfa.tasks import format_task, parse_task, parse_tasks

__all__ = ["Train", "run"]


@dataclass(frozen=True)
class Train:
    """Settings of a training run, its directory and its cluster."""

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)
    cluster: Annotated[ClusterConfig, tyro.conf.arg(name="")] = field(default_factory=ClusterConfig)
    frames: int | None = None
    """Budget in environment steps. Without a preset, few steps get more updates each; a preset with a budget in frames
    keeps the interval between its snapshots."""
    minutes: float | None = None
    """Budget in time, alone or with --frames. Without a preset, it includes measuring before and scoring after
    training; with a preset, training ends after this time or with the preset's own budget."""
    tensorboard: bool = False
    """Log for TensorBoard into the run directory (extra tensorboard)."""
    wandb: str | None = None
    """Log to this project of Weights & Biases (extra wandb)."""

    @property
    def callbacks(self) -> list[Callback]:
        """The loggers; InputError if one is not installed."""
        loggers: list[Callback] = [TensorBoard()] if self.tensorboard else []
        return loggers + ([WeightsAndBiases(self.wandb)] if self.wandb is not None else [])

    @property
    def resolved(self) -> TrainConfig:
        """The configuration with --frames and --minutes applied; if it has a time limit already, that is kept."""
        check_budget(self.frames, self.minutes)
        learner, evaluation = self.config.learner, self.config.evaluation
        if self.minutes is not None and not learner.counts_time:
            learner = replace(learner, time_limit=60 * self.minutes)
        if self.frames is None:
            return replace(self.config, learner=learner)
        snapshots = evaluation.snapshots
        if learner.budget_unit == "frames":
            snapshots = max(1, round(snapshots * self.frames / learner.budget))
        return replace(
            self.config,
            learner=replace(learner, budget=self.frames, budget_unit="frames"),
            evaluation=replace(evaluation, snapshots=snapshots),
        )


@dataclass(frozen=True)
class _Discount:
    gamma: float | None = None


@dataclass(frozen=True)
class _EnvironmentOptions:
    """The options of an environment that its default settings depend on."""

    environment_arguments: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    phi: str = "reward"
    frames: int | None = None
    minutes: float | None = None
    learner: _Discount = field(default_factory=_Discount)


@dataclass(frozen=True)
class _LearnerNumbers:
    environments: int | None = None
    updates_per_round: int | None = None
    replay_ratio: int | None = None
    tasks: str | None = None


@dataclass(frozen=True)
class _Numbers:
    """The options that must divide one another."""

    training_tasks: str | None = None
    learner: _LearnerNumbers = field(default_factory=_LearnerNumbers)


def run(words: list[str]) -> None:
    if words[:1] == ["--env"]:
        words = words[1:]
    if not words or words[0].startswith("-"):
        print(HELP["train"])
        raise InputError(f"A preset is missing; expected one of {', '.join(PRESETS)}, or an environment.")
    trust, (what, *rest) = "--trust" in words, [word for word in words if word != "--trust"]
    import_modules(word.partition("=")[2] if word.startswith("--") else word for word in rest)
    rest = _with_loaded_phi(rest, trust)
    config, name = _configuration(what, rest, trust)
    command = _with_flags(name, rest, config)
    if command.output.resume:  # a resumed run keeps its settings; flags may only repeat them
        saved = RunDirectory(command.output.path(name)).config(TrainConfig, trust)
        _check_same_run(what, command.config, saved, command.output.path(name))
        named = (saved.environment, saved.phi) == (command.config.environment, command.config.phi)
        check_trusted(saved.environment, trust or named, saved.phi)
        command = _with_flags(name, rest, saved)
    else:
        _tell_fitted(config, command.config, rest)
    path, existing = command.output.path(name), command.output.existing
    callbacks, console = command.callbacks, progress_console()
    finished = existing == "resume" and RunDirectory(path).scores.exists()
    done = train(command.resolved, path, existing, console, cluster=command.cluster, callbacks=callbacks)
    if finished:
        print_lines(f"The run in {path} was finished already; these are its scores.")
    _print_training(done)


def _with_loaded_phi(words: list[str], trust: bool) -> list[str]:
    """Load the φ of --phi DIRECTORY, and replace the directory by the text of φ."""
    before = next((index for index, word in enumerate(words[:-1]) if word == "--phi"), None)
    if before is None or not Path(words[before + 1]).is_dir():
        return words
    return [*words[: before + 1], load_features(words[before + 1], trust).text, *words[before + 2 :]]


def _check_same_run(what: str, named: TrainConfig, saved: TrainConfig, path: Path) -> None:
    """Resuming ignores the given settings, so reject the name of a different preset."""
    there, given = ((config.environment, agent_name(config)) for config in (saved, named))
    if there != given:
        raise InputError(
            f"The run in {path} trains {there[1]} in {there[0]}; {what} is {given[1]} in {given[0]}. "
            "Expected the name and the flags that the run was started with."
        )


def _configuration(what: str, words: list[str], trust: bool) -> tuple[TrainConfig, str]:
    """The configuration for the first word (a file, an environment or a preset), and the name of the run."""
    if what.endswith(".json"):
        config = read_training(Path(what), trust)
        check_trusted(config.environment, trust, config.phi)
        return config, Path(what).resolve().parent.name
    if what in ENVIRONMENTS or re.search(r":|-v\d+$", what):
        options = parse_some(_EnvironmentOptions, words)
        given = (what, options.environment_arguments, options.phi, progress_console())
        if "--resume" in words:  # the settings are in the run; steps of the environment may be expensive
            config = settings_for(*given, random_steps=1)
        else:
            config = settings_for(*given, options.frames, options.minutes, gamma=options.learner.gamma)
        return config, re.sub(r"[:/]", "-", what)
    if what not in PRESETS:
        raise unknown_name("preset or environment", what, [*PRESETS, *ENVIRONMENTS, *similar_environments(what)])
    return preset(what), what


def _with_flags(name: str, words: list[str], config: TrainConfig) -> Train:
    """Apply flags to a configuration; environment arguments are added to those in the configuration.

    tyro does not see the latter, because it would make a flag of each and accept no others.
    """
    plain = Train(replace(_fitting(config, words), environment_arguments={}))
    command: Train = parse(Train, f"train {name}", words, plain, HELP["train"])
    arguments = {**config.environment_arguments, **command.config.environment_arguments}
    return replace(command, config=replace(command.config, environment_arguments=arguments))


def _fitting(config: TrainConfig, words: list[str]) -> TrainConfig:
    """Apply the flags for numbers that must divide one another, and choose those without a flag to fit."""
    given = parse_some(_Numbers, words)
    changes = {name: value for name, value in vars(given.learner).items() if value is not None}
    tasks = given.training_tasks or config.training_tasks
    fitted = fitting_numbers(config.learner, len(parse_tasks(tasks)), changes)
    return replace(config, training_tasks=tasks, learner=replace(config.learner, **fitted))


def _tell_fitted(before: TrainConfig, now: TrainConfig, words: list[str]) -> None:
    """Print the numbers that were changed to fit the others."""
    for name in ("environments", "updates_per_round"):
        old, new = (getattr(config.learner, name) for config in (before, now))
        if old != new and not any(word.startswith(f"--learner.{name.replace('_', '-')}") for word in words):
            progress_console().print(
                f"learner.{name} is {new} instead of {old}, to fit the other numbers.", highlight=False, soft_wrap=True
            )


def _print_training(run: RunDirectory) -> None:
    config, scores = run.config(TrainConfig), run.read_scores()
    if is_standard_room(config.environment, config.environment_arguments, config.phi) and has_rows_for(scores):
        print_table(final_table(summary_of(scores, read_yardstick())), ROOM_TITLE)
    else:
        _print_means(scores)
    if scores.snapshot.max() < config.milestones[-1]:
        print_lines(f"The last snapshot is missing; these are the scores of snapshot {scores.snapshot.max()}.")
    last = scores[scores.snapshot == scores.snapshot.max()]
    print_lines(
        f"Trained for {round(last.frames.mean()):,} steps and {round(last.episodes.mean()):,} episodes per seed."
    )
    curve = run.figures / "learning-curve.png"
    run.claim(f"{run.figures.name}/{curve.name}")
    save(learning_curves(curves_of(scores)), curve)
    print_lines(f"Learning curve: {curve}")
    if run.was_written(run.trajectories):
        run.check_unchanged(run.trajectories.name)
        print_lines(f"Of the actors: {read_account(run.trajectories)}.")
    task = format_task(parse_task(scores.task.iloc[-1]).round(2))
    own = [text for text in part_texts(to_json(config)) if isinstance(text, str) and is_own(text)]
    trust = " --trust" if own or ":" in config.environment or _runs_code(config.phi) else ""
    print_next(f"evaluate {run.path} --task {task}{trust}")


def _runs_code(phi: str) -> bool:
    """Whether loading φ from a file would run functions or classes of users."""
    if phi.startswith(LEARNED):
        learned = known_phi(phi)
        return isinstance(learned, LearnedPhi) and bool(learned.functions)
    return ":" in phi


def _print_means(scores: pd.DataFrame) -> None:
    final = scores[scores.snapshot == scores.snapshot.max()]
    final = final.assign(gap=final.optimal - final.score)
    known = bool(final.gap.notna().all())
    summary = summarise(final, ["candidates", "rule", "task_set"], "gap" if known else "score")
    shown = summary[["candidates", "rule", "task_set", "mean", "low", "high", "runs"]]
    interval = ", 95 % interval" if shown.low.notna().any() else ""
    print_table(shown, f"{'mean gap to the optimum' if known else 'mean undiscounted return'}{interval}")

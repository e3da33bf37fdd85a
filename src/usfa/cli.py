"""The command line: `usfa train`, `usfa evaluate`, `usfa reproduce`, `usfa watch`, `usfa list`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
import tyro
from rich.console import Console
from rich.table import Table

from usfa.environments import ENVIRONMENTS, check_trusted
from usfa.errors import InputError, unknown_name
from usfa.evaluation import evaluate, read_scores, summarise
from usfa.experiments import PRESETS, SHIPPED_AGENTS, TrainConfig, load, preset, train
from usfa.experiments.one_state import OneStateExperiment, reproduce_one_state
from usfa.experiments.progress import Interrupted
from usfa.experiments.report import format_cell
from usfa.experiments.run_directory import OnExisting, RunDirectory, read_config
from usfa.experiments.trip import TripExperiment, reproduce_trip
from usfa.experiments.trip_report import final_table
from usfa.experiments.watch import Watch, watch
from usfa.tasks import CANDIDATE_SETS, TASK_SETS, format_task
from usfa.version import __version__

__all__ = ["main"]

USAGE = """usfa: one agent for every task r = φ·w, by universal successor features.

  usfa train PRESET         train an agent, all seeds at once
  usfa evaluate RUN         how a trained agent does on any task, without learning
  usfa reproduce WHAT       an experiment of the paper: trip, one-state
  usfa watch ENVIRONMENT    record a policy as film and contact sheet
  usfa list                 presets, environments, task sets, shipped agents

Examples:
  usfa reproduce trip
  usfa train trip-usfa --seeds 0 1 2 --learner.epsilon 0.3
  usfa evaluate trip --task 0.7,0.7 1,-0.5 --candidates task train sample:5
  usfa watch room --task 1,1,-1,0 --policy oracle

Each command has --help. Mistakes in the input end with one sentence and exit code 2.
"""


@dataclass(frozen=True)
class Output:
    """Where results go."""

    out: Path | None = None
    """The run directory; by default runs/NAME."""
    resume: bool = False
    """Go on with the run that is already there."""
    overwrite: bool = False
    """Replace the run that is already there."""

    def __post_init__(self) -> None:
        if self.resume and self.overwrite:
            raise InputError("--resume and --overwrite were both given; expected one of them at most.")

    @property
    def existing(self) -> OnExisting:
        return "resume" if self.resume else "overwrite" if self.overwrite else "refuse"

    def path(self, name: str) -> Path:
        path = self.out if self.out is not None else Path("runs") / name
        if self.resume and not path.exists():
            raise InputError(f"Run directory {path} does not exist; expected a run to resume.")
        return path


@dataclass(frozen=True)
class Train:
    """Train an agent with several seeds at once, freeze snapshots, score them.

    The first word is a preset (see `usfa list`) or the config.json of an earlier run; every setting can be changed.

    Examples:
      usfa train trip-usfa
      usfa train trip-usfa --seeds 0 1 2 --learner.epsilon 0.3 --out runs/greedier
      usfa train trip-usfa --resume
      usfa train runs/trip-usfa/config.json --out runs/again   (--trust, if it names a module to import)
    """

    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()


@dataclass(frozen=True)
class Evaluate:
    """Score a trained agent on any tasks, without learning.

    Examples:
      usfa evaluate trip --task 0.7,0.7
      usfa evaluate runs/trip-usfa --task 1,-0.5 11 --candidates task train train+task sample:5 "1,0;0.5,0.5"
      usfa evaluate runs/trip-usfa --task trip-directions --seed 3
    """

    run: tyro.conf.Positional[str]
    """A run directory, an agent directory, or the name of a shipped agent."""
    task: tuple[str, ...]
    """Tasks w': "1,-1,0,0", the paper's shorthand "1-100", or the name of a set such as trip-directions."""
    candidates: tuple[str, ...] = ()
    """Candidate sets C: task, train, train+task, sample:N, or vectors "1,0;0,1". By default train+task (UVFA: task)."""
    seed: int | None = None
    """Which of the training seeds; the first by default."""
    episodes: int = 20
    """Episodes per task and candidate set, where the score is not exact."""
    epsilon: float = 0.001
    """Probability of a random action in those."""
    rng: int = 0
    """Seed of the evaluation: environments, exploration, sample:N."""
    csv: bool = False
    """Print CSV instead of a table."""
    trust: bool = False
    """Allow the agent's file to name a module that its environment is imported from."""


@dataclass(frozen=True)
class ReproduceTrip:
    """Section 4.1 and Appendix B: UVFA, SF&GPI and USFA on the Trip MDP.

    Examples:
      usfa reproduce trip
      usfa reproduce trip --seeds 0 1 2 --episodes 300 --out runs/quick
    """

    experiment: Annotated[TripExperiment, tyro.conf.arg(name="")] = field(default_factory=TripExperiment)
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()


@dataclass(frozen=True)
class ReproduceOneState:
    """Appendix A: two types of generalisation in an MDP with one state.

    Examples:
      usfa reproduce one-state
    """

    experiment: Annotated[OneStateExperiment, tyro.conf.arg(name="")] = field(default_factory=OneStateExperiment)
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()


@dataclass(frozen=True)
class WatchCommand:
    """Record one episode of a policy: a film, and a contact sheet, with task, map and collected objects.

    Examples:
      usfa watch room --task 1,1,-1,0
      usfa watch room --task 1-100 --policy random --steps 150 --out random.mp4
      usfa watch room --task 11 --arguments types 2 layout "....../..##../..##../....../....../......"
      usfa watch room-doom --task 1,0,0,0 --policy random
    """

    request: Annotated[Watch, tyro.conf.arg(name="")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(words)
    except InputError as error:
        print(f"usfa: {error}", file=sys.stderr)
        return 2
    except Interrupted as stopped:
        print(f"\nusfa: {stopped}", file=sys.stderr)
        return 130
    except (FileNotFoundError, NotADirectoryError, PermissionError, IsADirectoryError) as error:
        print(f"usfa: {error.filename} cannot be used: {error.strerror}.", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("\nusfa: interrupted; the last checkpoint is kept, and --resume goes on from it.", file=sys.stderr)
        return 130


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in {"-h", "--help", "help"}:
        print(USAGE, end="")
        return 0
    if words[0] == "--version":
        print(f"usfa {__version__}")
        return 0
    commands: dict[str, Callable[[list[str]], None]] = {
        "train": _train,
        "evaluate": _evaluate,
        "reproduce": _reproduce,
        "watch": _watch,
        "list": _list,
    }
    if words[0] not in commands:
        raise unknown_name("command", words[0], commands)
    commands[words[0]](words[1:])
    return 0


def _parse(command: Any, program: str, words: list[str], default: Any = None) -> Any:
    return tyro.cli(command, prog=f"usfa {program}", args=words, default=default, description=command.__doc__)


def _train(words: list[str]) -> None:
    if not words or words[0].startswith("-"):
        print(Train.__doc__)
        if not words or words[0] not in {"-h", "--help"}:
            raise InputError(f"A preset is missing; expected one of {', '.join(PRESETS)}.")
        print(f"Presets: {', '.join(PRESETS)}. `usfa train PRESET --help` shows every setting.")
        return
    name, *rest = words
    if name.endswith(".json"):
        config, name = read_config(Path(name), TrainConfig), Path(name).resolve().parent.name
        check_trusted(config.environment, trust="--trust" in rest)
        rest = [word for word in rest if word != "--trust"]
    else:
        config = preset(name)
    command = _parse(Train, f"train {name}", rest, Train(config))
    if command.output.resume:  # what is resumed keeps its own settings; flags may only repeat them
        saved = RunDirectory(command.output.path(name)).config(TrainConfig)
        command = _parse(Train, f"train {name}", rest, Train(saved))
    run = train(command.config, command.output.path(name), command.output.existing, _progress_console())
    _print_training(Console(), run)


def _progress_console() -> Console:
    """Progress goes to stderr: stdout is for results, and may be a pipe that closes early."""
    return Console(stderr=True)


def _print_training(console: Console, run: RunDirectory) -> None:
    scores = read_scores(run.scores)
    final = scores[scores.snapshot == scores.snapshot.max()]
    final = final.assign(gap=final.optimal - final.score)
    known = bool(final.gap.notna().all())
    summary = summarise(final, ["candidates", "task_set"], "gap" if known else "score")
    shown = summary[["candidates", "task_set", "mean", "std", "low", "high", "runs", "tasks"]]
    title = "mean gap to the optimum, 95 % interval" if known else "mean score, 95 % interval"
    console.print(_table(shown, title))
    _print_next(console, f"evaluate {run.path} --task {scores.task.iloc[-1]}")


def _evaluate(words: list[str]) -> None:
    command = _parse(Evaluate, "evaluate", words)
    if not command.task:
        raise InputError("--task is empty; expected at least one task, such as 1,0.")
    agent = load(command.run, command.seed)
    tables = [
        evaluate(
            agent,
            task,
            command.candidates or None,
            episodes=command.episodes,
            epsilon=command.epsilon,
            seed=command.rng,
            trust=command.trust,
        )
        for task in command.task
    ]
    table = pd.concat(tables, ignore_index=True)
    if command.csv:
        print(table.to_csv(index=False), end="")
        return
    known = bool(table.optimal.notna().any())
    table = table.drop(columns=["std"] if known else ["optimal", "gap"])
    Console().print(_table(table, repr(agent)))


def _reproduce(words: list[str]) -> None:
    experiments: dict[str, Callable[[list[str]], None]] = {
        "trip": _reproduce_trip,
        "one-state": _reproduce_one_state,
    }
    if not words or words[0] in {"-h", "--help"}:
        print("usfa reproduce trip|one-state: an experiment of the paper, end to end, into a run directory.")
        print("`usfa reproduce trip --help` shows every setting.")
        return
    if words[0] not in experiments:
        raise unknown_name("experiment", words[0], experiments)
    experiments[words[0]](words[1:])


def _reproduce_trip(words: list[str]) -> None:
    command = _parse(ReproduceTrip, "reproduce trip", words)
    path, console = command.output.path("trip"), Console()
    reproduce_trip(command.experiment, path, command.output.existing, _progress_console())
    summary = pd.read_csv(path / "summary.csv")
    final = final_table(summary, "trip-directions")[["method", "mean gap", "95 % interval", "runs"]]
    console.print(_table(final, "Trip MDP: mean optimality gap over the 51 directions"))
    _print_report(console, path)
    _print_next(console, f"evaluate {path / 'runs' / 'usfa'} --task 0.7,0.7 --candidates task sample:5")


def _reproduce_one_state(words: list[str]) -> None:
    command = _parse(ReproduceOneState, "reproduce one-state", words)
    path, console = command.output.path("one-state"), Console()
    reproduce_one_state(command.experiment, path, command.output.existing, _progress_console())
    _print_report(console, path)
    _print_next(console, f"evaluate {path / 'runs' / 'usfa'} --task -0.2 --candidates task train")


def _print_report(console: Console, path: Path) -> None:
    console.print(f"Report: {path / 'report.md'}   figures: {path / 'figures'}", soft_wrap=True)


def _print_next(console: Console, command: str) -> None:
    console.print(f"Next: {_program()} {command}", soft_wrap=True)


def _program() -> str:
    """How we were called, so that the next command can be copied."""
    called = sys.argv[0]
    if Path(called).name != "usfa":
        return "python -m usfa"
    on_path = shutil.which("usfa")
    return "usfa" if on_path and Path(on_path).samefile(called) else called


def _watch(words: list[str]) -> None:
    if not words or words[0].startswith("-"):
        print(WatchCommand.__doc__)
        if not words or words[0] not in {"-h", "--help"}:
            raise InputError(f"An environment is missing; expected one of {', '.join(ENVIRONMENTS)}.")
        return
    environment, *rest = words
    command = _parse(WatchCommand, f"watch {environment}", rest)
    film, sheet = watch(environment, command.request, _progress_console())
    Console().print(f"Film: {film}   contact sheet: {sheet}", soft_wrap=True)


def _list(words: list[str]) -> None:
    if words:
        print("usfa list: presets, environments, task sets, candidate sets and shipped agents. It has no options.")
        if words[0] not in {"-h", "--help"}:
            raise InputError(f"`usfa list` was given {words[0]!r}; expected nothing.")
        return
    console = Console()
    sets = {name: f"{len(w)} tasks, D={w.shape[1]}: {format_task(w[0])} …" for name, w in TASK_SETS.items()}
    sections: dict[str, dict[str, str]] = {
        "presets (usfa train)": {name: about for name, (_, about) in PRESETS.items()},
        "environments": {name: entry.about for name, entry in ENVIRONMENTS.items()},
        "task sets": sets,
        "candidate sets (--candidates)": CANDIDATE_SETS,
        "shipped agents (usfa evaluate, usfa.load)": SHIPPED_AGENTS,
    }
    for title, entries in sections.items():
        console.print(_table(pd.DataFrame({"name": list(entries), "": list(entries.values())}), title))


def _table(rows: pd.DataFrame, title: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name, column in rows.items():
        justify: Literal["left", "right"] = "right" if pd.api.types.is_numeric_dtype(column) else "left"
        table.add_column(str(name), justify=justify)
    for row in rows.itertuples(index=False):
        table.add_row(*(format_cell(cell) for cell in row))
    return table

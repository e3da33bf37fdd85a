"""`usfa diagnose`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import tyro
from rich.console import Console

from usfa.agents import TrainedAgent
from usfa.cli.terminal import parse, print_next, progress_console, table_of
from usfa.environments.room import OBJECTS
from usfa.environments.room.scale import is_standard_room
from usfa.errors import InputError
from usfa.evaluation import Diagnosis, diagnose, write_table
from usfa.figures import save
from usfa.figures.diagnosis import diagnosis_figure
from usfa.files import require_free
from usfa.runs import load, measure_and_save

__all__ = ["Diagnose", "run"]

_STUCK = 60  # idle steps in a row that are worth a remark


@dataclass(frozen=True)
class Diagnose:
    """Why an agent does well or badly on a task: ψ·w and return of each policy, which of them rules trust, idle steps.

    Examples:
      usfa diagnose room --task -1100
      usfa diagnose room --task -1100 --candidates train+task --rule gpi cautious follow
      usfa diagnose runs/mine --task 1,-0.5 --episodes 30 --out runs/why
      usfa diagnose runs/mine --measure          (how wrong ψ is, for agents that were saved before this was measured)
    """

    run: tyro.conf.Positional[str]
    """A run directory, an agent directory, or the name of a shipped agent."""
    task: str | None = None
    """The task w: "1,-1,0,0" or the paper's shorthand "1-100"."""
    candidates: str | None = None
    """Candidate set C: task, train, train+task, sample:N, or vectors; by default the agent's."""
    rule: tuple[str, ...] = ()
    """Decision rules to compare: cautious, cautious:2, gpi, follow; by default the agent's and gpi."""
    episodes: int = 10
    """Episodes by each rule, and by each policy alone."""
    epsilon: float = 0.001
    """Probability of a random action."""
    seed: int | None = None
    """Which of the training seeds; the first by default."""
    rng: int = 0
    """Seed of the episodes: environments, exploration, sample:N."""
    out: Path | None = None
    """Where the tables and the figure go; by default runs/diagnose-RUN-TASK."""
    overwrite: bool = False
    """Replace the results of an earlier call, or with --measure an accuracy that was measured before."""
    measure: bool = False
    """Measure how wrong ψ is, and save it with the agent; with --task, diagnose it afterwards."""
    trust: bool = False
    """Allow the agent's file to name a module that its environment is imported from."""

    def __post_init__(self) -> None:
        if self.task is None and not self.measure:
            raise InputError("--task is missing; expected a task, such as 1,0, or --measure.")

    @property
    def path(self) -> Path:
        name = re.sub(r"[:/;]", "-", f"diagnose-{Path(self.run).resolve().name}-{self.task}")
        return self.out if self.out is not None else Path("runs") / name


def run(words: list[str]) -> None:
    command = parse(Diagnose, "diagnose", words)
    if command.measure:
        _measure(command)
    if command.task is not None:
        _diagnose(command)


def _measure(command: Diagnose) -> None:
    agents = measure_and_save(command.run, command.overwrite, command.trust, progress_console())
    for agent in agents:
        Console().print(table_of(_accuracy(agent), f"{agent!r}: how wrong ψ is"))


def _accuracy(agent: TrainedAgent) -> pd.DataFrame:
    """Two rows of text: errors per feature, and optimism by distance."""
    assert agent.accuracy is not None
    steps = ", ".join(f"{error:.1%}" for error in agent.accuracy.step_error)
    promises = ", ".join(f"{share:.0%} at {distance:.2g}" for distance, share in agent.accuracy.optimism)
    rows = {"error between steps, per feature": steps, "optimism, by distance from D_z": promises}
    return pd.DataFrame({"": list(rows), "share": list(rows.values())})


def _diagnose(command: Diagnose) -> None:
    agent, console = load(command.run, command.seed), Console()
    results = [command.path / name for name in ("actors.csv", "candidates.csv", "features.csv", "diagnosis.png")]
    for path in results:
        require_free(path, command.overwrite)
    found = diagnose(
        agent,
        command.task or "",
        command.candidates,
        command.rule or None,
        episodes=command.episodes,
        epsilon=command.epsilon,
        seed=command.rng,
        trust=command.trust,
        console=progress_console(),
    )
    for path, table in zip(results, (found.actors, found.candidates, found.features), strict=False):
        write_table(path, table)
    title = f"{command.run} on task {command.task}, {command.episodes} episodes each"
    save(diagnosis_figure(found.actors, found.candidates, found.features, title, _names(agent)), results[-1])
    _print(console, agent, found, title, command.episodes)
    console.print(f"Tables: {command.path}   figure: {results[-1]}", soft_wrap=True)
    print_next(console, f"evaluate {command.run} --task {command.task} --rule cautious gpi follow single")


def _names(agent: TrainedAgent) -> tuple[str, ...]:
    if not is_standard_room(agent.file.environment, agent.file.environment_arguments):
        return ()
    return tuple(kind.name for kind in OBJECTS[: agent.file.spec.features])


def _print(console: Console, agent: TrainedAgent, found: Diagnosis, title: str, episodes: int) -> None:
    actors = found.actors.assign(**{name: found.actors[name].map("{:.3g}".format) for name in ("score", "std")})
    shares = {name: actors[name].map("{:.1%}".format) for name in ("improved", "undone", "idle")}
    console.print(table_of(actors.assign(**shares), title))
    rules, alone = (found.actors[found.actors.actor == kind] for kind in ("rule", "policy"))
    for rule in rules.name:
        console.print(table_of(_candidates(found, rule), f"Policies in C by {rule}: discounted value, share of steps"))
    best = alone.loc[alone.score.idxmax()]
    for rule in rules.itertuples():
        verdict = _verdict(rule.score - best.score, _standard_error((rule.std, best["std"]), episodes))
        stuck = f", and idle for {rule.longest_idle} steps in a row" if rule.longest_idle > _STUCK else ""
        console.print(f"{rule.name}: {verdict} the best policy alone ({best['name']}){stuck}.", soft_wrap=True)
    if agent.accuracy is None and agent.file.kind == "usfa":
        unmeasured = "How wrong ψ is was not measured, and the cautious rule assumes it; --measure measures it."
        console.print(unmeasured, soft_wrap=True)


def _standard_error(stds: tuple[float, float], episodes: int) -> float:
    """Of the difference of two means."""
    return math.hypot(*stds) / math.sqrt(episodes)


def _verdict(difference: float, standard_error: float) -> str:
    if abs(difference) <= 1.96 * standard_error or difference == 0:
        return "level, within the noise of these episodes, with"
    return "above" if difference > 0 else "below"


def _candidates(found: Diagnosis, rule: str) -> pd.DataFrame:
    """The policies in C, and how often one rule trusted each."""
    table = found.candidates[["policy"]]
    table = table.assign(
        **{name: found.candidates[name].map("{:.2f}".format) for name in ("distance", "promised", "realised")}
    )
    return table.assign(
        followed=found.candidates[f"followed, {rule}"].map("{:.1%}".format),
        improved=found.candidates[f"improved, {rule}"].map("{:.1%}".format),
    )

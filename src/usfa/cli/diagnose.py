"""`usfa diagnose`."""

from __future__ import annotations

import math

import pandas as pd

from usfa.agents import TrainedAgent
from usfa.cli.options import Diagnose
from usfa.cli.tables import print_table
from usfa.cli.terminal import print_lines, print_next, progress_console
from usfa.environments import feature_names
from usfa.evaluation import Diagnosis, diagnose, environments_of, write_table
from usfa.figures import save
from usfa.figures.diagnosis import diagnosis_figure
from usfa.files import require_free
from usfa.registry import import_modules
from usfa.runs import load, measure_and_save

__all__ = ["run"]

_STUCK = 60  # idle steps in a row that are reported


def run(command: Diagnose) -> None:
    if command.measure:
        _measure(command)
    if command.task is not None:
        _diagnose(command)


def _measure(command: Diagnose) -> None:
    agents = measure_and_save(command.run, command.overwrite, command.trust, progress_console())
    for agent in agents:
        print_table(_accuracy(agent), f"{agent!r}: error of ψ")


def _accuracy(agent: TrainedAgent) -> pd.DataFrame:
    """A table of two rows: errors per feature, and optimism by distance."""
    assert agent.accuracy is not None
    steps = ", ".join(f"{error:.1%}" for error in agent.accuracy.step_error)
    promises = ", ".join(f"{share:.0%} at {distance:.2g}" for distance, share in agent.accuracy.optimism)
    rows = {"error between steps, per feature": steps, "optimism, by distance from D_z": promises}
    return pd.DataFrame({"": list(rows), "share": list(rows.values())})


def _diagnose(command: Diagnose) -> None:
    import_modules(command.rule)
    agent = load(command.run, command.seed, command.trust)
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
        break_loops=command.break_loops,
        trust=command.trust,
        console=progress_console(),
    )
    for path, table in zip(results, (found.actors, found.candidates, found.features), strict=False):
        write_table(path, table)
    title = f"{command.run} on task {command.task}, {command.episodes} episodes each"
    save(
        diagnosis_figure(found.actors, found.candidates, found.features, title, _feature_names(agent, command.trust)),
        results[-1],
    )
    _print(agent, found, title, command.episodes)
    print_lines(f"Tables: {command.path}   figure: {results[-1]}")
    print_next(f"evaluate {command.run} --task {command.task} --rule cautious steady gpi single")


def _feature_names(agent: TrainedAgent, trust: bool) -> tuple[str, ...]:
    with environments_of(agent, trust).opened() as env:
        return feature_names(env)


def _print(agent: TrainedAgent, found: Diagnosis, title: str, episodes: int) -> None:
    actors = found.actors.assign(**{name: found.actors[name].map("{:.3g}".format) for name in ("score", "std")})
    shares = {name: actors[name].map("{:.1%}".format) for name in ("improved", "undone", "idle")}
    print_table(actors.assign(**shares), title)
    rules, alone = (found.actors[found.actors.actor == kind] for kind in ("rule", "policy"))
    for rule in rules.name:
        print_table(_candidates(found, rule), f"Policies in C by {rule}: discounted value, share of steps")
    best = alone.loc[alone.score.idxmax()]
    for rule in rules.itertuples():
        verdict = _verdict(rule.score - best.score, _standard_error((rule.std, best["std"]), episodes))
        stuck = f", and idle for {rule.longest_idle} steps in a row" if rule.longest_idle > _STUCK else ""
        print_lines(f"{rule.name}: {verdict} the best policy alone ({best['name']}){stuck}.")
    if agent.accuracy is None and agent.actor.learns_psi:
        print_lines("The error of ψ was not measured, so cautious and steady assume one; measure it with --measure.")


def _standard_error(stds: tuple[float, float], episodes: int) -> float:
    """The standard error of the difference of two means."""
    return math.hypot(*stds) / math.sqrt(episodes)


def _verdict(difference: float, standard_error: float) -> str:
    if abs(difference) <= 1.96 * standard_error or difference == 0:
        return "level, within the noise of these episodes, with"
    return "above" if difference > 0 else "below"


def _candidates(found: Diagnosis, rule: str) -> pd.DataFrame:
    """The policies in C, and how often one rule trusted each."""
    table = found.candidates
    columns = {"policy": table.policy}
    columns |= {name: table[name].map("{:.2f}".format) for name in ("distance", "promised", "realised")}
    columns |= {name: table[f"{name}, {rule}"].map("{:.1%}".format) for name in ("followed", "improved")}
    return pd.DataFrame(columns)

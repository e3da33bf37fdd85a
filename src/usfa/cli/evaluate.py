"""`usfa evaluate`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from rich.console import Console

from usfa.agents import TrainedAgent
from usfa.cli.terminal import AgentOptions, parse, print_lines, progress_console, table_of
from usfa.decisions import PAPER_RULE, SINGLE
from usfa.environments.room.yardstick import as_a_whole, is_standard_room, measured, read_yardstick
from usfa.errors import InputError
from usfa.evaluation import evaluate
from usfa.registry import import_modules
from usfa.runs import load

__all__ = ["Evaluate", "run"]


@dataclass(frozen=True, kw_only=True)
class Evaluate(AgentOptions):
    """Score a trained agent on any tasks, without learning.

    Examples:
      usfa evaluate trip --task 0.7,0.7
      usfa evaluate room --task room-hard --candidates train task
      usfa evaluate room --task room-hard --rule cautious gpi single
      usfa evaluate runs/trip-usfa --task 1,-0.5 11 --candidates task train train+task sample:5 "1,0;0.5,0.5"
      usfa evaluate runs/trip-usfa --task trip-directions --seed 3
      usfa evaluate runs/acrobot --task 1,0 --rewards own_rewards:height
    """

    task: tuple[str, ...]
    """Tasks w': "1,-1,0,0", the paper's shorthand "1-100", or the name of a set such as trip-directions."""
    candidates: tuple[str, ...] = ()
    """Candidate sets C: task, train, train+task, sample:N, or vectors "1,0;0,1".
    By default train+task; train if only policies near M were learned, task for a UVFA."""
    rule: tuple[str, ...] = ()
    """Decision rules: cautious, cautious:0.5, gpi (Eq. 3), follow; single is the best policy of C in hindsight.
    By default the agent's rule, and also single if C has several policies."""
    episodes: int = 20
    """Episodes per task, candidate set and rule, if the score is not exact."""
    epsilon: float = 0.001
    """Probability of a random action in these episodes."""
    rewards: tuple[str, ...] = ()
    """The reward of each task, see usfa learn-features, where φ·w only approximates it: scores are returns in these."""
    csv: bool = False
    """Print CSV instead of a table."""


def run(words: list[str]) -> None:
    command = parse(Evaluate, "evaluate", words)
    if not command.task:
        raise InputError("--task is empty; expected at least one task, such as 1,0.")
    import_modules((*command.rule, *command.rewards))
    agent = load(command.run, command.seed, command.trust)
    tables = [_scores(command, agent, task) for task in command.task]
    if is_standard_room(agent.file.environment, agent.file.environment_arguments):
        yardstick = read_yardstick()
        tables = [measured(table, yardstick) for table in tables]
        if not command.csv:
            tables = [_with_whole(table, name) for table, name in zip(tables, command.task, strict=True)]
    table = pd.concat(tables, ignore_index=True)
    if command.csv:
        print(table.to_csv(index=False), end="")
        return
    known = bool(table.optimal.notna().any())
    table = table.drop(columns=["std"] if known else ["optimal", "gap"])
    how = "exact returns" if known else f"undiscounted returns of {command.episodes} episodes, ε = {command.epsilon:g}"
    Console().print(table_of(_rounded(table) if "normalised" in table else table, f"{agent!r}: {how}"))
    rules = set(table.rule)
    if SINGLE in rules:
        print_lines("single: the best policy of C for each task in hindsight, followed alone.")
    if agent.accuracy is None and agent.actor.learns_psi and not rules <= {PAPER_RULE, SINGLE}:
        print_lines(f"The error of ψ is assumed; measure it with usfa diagnose {command.run} --measure.")


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Round the scores in the room, so that the table fits into a terminal."""
    digits = {"score": 1, "std": 1, "random": 1, "oracle": 1, "normalised": 2}
    cells = {
        name: ["–" if math.isnan(value) else f"{value:.{count}f}" for value in table[name]]
        for name, count in digits.items()
    }
    return table.assign(**cells).rename(columns={"normalised": "norm."})


def _scores(command: Evaluate, agent: TrainedAgent, task: str) -> pd.DataFrame:
    parts = [
        evaluate(
            agent,
            task,
            candidates,
            command.rule or _default_rules(agent, candidates),
            episodes=command.episodes,
            epsilon=command.epsilon,
            seed=command.rng,
            trust=command.trust,
            console=progress_console(),
            rewards=command.rewards or None,
        )
        for candidates in command.candidates or (agent.default_candidates,)
    ]
    return pd.concat(parts, ignore_index=True)


def _default_rules(agent: TrainedAgent, candidates: str) -> tuple[str, ...]:
    size = len(agent.candidates(agent.training_tasks[0], candidates, np.random.default_rng(0)).z)
    return (agent.default_rule, SINGLE) if size > 1 else (agent.default_rule,)


def _with_whole(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Add a row for the whole set of tasks, if the yardstick has all of them."""
    if table.task.nunique() == 1 or table.normalised.isna().any():
        return table
    return pd.concat([table, as_a_whole(table, name)], ignore_index=True)

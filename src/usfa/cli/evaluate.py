"""`usfa evaluate`."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from usfa.agents import TrainedAgent
from usfa.cli.options import Evaluate
from usfa.cli.tables import print_table
from usfa.cli.terminal import print_lines, progress_console
from usfa.decisions import PAPER_RULE, SINGLE
from usfa.environments import reward_texts
from usfa.environments.room.yardstick import as_a_whole, is_standard_room, measured, read_yardstick
from usfa.errors import InputError
from usfa.evaluation import evaluate
from usfa.registry import import_modules
from usfa.runs import load
from usfa.tasks import format_task, parse_task, parse_tasks

__all__ = ["run"]


def run(command: Evaluate) -> None:
    if not command.task:
        raise InputError("RUN or --task is missing; expected both, as in usfa evaluate trip --task 1,0.")
    import_modules((*command.rule, *command.rewards))
    agent = load(command.run, command.seed, command.trust)
    rewards = _rewards_by_task(command)
    tables = [_scores(command, agent, task, own) for task, own in zip(command.task, rewards, strict=True)]
    if is_standard_room(agent.file.environment, agent.file.environment_arguments, agent.file.phi):
        yardstick = read_yardstick()
        tables = [measured(table, yardstick) for table in tables]
        if not command.csv:
            tables = [_with_whole(table, name) for table, name in zip(tables, command.task, strict=True)]
    if not command.csv:  # CSV names tasks as scores.csv does
        tables = [_as_typed(table, task) for table, task in zip(tables, command.task, strict=True)]
    table = pd.concat(tables, ignore_index=True)
    if command.csv:
        print(table.to_csv(index=False), end="")
        return
    known = bool(table.optimal.notna().any())
    table = table.drop(columns=["std"] if known else ["optimal", "gap"])
    how = "exact returns" if known else f"undiscounted returns of {command.episodes} episodes, ε = {command.epsilon:g}"
    print_table(_rounded(table) if "normalised" in table else table, f"{agent!r}: {how}")
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


def _rewards_by_task(command: Evaluate) -> list[list[str] | None]:
    """Split the rewards among the words of --task, each of which may name several tasks; None without rewards."""
    if not command.rewards:
        return [None] * len(command.task)
    texts = [text for word in command.rewards for text in reward_texts(word)]
    sizes = [len(parse_tasks(task)) for task in command.task]
    if len(texts) != sum(sizes):
        raise InputError(f"There are {len(texts)} rewards for {sum(sizes)} tasks; expected one for each.")
    ends = np.cumsum(sizes).tolist()
    return [texts[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _scores(command: Evaluate, agent: TrainedAgent, task: str, rewards: list[str] | None) -> pd.DataFrame:
    parts = [
        evaluate(
            agent,
            task,
            candidates,
            command.rule or _default_rules(agent, candidates),
            episodes=command.episodes,
            epsilon=command.epsilon,
            seed=command.rng,
            break_loops=command.break_loops,
            trust=command.trust,
            console=progress_console(),
            rewards=rewards,
        )
        for candidates in command.candidates or (agent.default_candidates,)
    ]
    return pd.concat(parts, ignore_index=True)


def _default_rules(agent: TrainedAgent, candidates: str) -> tuple[str, ...]:
    size = len(agent.candidates(agent.training_tasks[0], candidates, np.random.default_rng(0)).z)
    return (agent.default_rule, SINGLE) if size > 1 else (agent.default_rule,)


def _as_typed(table: pd.DataFrame, text: str) -> pd.DataFrame:
    """Name tasks as they were typed; those of a set keep their names."""
    typed = {} if text[:1].isalpha() else {format_task(parse_task(part)): part for part in text.split(";")}
    return table.assign(task=table.task.replace(typed))


def _with_whole(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Add a row for the whole set of tasks, if the yardstick has all of them."""
    if table.task.nunique() == 1 or table.normalised.isna().any():
        return table
    return pd.concat([table, as_a_whole(table, name)], ignore_index=True)

"""One call: how well does a trained agent do on these tasks, with these candidate sets?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from rich.console import Console

from usfa.agents import TrainedAgent
from usfa.decisions import SINGLE, CandidateSet, Rule, parse_rule, rule_name
from usfa.errors import InputError
from usfa.evaluation.episodes import environments_of, playing
from usfa.evaluation.scoring import ScoringProtocol, score
from usfa.tasks import format_task, parse_tasks

__all__ = ["evaluate", "listed_rules"]


def evaluate(
    agent: TrainedAgent,
    tasks: str | ArrayLike,
    candidates: str | ArrayLike | Sequence[str] | None = None,
    rules: str | Rule | Sequence[str | Rule] | None = None,
    *,
    episodes: int = 20,
    epsilon: float = 0.001,
    seed: int = 0,
    exact: bool | None = None,
    trust: bool = False,
    console: Console | None = None,
) -> pd.DataFrame:
    """The agent's mean return on every task with every candidate set and decision rule, without learning.

    In a finite MDP the score is exact and comes with the optimum; elsewhere it is the mean of whole episodes.

    Args:
        agent: from :func:`usfa.load`.
        tasks: one vector, several, their text ("1,0;0.5,0.5"), or the name of a set ("trip-directions").
        candidates: a set C, or several names; by default :attr:`TrainedAgent.default_candidates`.
        rules: how to choose among them: "cautious", "gpi" (Eq. 3), "follow", an object with a method `decide`, or
            several; by default :attr:`TrainedAgent.default_rule`. "single" is the best policy of C in hindsight,
            followed alone: the baseline that a rule should beat.
        episodes: per task, candidate set and rule, when the score is not exact.
        epsilon: probability of a random action in episodes.
        seed: of the environments, the exploration and "sample:N".
        exact: insist on exact scores (True) or on episodes (False).
        trust: whether an agent's file may name a module to import its environment from.
        console: where to show progress.

    Returns: a row for each candidate set, rule and task: candidates, rule, task, score, std (of the episodes), optimal,
    gap.
    """
    if episodes < 1 or not 0 <= epsilon <= 1:
        raise InputError(f"episodes is {episodes} and epsilon {epsilon}; expected at least 1, and 0 to 1.")
    w = _task_rows(tasks, agent.file.spec.features)
    environments = environments_of(agent, trust)
    parameters = {name: tensor[None] for name, tensor in agent.parameters.items()}
    protocol = ScoringProtocol(episodes, epsilon, exact)
    rows = []
    listed = listed_rules(agent.default_rule if rules is None else rules)
    chosen_rules = [rule if rule == SINGLE else parse_rule(rule) for rule in listed]
    for name, chosen in _named_candidates(agent, candidates):
        for rule in chosen_rules:
            # The same streams for every set and rule: they meet the same environments and do not depend on each other.
            sets = agent.candidates(w, chosen, np.random.default_rng([seed, 0])).map(lambda values: values[None])
            rngs = [np.random.default_rng([seed, 1])]
            label, count = f"C = {name}, {rule_name(rule)}", _episode_count(sets, rule, episodes)
            with playing(label, environments, count, console) as on_step:
                scores = score(agent.actor, parameters, environments, w, sets, rule, rngs, protocol, on_step)
            means, stds = scores.returns[0].mean(axis=0), _std(scores.returns[0])
            rows += [
                (name, rule_name(rule), format_task(task), mean, std, optimal, optimal - mean)
                for task, mean, std, optimal in zip(w, means, stds, scores.optimal, strict=True)
            ]
    return pd.DataFrame(rows, columns=["candidates", "rule", "task", "score", "std", "optimal", "gap"])


def listed_rules(rules: str | Rule | Sequence[str | Rule]) -> list[str | Rule]:
    """One rule, or several, as a list."""
    given: Any = rules
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str | Rule) else [given]
    if not listed:
        raise InputError("The rules are empty; expected at least one, such as 'gpi'.")
    names = [rule_name(rule) for rule in listed]
    if len(set(names)) < len(names):
        raise InputError(f"The rules are {names}; expected each name once.")
    return listed


def _episode_count(candidates: CandidateSet[NDArray[np.float64]], rule: str | Rule, episodes: int) -> int:
    tasks, size = candidates.z.shape[1:3]
    return episodes * tasks * (size if rule == SINGLE else 1)


def _std(returns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over episodes [E, K]; 0 where the score is exact."""
    return returns.std(axis=0, ddof=1) if len(returns) > 1 else np.zeros(returns.shape[1])


def _task_rows(tasks: str | ArrayLike, features: int) -> NDArray[np.float64]:
    """One vector is one task; everything else is several."""
    rows: Any = np.asarray(tasks) if hasattr(tasks, "__array__") else tasks
    if not isinstance(rows, str) and isinstance(rows, Iterable) and all(isinstance(entry, Real) for entry in rows):
        rows = [rows]
    return parse_tasks(rows, features)


def _named_candidates(
    agent: TrainedAgent, candidates: str | ArrayLike | Sequence[str] | None
) -> list[tuple[str, str | ArrayLike]]:
    if candidates is None:
        return [(agent.default_candidates, agent.default_candidates)]
    if isinstance(candidates, str):
        return [(candidates, candidates)]
    if isinstance(candidates, Sequence) and all(isinstance(name, str) for name in candidates):
        if not candidates:
            raise InputError("The candidate set is empty; expected at least one policy z.")
        return [(str(name), str(name)) for name in candidates]
    return [("own", candidates)]

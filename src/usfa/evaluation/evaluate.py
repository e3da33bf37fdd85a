"""One call: how well does a trained agent do on these tasks, with these candidate sets?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray

from usfa.agents import TrainedAgent
from usfa.environments import make
from usfa.errors import InputError
from usfa.evaluation.episodes import repeated_returns
from usfa.evaluation.exact import exact_mdp, exact_scores
from usfa.functional import optimal_return
from usfa.tasks import format_task, parse_tasks

__all__ = ["evaluate"]


def evaluate(
    agent: TrainedAgent,
    tasks: str | ArrayLike,
    candidates: str | ArrayLike | Sequence[str] | None = None,
    *,
    episodes: int = 20,
    epsilon: float = 0.001,
    seed: int = 0,
    exact: bool | None = None,
) -> pd.DataFrame:
    """The agent's mean return on every task with every candidate set, without learning.

    In a finite MDP the score is exact and comes with the optimum; elsewhere it is the mean of whole episodes.

    Args:
        agent: from :func:`usfa.load`.
        tasks: one vector, several, their text ("1,0;0.5,0.5"), or the name of a set ("trip-directions").
        candidates: a set C, or several names; by default M ∪ {w'}.
        episodes: per task and candidate set, when the score is not exact.
        epsilon: probability of a random action in episodes.
        seed: of the environments, the exploration and "sample:N".
        exact: insist on exact scores (True) or on episodes (False).

    Returns: a row for each candidate set and task: candidates, task, score, std (of the episodes), optimal, gap.
    """
    if episodes < 1 or not 0 <= epsilon <= 1:
        raise InputError(f"episodes is {episodes} and epsilon {epsilon}; expected at least 1, and 0 to 1.")
    w = _task_rows(tasks, agent.file.spec.features)
    make_environment = partial(make, agent.file.environment, **agent.file.environment_arguments)
    mdp = exact_mdp(make_environment())
    if exact and mdp is None:
        raise InputError(f"The environment {agent.file.environment!r} has no tables; expected exact=False for it.")
    rng = np.random.default_rng(seed)
    rows = []
    for name, chosen in _named_candidates(agent, candidates):
        z = agent.candidates(w, chosen, rng)
        if mdp is not None and exact is not False:
            stacked = {key: tensor[None] for key, tensor in agent.parameters.items()}
            scores = exact_scores(agent.actor, stacked, mdp, w, z[None])[0][None]
            optimal = optimal_return(mdp, torch.from_numpy(w)).numpy()
        else:
            scores = repeated_returns(agent.actor, agent.parameters, make_environment, w, z, epsilon, rng, episodes)
            optimal = np.full(len(w), np.nan)
        for index, task in enumerate(w):
            score = scores[:, index].mean()
            std = scores[:, index].std(ddof=1) if len(scores) > 1 else 0.0
            rows.append((name, format_task(task), score, std, optimal[index], optimal[index] - score))
    return pd.DataFrame(rows, columns=["candidates", "task", "score", "std", "optimal", "gap"])


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

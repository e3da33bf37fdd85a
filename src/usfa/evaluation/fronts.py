"""Fronts for multi-objective RL: the vector returns of an agent for many preferences, and their indicators."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from rich.console import Console

from usfa.agents import TrainedAgent
from usfa.decisions import Rule, parse_rule, rule_name
from usfa.environments import Environment, feature_count
from usfa.errors import InputError
from usfa.evaluation.episodes import check_agent, environments_of, episode_batch, playing, vector_returns
from usfa.evaluation.exact import exact_mdp
from usfa.evaluation.score import ScoringProtocol, candidates_name
from usfa.functional import (
    TabularMDP,
    best_utility,
    convex_coverage,
    hypervolume,
    nondominated,
    optimal_policy,
    pareto_front,
    policy_features,
    sparsity,
)
from usfa.tasks import parse_task, parse_tasks, spread_over_simplex
from usfa.threads import threads

__all__ = [
    "environment_front",
    "front_indicators",
    "front_of",
    "known_front",
    "known_table",
    "read_known_table",
    "reference_point",
]

Array = NDArray[np.float64]
PREFERENCES = "simplex:100"

_Row = tuple[str, float, float, float, int]
_UNKNOWN = float("nan")


# --- front of an agent ---


@threads(1)
def front_of(
    agent: TrainedAgent,
    preferences: str | ArrayLike = PREFERENCES,
    candidates: str | ArrayLike | None = None,
    rule: str | Rule | None = None,
    *,
    known: ArrayLike | None = None,
    gamma: float | None = None,
    episodes: int = 5,
    epsilon: float = 0.0,
    seed: int = 0,
    break_loops: bool = True,
    trust: bool = False,
    console: Console | None = None,
) -> pd.DataFrame:
    """Vector return of the agent for every preference, the mean of whole episodes, without learning.

    Args:
        agent: from :func:`usfa.load`.
        preferences: K tasks: vectors, their text, or a set such as "simplex:100" or "lattice:12".
        candidates: a set C; by default :attr:`TrainedAgent.default_candidates`.
        rule: the decision rule; by default :attr:`TrainedAgent.default_rule`.
        known: value vectors [P, D] that are attainable with this γ, for example from :func:`known_front`; they give
            the optimum for preferences without negative entries.
        gamma: γ of the values; by default that of the training.
        episodes: per preference.
        epsilon: probability of a random action.
        seed: of the environments, the exploration and "sample:N".
        break_loops: see :func:`usfa.evaluate`.
        trust: whether to import modules that the agent's file names.
        console: for progress bars; None shows nothing.

    Returns: a row for each preference: w1 … wD; value1 … valueD, the discounted vector return Σ γ^t φ_t; return1 …
    returnD, the undiscounted one; utility, which is value·w, and its std over episodes; optimal, the best utility of
    the known front; nondominated and supported, whether the value is on the Pareto front and in the convex coverage set
    of all values; candidates, rule, gamma, episodes and epsilon, as above.
    """
    check_agent(agent)
    w, gamma = _preferences(agent, preferences), _checked_gamma(agent, gamma)
    protocol = ScoringProtocol(episodes, epsilon, seed, break_loops=break_loops)
    episodes, epsilon = protocol.episodes, protocol.epsilon
    optimal = _optimal(known, w)
    chosen = agent.candidates(w, candidates, protocol.rng())
    rule = parse_rule(agent.default_rule if rule is None else rule)
    rng = protocol.rng()
    environments = environments_of(agent, trust)
    batch = episode_batch(environments, w, chosen, episodes, rng)
    with playing("front", environments, episodes * len(w), console) as on_step:
        collected = vector_returns(
            agent.actor,
            agent.network,
            batch,
            rule,
            epsilon,
            rng,
            gamma,
            on_step=on_step,
            loop_gamma=protocol.loop_gamma(agent),
        )
    discounted, undiscounted = (x.reshape(episodes, *w.shape) for x in collected)
    table = _table(w, discounted, undiscounted, optimal)
    names = {"candidates": candidates_name(agent, candidates), "rule": rule_name(rule)}
    return table.assign(**names, gamma=gamma, episodes=episodes, epsilon=epsilon)


def _table(w: Array, discounted: Array, undiscounted: Array, optimal: Array) -> pd.DataFrame:
    """Make the table from preferences [K, D], returns of episodes [E, K, D] and the best utilities [K]."""
    values, utility = discounted.mean(axis=0), np.einsum("ekd,kd->ek", discounted, w)
    columns = {
        **_columns("w", w),
        **_columns("value", values),
        **_columns("return", undiscounted.mean(axis=0)),
        "utility": utility.mean(axis=0),
        "std": utility.std(axis=0, ddof=1) if len(utility) > 1 else 0.0,
        "optimal": optimal,
        "nondominated": nondominated(values),
        "supported": convex_coverage(values),
    }
    return pd.DataFrame(columns)


def _preferences(agent: TrainedAgent, preferences: str | ArrayLike) -> Array:
    features = agent.file.spec.features
    if features < 2:
        raise InputError(f"The agent has {features} feature; expected at least 2 for preferences between them.")
    return parse_tasks(preferences, features)


def _checked_gamma(agent: TrainedAgent, gamma: float | None) -> float:
    gamma = agent.file.gamma if gamma is None else gamma
    if not (isinstance(gamma, int | float | np.number) and 0 < gamma <= 1):
        raise InputError(f"gamma is {gamma!r}; expected a number above 0, at most 1.")
    return gamma


def _columns(name: str, vectors: Array) -> dict[str, Array]:
    return {f"{name}{index}": column for index, column in enumerate(vectors.T, start=1)}


def _vectors(table: pd.DataFrame, name: str) -> Array:
    return table.filter(regex=rf"^{name}\d+$").to_numpy(np.float64)


def _optimal(known: ArrayLike | None, w: Array) -> Array:
    """Best utility in the known front; NaN for w with negative entries, whose optimum may not be on it."""
    if known is None:
        return np.full(len(w), np.nan)
    return np.where((w >= 0).all(axis=1), best_utility(known, w), np.nan)


# --- known fronts ---


def known_front(
    agent: TrainedAgent,
    preferences: str | ArrayLike = PREFERENCES,
    *,
    gamma: float | None = None,
    trust: bool = False,
) -> Array | None:
    """Known front [P, D] of an agent's environment, or None; arguments as in :func:`front_of`."""
    w, gamma = _preferences(agent, preferences), _checked_gamma(agent, gamma)
    with environments_of(agent, trust).opened() as env:
        return environment_front(env, gamma, w)


def environment_front(env: Environment, gamma: float, w: Array) -> Array | None:
    """Discounted value vectors [P, D] on the Pareto front of an environment, or None if they are unknown.

    They come from the environment's `pareto_front(gamma)` or `convex_coverage_set(gamma)`, which some environments of
    MO-Gymnasium have. In a finite MDP they are the values of optimal policies, for the preferences w [K, D] and for
    1000 others, so that few points of the convex coverage set are missed.
    """
    feature_count(env)  # raises InputError if there are none
    if env.get_wrapper_attr("reward_space") is not getattr(env.unwrapped, "reward_space", None):
        return None  # a wrapper changes the reward
    mdp = exact_mdp(env)
    if mdp is not None:
        return _front_of_tables(replace(mdp, discount=gamma * (mdp.discount > 0).to(mdp.discount)), w)
    for name in ("pareto_front", "convex_coverage_set"):
        of_gamma = getattr(env.unwrapped, name, None)
        if callable(of_gamma):
            return pareto_front(of_gamma(gamma))
    return None


def _front_of_tables(mdp: TabularMDP, w: Array) -> Array:
    tasks = torch.from_numpy(np.concatenate([w, spread_over_simplex(1000, mdp.features)]))
    values = torch.cat([policy_features(mdp, optimal_policy(mdp, some)) for some in tasks.split(100)])
    return pareto_front(values.numpy().round(12))  # values of equivalent policies can differ in the last bit


def known_table(known: ArrayLike) -> pd.DataFrame:
    """Known front as a table: value1 … valueD, and whether a point is in the convex coverage set."""
    values = pareto_front(known)
    return pd.DataFrame({**_columns("value", values), "supported": convex_coverage(values)})


def read_known_table(path: Path, features: int) -> Array:
    """Values [P, D] of a table from :func:`known_table`, or of any CSV with columns value1 … valueD."""
    names = [f"value{index}" for index in range(1, features + 1)]
    try:
        table = pd.read_csv(path, dtype=str)  # Python parses floats exactly
        return parse_tasks(table[names].to_numpy(np.float64), features)
    except OSError as error:
        raise InputError(f"File {path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, InputError) as error:
        raise InputError(f"File {path} is not a known front; expected columns {names} of finite numbers.") from error


# --- indicators ---


def front_indicators(
    front: pd.DataFrame, known: ArrayLike | None = None, reference: str | ArrayLike | None = None
) -> pd.DataFrame:
    """Indicators of multi-objective RL, each with the settings that it depends on.

    Args:
        front: from :func:`front_of`.
        known: the `known` given to :func:`front_of`.
        reference: reference point of the hypervolume, [D] or its text; without one there is no hypervolume.

    Returns: a row for each indicator. `agent` uses the value of the agent for each preference; `best_of_set` uses the
    best of all values for each preference, as the literature does for sets of policies; `known` is the known front.
    Further columns: γ, the reference point, and the numbers of preferences and episodes.
    """
    w, values = _vectors(front, "w"), _vectors(front, "value")
    origin = None if reference is None else reference_point(reference, w.shape[1])
    rows = [
        *_utility_rows(front, best_utility(values, w)),
        ("hypervolume", _UNKNOWN, _hypervolume(values, origin), _hypervolume(known, origin), len(front)),
        ("sparsity", _UNKNOWN, sparsity(values), _UNKNOWN if known is None else sparsity(known), len(front)),
    ]
    table = pd.DataFrame(rows, columns=["indicator", "agent", "best_of_set", "known", "preferences"])
    point = "" if origin is None else ",".join(f"{x:g}" for x in origin)
    table.insert(4, "gamma", front.gamma.iloc[0])
    table.insert(5, "reference", np.where(table.indicator == "hypervolume", point, ""))
    return table.assign(episodes=front.episodes.iloc[0])


def reference_point(reference: str | ArrayLike, features: int) -> Array:
    """Reference point [D] from numbers or text."""
    try:
        return parse_task(reference, features)
    except InputError:
        raise InputError(
            f"The reference point {reference!r} cannot be used; expected {features} numbers, one per feature."
        ) from None


def _utility_rows(front: pd.DataFrame, best: Array) -> list[_Row]:
    """Expected utility, and the utility losses of the preferences whose optimum is known."""
    judged = front.optimal.notna().to_numpy()
    optimal = front.optimal[judged]
    asked, chosen = optimal - front.utility[judged], optimal - best[judged]
    highest = optimal.mean() if judged.all() else _UNKNOWN
    return [
        ("expected utility", front.utility.mean(), best.mean(), highest, len(front)),
        ("mean utility loss", asked.mean(), chosen.mean(), _UNKNOWN, len(optimal)),
        ("maximum utility loss", asked.max(), chosen.max(), _UNKNOWN, len(optimal)),
    ]


def _hypervolume(values: ArrayLike | None, reference: Array | None) -> float:
    return _UNKNOWN if values is None or reference is None else hypervolume(values, reference)

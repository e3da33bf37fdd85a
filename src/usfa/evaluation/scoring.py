"""Scores of an actor on tasks, with the best method at hand: exact where the environment has tables, else episodes."""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from usfa.agents import Actor
from usfa.decisions import SINGLE, CandidateSet, Follow, Rule, parse_rule, rule_name
from usfa.environments import EnvironmentSource
from usfa.errors import InputError
from usfa.evaluation.episodes import OnStep, episode_batch, episode_returns
from usfa.evaluation.exact import exact_mdp, exact_scores
from usfa.functional import TabularMDP, optimal_return
from usfa.networks import Parameters, select_run

__all__ = ["Scores", "ScoringProtocol", "score"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ScoringProtocol:
    """How to score."""

    episodes: int = 20
    epsilon: float = 0.001
    exact: bool | None = None  # insist on exact scores (True) or on episodes (False)


@dataclass(frozen=True)
class Scores:
    """Returns of R runs on K tasks."""

    returns: NDArray[np.float64]  # [R, E, K]  E episodes, or 1 where exact
    optimal: NDArray[np.float64]  # [K]        NaN where it is not known


def score(
    actor: Actor,
    parameters: Parameters,
    environments: EnvironmentSource,
    w: Array,
    candidates: CandidateSet[Array],
    rule: str | Rule,
    rngs: Sequence[np.random.Generator],
    protocol: ScoringProtocol,
    on_step: OnStep | None = None,
) -> Scores:
    """The returns of acting by a rule.

    Args:
        actor: the agent.
        parameters: each [R, ...].
        environments: where it acts.
        w: [K, D].
        candidates: [R, K, N, D], the candidate sets.
        rule: how to choose among them; "single" scores the best of them in hindsight, followed alone.
        rngs: one per run, for episodes.
        protocol: exact or episodes, and how many.
        on_step: told of every step of episodes.
    """
    if rule == SINGLE:
        each = []
        for index in range(candidates.z.shape[-2]):  # one after the other, in the same worlds, to save memory
            alone, own_rngs = CandidateSet.believed(candidates.z[..., [index], :]), copy.deepcopy(rngs)
            each.append(score(actor, parameters, environments, w, alone, Follow(), own_rngs, protocol, on_step))
        return _best_in_hindsight(each)
    rule = parse_rule(rule)
    env = environments.one()
    mdp = exact_mdp(env)
    env.close()
    obstacle = _obstacle(actor, mdp, rule, str(env))
    if protocol.exact and obstacle:
        raise InputError(f"{obstacle}; expected exact=False for it.")
    if mdp is not None and not obstacle and protocol.exact is not False:
        returns = exact_scores(actor, parameters, mdp, w, candidates, rule)[:, None]
        return Scores(returns, optimal_return(mdp, torch.from_numpy(w)).numpy())
    played = []
    for run, rng in enumerate(rngs):
        of_run = candidates.map(operator.itemgetter(run))
        batch = episode_batch(environments, w, of_run, protocol.episodes, rng)
        one = select_run(parameters, run)
        played.append(episode_returns(actor, one, batch, rule, protocol.epsilon, rng, on_step=on_step))
    return Scores(np.stack(played).reshape(len(rngs), protocol.episodes, len(w)), np.full(len(w), np.nan))


def _obstacle(actor: Actor, mdp: TabularMDP | None, rule: Rule, env: str) -> str:
    """Why exact scores are not possible; empty if they are."""
    if mdp is None:
        return f"The environment {env} has no tables"
    if actor.remembers:
        return "The agent has a memory"
    return f"The rule {rule_name(rule)!r} has a memory" if getattr(rule, "remembers", False) else ""


def _best_in_hindsight(each: Sequence[Scores]) -> Scores:
    """The policy with the best mean for each task in each run."""
    returns = np.stack([scores.returns for scores in each], axis=-1)  # [R, E, K, N]
    best = returns.mean(axis=1, keepdims=True).argmax(axis=-1)[..., None]
    return Scores(np.take_along_axis(returns, best, axis=-1)[..., 0], each[0].optimal)

"""Scores of an actor on tasks, with the best method at hand: exact where the environment has tables, else episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from usfa.agents import Actor
from usfa.environments import EnvironmentSource
from usfa.errors import InputError
from usfa.evaluation.episodes import OnStep, episode_batch, episode_returns
from usfa.evaluation.exact import exact_mdp, exact_scores
from usfa.functional import optimal_return
from usfa.networks import Parameters, select_run

__all__ = ["Scores", "ScoringProtocol", "score"]


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
    w: NDArray[np.float64],
    z: NDArray[np.float64],
    rngs: Sequence[np.random.Generator],
    protocol: ScoringProtocol,
    on_step: OnStep | None = None,
) -> Scores:
    """The returns of the greedy (GPI) policy.

    Args:
        actor: the agent.
        parameters: each [R, ...].
        environments: where it acts.
        w: [K, D].
        z: [R, K, N, D], the candidate sets.
        rngs: one per run, for episodes.
        protocol: exact or episodes, and how many.
        on_step: told of every step of episodes.
    """
    env = environments.one()
    mdp = exact_mdp(env)
    env.close()
    if protocol.exact and (mdp is None or actor.remembers):
        lacking = "The agent has a memory" if actor.remembers else f"The environment {env} has no tables"
        raise InputError(f"{lacking}; expected exact=False for it.")
    if mdp is not None and not actor.remembers and protocol.exact is not False:
        returns = exact_scores(actor, parameters, mdp, w, z)[:, None]
        return Scores(returns, optimal_return(mdp, torch.from_numpy(w)).numpy())
    played = []
    for run, rng in enumerate(rngs):
        batch = episode_batch(environments, w, z[run], protocol.episodes, rng)
        one = select_run(parameters, run)
        played.append(episode_returns(actor, one, batch, protocol.epsilon, rng, on_step=on_step))
    return Scores(np.stack(played).reshape(len(rngs), protocol.episodes, len(w)), np.full(len(w), np.nan))

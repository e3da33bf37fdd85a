"""Scores by acting: every task, candidate set and episode in one batch of environments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from usfa.agents import Actor, TrainedAgent
from usfa.decisions import CandidateSet, Decision, Rule
from usfa.environments import Batch, EnvironmentSource, Step, check_trusted, source, step_limit
from usfa.errors import InputError
from usfa.learning.rollout import epsilon_greedy
from usfa.networks import Parameters
from usfa.progress import progress_bar
from usfa.trajectory import Present

__all__ = [
    "EpisodeBatch",
    "Moment",
    "OnStep",
    "VectorReturns",
    "acting",
    "check_fits",
    "environments_of",
    "episode_batch",
    "episode_returns",
    "playing",
    "repeated",
    "vector_returns",
]

Array = NDArray[np.float64]
PATIENCE = 10_000
"""Steps after which an episode that has not ended is cut."""
OnStep = Callable[[int], object]
"""Called after every step of a batch with the number of its environments."""


def environments_of(agent: TrainedAgent, trust: bool, environment: str | None = None) -> EnvironmentSource:
    """Where an agent was trained, or another `environment` that the user names; φ and arguments are the file's.

    `trust` says whether the agent's file may name modules to import.
    """
    check_trusted(agent.file.environment if environment is None else None, trust, agent.file.phi)
    name = agent.file.environment if environment is None else environment
    return source(name, phi=agent.file.phi, **agent.file.environment_arguments)


class EpisodeBatch(NamedTuple):
    """Episodes that are played side by side, each with its task and candidate set."""

    environments: Batch  # of B
    w: Array  # [B, D]
    candidates: CandidateSet[Array]  # [B, N, D]


class Moment(NamedTuple):
    """One step of a batch of episodes."""

    decision: Decision  # of the rule
    action: NDArray[np.int64]  # [B]  taken: that of the decision, or a random one
    step: Step  # the result


@contextmanager
def playing(
    label: str, environments: EnvironmentSource, episodes: int, console: Console | None
) -> Iterator[OnStep | None]:
    """A progress bar over the steps of so many episodes, gone when they are played; nothing without a console."""
    if console is None:  # and no environment is made to ask how long its episodes are
        yield None
        return
    with closing(environments.one()) as env:
        limit = step_limit(env)
    total = None if limit is None else episodes * limit
    with progress_bar(f"{label}: {episodes} episodes", total, "steps", console, stays=False) as bar:
        yield bar.advance


def episode_batch(
    environments: EnvironmentSource,
    w: Array,
    candidates: CandidateSet[Array],
    episodes: int,
    rng: np.random.Generator,
) -> EpisodeBatch:
    """Tasks w [K, D] with candidate sets [K, N, D], E times: all tasks in one world, then in the next, …"""
    seeds = np.repeat(rng.integers(2**31, size=episodes), len(w)).tolist()
    return repeated(environments.batch(seeds, gamma=1.0), w, candidates, episodes)


def repeated(environments: Batch, w: Array, candidates: CandidateSet[Array], episodes: int) -> EpisodeBatch:
    """Environments of E episodes for each of K tasks: E·K, the tasks in turn."""
    tiled = candidates.map(lambda values: np.tile(values, (episodes, *[1] * (values.ndim - 1))))
    return EpisodeBatch(environments, np.tile(w, (episodes, 1)), tiled)


class VectorReturns(NamedTuple):
    """What one episode in each of B environments collected."""

    discounted: Array  # [B, D]  Σ γ^t φ_t
    undiscounted: Array  # [B, D]  Σ φ_t


def episode_returns(
    actor: Actor,
    parameters: Parameters,
    batch: EpisodeBatch,
    rule: Rule,
    epsilon: float,
    rng: np.random.Generator,
    on_step: OnStep | None = None,
) -> Array:
    """The undiscounted return Σ φ_t·w of one ε-greedy episode for each of B tasks -> [B].

    Arguments as in :func:`vector_returns`.
    """
    collected = vector_returns(actor, parameters, batch, rule, epsilon, rng, on_step=on_step)
    return np.einsum("bd,bd->b", collected.undiscounted, batch.w)


def vector_returns(
    actor: Actor,
    parameters: Parameters,
    batch: EpisodeBatch,
    rule: Rule,
    epsilon: float,
    rng: np.random.Generator,
    gamma: float = 1.0,
    patience: int = PATIENCE,
    on_step: OnStep | None = None,
) -> VectorReturns:
    """The features that one ε-greedy episode collects for each of B tasks; environments are closed afterwards.

    Args:
        actor: the agent.
        parameters: of one run.
        batch: B environments at the start of an episode, their tasks and candidate sets.
        rule: how to choose among the candidates.
        epsilon: ε.
        rng: for the exploration.
        gamma: γ of the discounted return.
        patience: an episode that lasts longer counts with what it has collected so far.
        on_step: told of every step.
    """
    with closing(batch.environments):
        steps = (moment.step for moment in acting(actor, parameters, batch, rule, epsilon, rng))
        return _collect(steps, batch.w.shape, gamma, patience, on_step)


def _collect(
    steps: Iterator[Step], shape: tuple[int, ...], gamma: float, patience: int, on_step: OnStep | None
) -> VectorReturns:
    discounted, undiscounted = np.zeros(shape), np.zeros(shape)
    running = np.ones(shape[0], np.bool_)  # an environment goes on after its episode; only the first counts
    for t, step in enumerate(islice(steps, patience)):
        if on_step is not None:
            on_step(len(running))
        phi = step.phi[running].astype(np.float64)
        discounted[running] += gamma**t * phi
        undiscounted[running] += phi
        running &= ~step.ended
        if not running.any():
            break
    if running.any():
        warnings.warn(
            f"{running.sum()} of {len(running)} episodes had not ended after {patience} steps and were cut there; "
            "expected an environment with a time limit.",
            stacklevel=4,
        )
    return VectorReturns(discounted, undiscounted)


def check_fits(actor: Actor, environments: Batch) -> None:
    """InputError if environments have other features or observations than those an agent was made for."""
    if environments.features != actor.spec.features:
        features = actor.spec.features
        raise InputError(
            f"The environment has {environments.features} features; the agent's tasks have {features} entries."
        )
    shown, expected = environments.observation.shape[1:], actor.spec.observation.shape
    if shown != expected:
        raise InputError(f"The environment shows observations of shape {shown}; the agent expects {expected}.")


def acting(
    actor: Actor, parameters: Parameters, batch: EpisodeBatch, rule: Rule, epsilon: float, rng: np.random.Generator
) -> Iterator[Moment]:
    """Act on the tasks of a batch by a rule, ε-greedily, step by step and without end."""
    environments = batch.environments
    check_fits(actor, environments)
    tasks, candidates = torch.from_numpy(batch.w).float(), batch.candidates.tensors()
    memory = actor.initial_state(len(environments))
    action = np.zeros(len(environments), np.int64)
    state = None
    while True:
        present = Present(
            torch.from_numpy(environments.observation),
            torch.from_numpy(action),
            torch.from_numpy(environments.legal),
            torch.from_numpy(environments.first),
            memory,
        )
        with torch.no_grad():
            decision, memory = actor.act(parameters, present, tasks, candidates, rule, state)
        state = decision.state
        action = epsilon_greedy(decision.action.numpy()[None], environments.legal[None], epsilon, [rng])[0]
        yield Moment(decision, action, environments.step(action))

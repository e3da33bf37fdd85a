"""Play episodes for all tasks and candidate sets in one batch of environments."""

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

from usfa.agents import Agent, TrainedAgent
from usfa.decisions import CandidateSet, Decision, Loops, Rule, leaves_loops, task_tensor
from usfa.environments import Batch, EnvironmentSource, Step, check_trusted, source, step_limit
from usfa.errors import InputError, counted
from usfa.learning.exploration import epsilon_greedy
from usfa.networks import Network
from usfa.progress import progress_bar
from usfa.trajectory import Present

__all__ = [
    "EpisodeBatch",
    "Moment",
    "OnStep",
    "VectorReturns",
    "acting",
    "check_agent",
    "check_fits",
    "check_observations",
    "environments_of",
    "episode_batch",
    "playing",
    "repeated",
    "vector_returns",
]

Array = NDArray[np.float64]
PATIENCE = 10_000
"""Maximum number of steps of an episode."""
OnStep = Callable[[int], object]
"""Called after every step of a batch with the number of its environments."""


def environments_of(agent: TrainedAgent, trust: bool, environment: str | None = None) -> EnvironmentSource:
    """The environments of an agent's training, or another `environment` with the same φ and arguments.

    `trust`: whether to import modules that the agent's file names.
    """
    check_trusted(agent.file.environment if environment is None else None, trust, agent.file.phi)
    name = agent.file.environment if environment is None else environment
    return source(name, phi=agent.file.phi, **agent.file.environment_arguments)


def check_agent(agent: object) -> None:
    """Raise InputError for anything but a loaded agent, such as its name."""
    if not isinstance(agent, TrainedAgent):
        raise InputError(f"The agent is {agent!r}; expected one from usfa.load.")


class EpisodeBatch(NamedTuple):
    """Episodes that are played in parallel, each with its task and candidate set."""

    environments: Batch  # of B
    w: Array  # [B, D]
    candidates: CandidateSet[Array]  # [B, N, D]


class Moment(NamedTuple):
    """One step of a batch of episodes."""

    decision: Decision  # of the rule
    action: NDArray[np.int64]  # [B]  action of the decision, or a random one
    step: Step  # the result


@contextmanager
def playing(
    label: str, environments: EnvironmentSource, episodes: int, console: Console | None
) -> Iterator[OnStep | None]:
    """Show a progress bar over the steps of episodes while they are played; without a console do nothing."""
    if console is None:  # do not make an environment only for its step limit
        yield None
        return
    with environments.opened() as env:
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
    gamma: float = 1.0,
) -> EpisodeBatch:
    """E episodes for tasks w [K, D] with candidate sets [K, N, D]: all tasks with one seed, then with the next, …"""
    seeds = np.repeat(rng.integers(2**31, size=episodes), len(w)).tolist()
    return repeated(environments.batch(seeds, gamma), w, candidates, episodes)


def repeated(environments: Batch, w: Array, candidates: CandidateSet[Array], episodes: int) -> EpisodeBatch:
    """Assign K tasks, in turn, to E·K environments."""
    tiled = candidates.map(lambda values: np.tile(values, (episodes, *[1] * (values.ndim - 1))))
    return EpisodeBatch(environments, np.tile(w, (episodes, 1)), tiled)


class VectorReturns(NamedTuple):
    """Vector returns of one episode in each of B environments."""

    discounted: Array  # [B, D]  Σ γ^t φ_t
    undiscounted: Array  # [B, D]  Σ φ_t


def vector_returns(
    actor: Agent,
    network: Network,
    batch: EpisodeBatch,
    rule: Rule,
    epsilon: float,
    rng: np.random.Generator,
    gamma: float = 1.0,
    patience: int = PATIENCE,
    on_step: OnStep | None = None,
    loop_gamma: float | None = None,
) -> VectorReturns:
    """Play one ε-greedy episode for each of B tasks, add up its features, and close the environments.

    Args:
        actor: the agent.
        network: with the agent's weights.
        batch: B environments at the start of an episode, their tasks and candidate sets.
        rule: the decision rule.
        epsilon: ε.
        rng: for the exploration.
        gamma: γ of the discounted return.
        patience: maximum number of steps of an episode.
        on_step: called after every step.
        loop_gamma: γ of the agent, to break its loops, see :func:`acting`; None lets it go around.
    """
    discounted, undiscounted = np.zeros(batch.w.shape), np.zeros(batch.w.shape)
    running = np.ones(len(batch.w), np.bool_)  # only the first episode of an environment counts
    with closing(batch.environments):
        moments = islice(acting(actor, network, batch, rule, epsilon, rng, loop_gamma), patience)
        for t, (_, _, step) in enumerate(moments):
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
            f"{running.sum()} of {len(running)} episodes were cut after {patience} steps; "
            "expected an environment with a time limit.",
            stacklevel=3,
        )
    return VectorReturns(discounted, undiscounted)


def check_fits(actor: Agent, environments: Batch) -> None:
    """Raise InputError if the features or observations of environments do not fit an agent."""
    if environments.features != actor.spec.features:
        features = actor.spec.features
        raise InputError(
            f"The environment has {counted(environments.features, 'feature', 'features')}; expected {features}, "
            "the length of the agent's tasks."
        )
    check_observations(actor, environments)


def check_observations(actor: Agent, environments: Batch) -> None:
    """Raise InputError if the observations of environments do not fit an agent."""
    shown, expected = environments.observation.shape[1:], actor.spec.observation.shape
    if shown != expected:
        raise InputError(f"The environment shows observations of shape {shown}; the agent expects {expected}.")


def acting(
    actor: Agent,
    network: Network,
    batch: EpisodeBatch,
    rule: Rule,
    epsilon: float,
    rng: np.random.Generator,
    loop_gamma: float | None = None,
) -> Iterator[Moment]:
    """Act on the tasks of a batch by a rule, ε-greedily; yield every step, without end. The network must be frozen.

    With `loop_gamma`, the agent's γ, its loops are broken where :func:`usfa.decisions.leaves_loops` allows it.
    """
    environments = batch.environments
    check_fits(actor, environments)
    tasks, candidates = task_tensor(batch.w), batch.candidates.tensors()
    loops = None
    if loop_gamma is not None and leaves_loops(rule):
        loops = Loops(tasks, loop_gamma)
    network.hold(candidates.z)
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
        if loops is not None:
            present = present._replace(legal=torch.from_numpy(loops.avoid(present)))
        with torch.inference_mode():
            decision, memory = actor.act(network, present, tasks, candidates, rule, state)
        state = decision.state
        action = epsilon_greedy(decision.action.numpy()[None], environments.legal[None], epsilon, [rng])[0]
        step = environments.step(action)
        if loops is not None:
            loops.add(decision.q, action, step.phi, step.ended | ~step.real)
        yield Moment(decision, action, step)

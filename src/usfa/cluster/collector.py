"""The process that acts: environments, a copy of the weights, trajectories on request."""

from __future__ import annotations

import os
import platform
import time
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from usfa.agents import Agent
from usfa.cluster.ledger import Life
from usfa.cluster.parcel import Delivery, Greeting, Versions, Weights, pack, unpack_weights
from usfa.environments import EnvironmentSource
from usfa.learning import LearnerConfig, Precision
from usfa.learning.behaviour import Behaviour
from usfa.learning.seeds import ActingStreams

__all__ = ["Collector", "Job"]


class Job(NamedTuple):
    """What an actor has to know, once and for all."""

    agent: Agent
    config: LearnerConfig
    environments: EnvironmentSource
    training_tasks: NDArray[np.float64]
    seeds: tuple[int, ...]
    precision: Precision


class Collector:
    """Acts for all runs with the weights it is given, exactly as the learner of one process does."""

    def __init__(self, job: Job, life: Life) -> None:
        torch.set_num_threads(1)  # actors share machines: more threads than cores would only get in each other's way
        streams = [ActingStreams(seed, job.config.environments, life) for seed in job.seeds]
        self._rngs = [stream.behaviour for stream in streams]
        worlds = [stream.environments for stream in streams]
        self._behaviour = Behaviour(job.agent, job.config, job.environments, job.training_tasks, worlds)
        self._precision = job.precision
        self._life = life
        self._produced = 0

    def greet(self) -> Greeting:
        """Answered when everything is ready to act."""
        return Greeting(Versions.here(), platform.node(), os.getpid())

    def collect(self, weights: Weights) -> Delivery:
        """The next trajectory of all environments. Its arrays are reused by the next call."""
        started = time.perf_counter()
        collected, z = self._behaviour.collect(unpack_weights(weights), self._precision, self._rngs)
        self._produced += 1
        return Delivery(
            life=self._life,
            sequence=self._produced,
            version=weights.version,
            frames=collected.frames,
            episodes=collected.episodes,
            episode_phi=collected.episode_phi,
            episode_environment=collected.episode_environment,
            arrays=pack(collected.trajectory, z),
            seconds=time.perf_counter() - started,
        )

"""An actor: a process with environments and a copy of the networks, which collects trajectories on request."""

from __future__ import annotations

import os
import platform
import time
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from usfa.agents import Agent
from usfa.cluster.ledger import ActorId
from usfa.cluster.messages import Delivery, Greeting, Versions, Weights, pack, unpack_weights
from usfa.environments import EnvironmentSource
from usfa.learning import ActorSeeds, CurrentTasks, Draws, LearnerConfig, Rollout
from usfa.networks import Precision, Runs, autocast
from usfa.registry import import_modules

__all__ = ["Actor", "Job"]


class Job(NamedTuple):
    """Settings of an actor, sent once when it starts."""

    agent: Agent
    config: LearnerConfig
    environments: EnvironmentSource
    training_tasks: NDArray[np.float64]
    seeds: tuple[int, ...]
    precision: Precision

    @property
    def parts(self) -> tuple[object, ...]:
        """Texts that may name user-defined classes, whose modules an actor has to import."""
        network = self.agent.network_config
        return self.config.policies, self.config.tasks, network.trunk_class, network.network_class


class Actor:
    """Acts for all runs with the received weights, exactly as :class:`usfa.learning.LocalActing` does."""

    def __init__(self, job: Job, actor: ActorId) -> None:
        import_modules(job.parts)
        torch.set_num_threads(1)  # actors share machines: more threads than cores would slow all of them down
        streams = [ActorSeeds(seed, job.config.environments, actor) for seed in job.seeds]
        self._device = torch.device("cpu")
        self._config, self._precision, self._id = job.config, job.precision, actor
        self._rngs = [stream.behaviour for stream in streams]
        self._draws = Draws(job.config, job.training_tasks, self._device)
        self._network = Runs([job.agent.make_network() for _ in job.seeds])
        worlds = [seed for stream in streams for seed in stream.environments]
        batch = job.environments.batch(worlds, job.config.gamma)
        config = job.config
        self._rollout = Rollout(
            job.agent,
            self._network,
            batch,
            config.trajectory_length,
            repeat_exponent=config.repeat_exponent,
            repeat_share=config.repeat_share,
        )
        self._tasks = CurrentTasks(self._draws, job.config, len(job.seeds), batch.features, self._device)
        self._produced = 0

    def greet(self) -> Greeting:
        """The first message, sent when environments and networks are ready."""
        return Greeting(Versions.here(), platform.node(), os.getpid())

    def collect(self, weights: Weights) -> Delivery:
        """Collect the next trajectory of all environments. The next call reuses its arrays."""
        started = time.perf_counter()
        self._network.load(unpack_weights(weights))
        w = self._tasks.next(self._rngs)
        z = self._draws.policies(w, self._rngs)
        with autocast(self._device, self._precision):
            collected = self._rollout.collect(w, z, self._config.epsilons(weights.done), self._rngs)
        self._tasks.ended(collected.episode_environment)
        self._produced += 1
        return Delivery(
            actor=self._id,
            sequence=self._produced,
            version=weights.version,
            frames=collected.frames,
            episodes=collected.episodes,
            episode_phi=collected.episode_phi,
            episode_environment=collected.episode_environment,
            arrays=pack(collected.trajectory, z),
            seconds=time.perf_counter() - started,
        )

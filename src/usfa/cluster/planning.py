"""Predict the speed of a cluster from the measured times of its parts (operational analysis).

A trajectory takes an actor `act + send` seconds, the learner `learn + publish` seconds, and the network its bytes. All
work in parallel, so the slowest part is the limit:

    trajectories/s = min( actors / turn,  1 / (learn + publish),  bandwidth / bytes )

The turn of an actor is `act + send` if two or more trajectories are in flight. With one, the actor also waits until the
learner is done with it, for `learn + publish` seconds. On one machine, actors and learner share the cores, which is
a fourth bound: cores / (sum of all seconds). By Little's law the staleness is in flight · actors − 1 rounds, whatever
the speeds.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from usfa.agents import Agent
from usfa.cluster.config import ClusterConfig, requests_per_actor
from usfa.cluster.ray import RayFleet
from usfa.cluster.remote_acting import ClusterActing
from usfa.environments import EnvironmentSource
from usfa.errors import InputError
from usfa.learning import Learner, LearnerConfig

__all__ = ["Costs", "Site", "actors_until", "measure_costs", "predict"]

WARM_UP = 2  # rounds that are not measured


@dataclass(frozen=True)
class Costs:
    """Measured costs of one trajectory."""

    frames: int
    """Environment steps."""
    act: float
    """Seconds that an actor takes to collect it."""
    send: float
    """Seconds that an actor takes to copy it to shared memory and to receive the next request."""
    learn: float
    """Seconds that the learner takes to learn from it."""
    publish: float
    """Seconds that the learner takes to publish weights, write the ledger and send the next request."""
    trajectory_bytes: float
    """Bytes sent to the learner."""
    weights_bytes: float
    """Bytes of weights sent to the actor, new for every trajectory."""

    @property
    def of_actor(self) -> float:
        """Seconds in which an actor is busy."""
        return self.act + self.send

    @property
    def of_learner(self) -> float:
        """Seconds in which the learner is busy."""
        return self.learn + self.publish

    def turn(self, in_flight: int) -> float:
        """Seconds between two trajectories of an actor, if nothing else is the limit."""
        return self.of_actor + (self.of_learner if in_flight == 1 else 0.0)

    @property
    def bytes(self) -> float:
        """Bytes in the busier direction of a full-duplex network."""
        return max(self.trajectory_bytes, self.weights_bytes)


@dataclass(frozen=True)
class Site:
    """Hardware that actors and learner run on."""

    gigabits: float = 10.0
    """Bandwidth of the learner's network in Gbit/s, per direction; ignored if everything runs on one machine."""
    shared_cores: int | None = None
    """Number of cores, if everything runs on one machine; None gives every actor a core on another node."""

    def __post_init__(self) -> None:
        if not self.gigabits > 0:
            raise InputError(f"gigabits is {self.gigabits}; expected a positive number.")
        if self.shared_cores is not None and self.shared_cores < 1:
            raise InputError(f"shared_cores is {self.shared_cores}; expected at least 1.")

    def limits(self, costs: Costs, actors: int, in_flight: int) -> dict[str, float]:
        """Trajectories per second that each part allows."""
        limits = {"actors": actors / costs.turn(in_flight), "learner": 1 / costs.of_learner}
        if self.shared_cores is None:
            return limits | {"network": self.gigabits * 1e9 / 8 / costs.bytes}
        return limits | {"cores": self.shared_cores / (costs.of_actor + costs.of_learner)}


def predict(costs: Costs, site: Site, actors: Sequence[int]) -> pd.DataFrame:
    """A row for each number of actors: frames per second, the limiting part, staleness, and the bound of each part."""
    rows = []
    for count in actors:
        in_flight = requests_per_actor(count)
        limits = site.limits(costs, count, in_flight)
        limit = min(limits, key=lambda name: limits[name])
        rows.append(
            {
                "actors": count,
                "frames_per_second": costs.frames * limits[limit],
                "limit": limit,
                "staleness": in_flight * count - 1,
                **{f"{name}_allow": costs.frames * value for name, value in limits.items()},
            }
        )
    return pd.DataFrame(rows)


def actors_until(costs: Costs, site: Site) -> tuple[int, str]:
    """Smallest number of actors with which another part is the limit, and the name of that part."""
    others = {name: value for name, value in site.limits(costs, 1, 1).items() if name != "actors"}
    first = min(others, key=lambda name: others[name])
    if others[first] * costs.turn(in_flight=2) <= 1:
        return 1, first
    return max(2, math.ceil(others[first] * costs.turn(in_flight=1))), first


def measure_costs(
    agent: Agent,
    config: LearnerConfig,
    environments: EnvironmentSource,
    training_tasks: NDArray[np.float64],
    seeds: Sequence[int],
    device: torch.device,
    rounds: int = 10,
) -> Costs:
    """Measure the median costs over rounds in which actor and learner take turns, so that neither slows the other down.

    Requires a connection to Ray, see :func:`usfa.cluster.ray.connected`.
    """
    turns = ClusterConfig("auto", actors=1, in_flight=1, cpus_per_actor=0.5)
    with tempfile.TemporaryDirectory() as directory:
        acting = ClusterActing(turns, RayFleet(turns.cpus_per_actor), Path(directory) / "trajectories.jsonl")
        learner = Learner(agent, config, environments, training_tasks, seeds, device, acting=acting)
        with closing(learner):
            measured = np.median([_round(learner) for _ in range(WARM_UP + rounds)][WARM_UP:], axis=0)
            frames = int(learner.frames.sum()) // learner.rounds
            weights = sum(x.nbytes for x in learner.network.state.values())
    act, send, learn, publish, size = map(float, measured)
    return Costs(frames, act, send, learn, publish, size, weights)


def _round(learner: Learner) -> tuple[float, ...]:
    """Run a round; return the seconds to act, send, learn and publish, and the bytes of the trajectory."""
    started = time.perf_counter()
    learner.step()
    elapsed = time.perf_counter() - started
    report = learner.acting.report()
    act, learn, publish = (report[f"seconds_to_{what}"] for what in ("act", "learn", "publish"))
    return act, max(0.0, elapsed - act - learn - publish), learn, publish, report["bytes"]

"""What the parts of a cluster cost here, measured with one actor."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from usfa.agents import Agent
from usfa.cluster.config import ClusterConfig
from usfa.cluster.fleet import RayFleet
from usfa.cluster.learner import ClusterLearner
from usfa.cluster.planning import Costs
from usfa.environments import EnvironmentSource
from usfa.learning import LearnerConfig

__all__ = ["measure_costs"]

WARM_UP = 2


def measure_costs(
    agent: Agent,
    config: LearnerConfig,
    environments: EnvironmentSource,
    training_tasks: NDArray[np.float64],
    seeds: Sequence[int],
    device: torch.device,
    rounds: int = 10,
) -> Costs:
    """Medians over rounds in which actor and learner take turns, so that neither slows the other down.

    A Ray cluster must be connected, see :func:`usfa.cluster.connection.connected`.
    """
    turns = ClusterConfig("auto", actors=1, in_flight=1, cpus_per_actor=0.5)
    with tempfile.TemporaryDirectory() as directory:
        where = (turns, RayFleet(turns.cpus_per_actor), Path(directory) / "trajectories.jsonl", device)
        learner = ClusterLearner(agent, config, environments, training_tasks, seeds, *where)
        with closing(learner):
            measured = np.median([_round(learner) for _ in range(WARM_UP + rounds)][WARM_UP:], axis=0)
            frames = int(learner.frames.sum()) // learner.rounds
            weights = sum(x.nbytes for x in learner.parameters.values())
    act, send, learn, publish, size = map(float, measured)
    return Costs(frames, act, send, learn, publish, size, weights)


def _round(learner: ClusterLearner) -> tuple[float, ...]:
    """Seconds to act, send, learn and publish, and bytes."""
    started = time.perf_counter()
    learner.step()
    elapsed = time.perf_counter() - started
    report = learner.report()
    act, learn, publish = (report[f"seconds_to_{what}"] for what in ("act", "learn", "publish"))
    return act, max(0.0, elapsed - act - learn - publish), learn, publish, report["bytes"]

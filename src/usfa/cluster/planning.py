"""How fast a cluster would be: bounds from the measured times of its parts (operational analysis).

A trajectory takes an actor `act + send` seconds, the learner `learn + publish` seconds, and the network its bytes. All
work at once, so that the slowest alone sets the pace:

    trajectories/s = min( actors / turn,  1 / (learn + publish),  bandwidth / bytes )

The turn of an actor is `act + send` with two or more trajectories in flight; with one it waits until that is learned
from, `learn + publish` longer. Actors and learner on one machine share its cores, which is a fourth bound: cores / (all
seconds together). By Little's law a trajectory meets weights that are in flight · actors − 1 rounds newer than its own,
however fast anything is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from usfa.cluster.config import requests_per_actor
from usfa.errors import InputError

__all__ = ["Costs", "Site", "actors_until", "predict"]


@dataclass(frozen=True)
class Costs:
    """What one trajectory costs, measured."""

    frames: int
    """Environment steps in it."""
    act: float
    """Seconds of an actor, to make it."""
    send: float
    """Seconds of an actor, to put it into shared memory and take the next request."""
    learn: float
    """Seconds of the learner, to learn from it."""
    publish: float
    """Seconds of the learner, to publish weights, write the account and make the next request."""
    trajectory_bytes: float
    """To the learner."""
    weights_bytes: float
    """To an actor, for every trajectory: weights are new each time."""

    @property
    def of_actor(self) -> float:
        """Seconds that keep an actor busy."""
        return self.act + self.send

    @property
    def of_learner(self) -> float:
        """Seconds that keep the learner busy."""
        return self.learn + self.publish

    def turn(self, in_flight: int) -> float:
        """Seconds between two trajectories of an actor, if nobody else is in the way."""
        return self.of_actor + (self.of_learner if in_flight == 1 else 0.0)

    @property
    def bytes(self) -> float:
        """What limits a network that carries both ways at once."""
        return max(self.trajectory_bytes, self.weights_bytes)


@dataclass(frozen=True)
class Site:
    """Where actors and learner run."""

    gigabits: float = 10.0
    """Bandwidth of the learner's network, each way; without meaning if all is on one machine."""
    shared_cores: int | None = None
    """The cores of the one machine that all share; None gives every actor a core on another node."""

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
    """A row for each number of actors: frames per second, what limits them, staleness, and all bounds beside."""
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
    """How many actors are enough: with them, something else is the limit, and what."""
    others = {name: value for name, value in site.limits(costs, 1, 1).items() if name != "actors"}
    first = min(others, key=lambda name: others[name])
    if others[first] * costs.turn(in_flight=2) <= 1:
        return 1, first
    return max(2, math.ceil(others[first] * costs.turn(in_flight=1))), first

"""How fast a cluster would be: bounds from the measured times of its parts (operational analysis).

A trajectory takes an actor `act + send` seconds, the learner `learn + publish` seconds, and the network its bytes. With
two or more trajectories in flight per actor these overlap, so that the slowest alone sets the pace:

    trajectories/s = min( actors / (act + send),  1 / (learn + publish),  bandwidth / bytes )

Actors and learner on one machine share its cores, which is a fourth bound: cores / (all seconds together). By Little's
law a trajectory meets weights that are `in_flight · actors − 1` rounds newer than its own, however fast anything is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

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

    def limits(self, costs: Costs, actors: int) -> dict[str, float]:
        """Trajectories per second that each part allows."""
        of_actor, of_learner = costs.act + costs.send, costs.learn + costs.publish
        limits = {"actors": actors / of_actor, "learner": 1 / of_learner}
        if self.shared_cores is None:
            return limits | {"network": self.gigabits * 1e9 / 8 / costs.bytes}
        return limits | {"cores": self.shared_cores / (of_actor + of_learner)}


def predict(costs: Costs, site: Site, actors: Sequence[int], in_flight: int = 2) -> pd.DataFrame:
    """A row for each number of actors: frames per second, what limits them, staleness, and all bounds beside."""
    if in_flight < 2:
        raise InputError(f"in_flight is {in_flight}; expected at least 2, or nothing overlaps.")
    rows = []
    for count in actors:
        limits = site.limits(costs, count)
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


def actors_until(costs: Costs, site: Site) -> tuple[float, str]:
    """With how many actors something else becomes the limit, and what."""
    others = {name: value for name, value in site.limits(costs, 1).items() if name != "actors"}
    first = min(others, key=lambda name: others[name])
    return others[first] * (costs.act + costs.send), first

"""Settings of a cluster: its address, the number of actors, and the bound on staleness."""

from __future__ import annotations

from dataclasses import dataclass

from usfa.errors import InputError
from usfa.records import settle

__all__ = ["ClusterConfig", "requests_per_actor"]


def requests_per_actor(actors: int) -> int:
    """Default number of open requests per actor, so that at least one actor acts while the learner learns."""
    return 2 if actors == 1 else 1


@dataclass(frozen=True)
class ClusterConfig:
    """Actors on a Ray cluster; the learner is the process that was started."""

    cluster: str | None = None
    """Ray cluster to act on (extra ray): local starts one on this machine, auto joins a running one, HOST:PORT the one
    with this head node. By default everything runs in one process."""
    actors: int = 1
    """Number of actors; each has `learner.environments` environments."""
    in_flight: int | None = None
    """Trajectories per actor that are requested and not yet learned from. By default 1, or 2 for a single actor, which
    then acts while the learner learns. Larger values increase staleness."""
    staleness: int | None = None
    """Maximum age, in rounds, of the weights that a trajectory was collected with; older trajectories are dropped. By
    default four times the number of trajectories in flight."""
    patience: float | None = None
    """Seconds without an answer after which an actor counts as hung and is replaced. By default ten times the longest
    time to collect a trajectory so far, and at least a minute."""
    cpus_per_actor: float = 1.0
    """CPUs that Ray reserves for each actor; less than 1 lets actors share a CPU."""

    def __post_init__(self) -> None:
        settle(self)
        for name, value in {"actors": self.actors, "in-flight": self.in_flight}.items():
            if value is not None and value < 1:
                raise InputError(f"--{name} is {value}; expected at least 1.")
        if self.staleness is not None and self.staleness < 0:
            raise InputError(f"--staleness is {self.staleness}; expected at least 0.")
        if self.patience is not None and not 0 < self.patience < float("inf"):
            raise InputError(f"--patience is {self.patience}; expected a positive number of seconds.")
        if not 0 < self.cpus_per_actor < float("inf"):
            raise InputError(f"--cpus-per-actor is {self.cpus_per_actor}; expected a positive number.")
        if self.cluster is None and self.actors > 1:
            raise InputError(
                f"--actors is {self.actors}, but there is no --cluster; expected local, auto or HOST:PORT."
            )

    @property
    def requests(self) -> int:
        """Trajectories in flight per actor."""
        return requests_per_actor(self.actors) if self.in_flight is None else self.in_flight

    @property
    def stalest(self) -> int:
        """The bound on staleness, in rounds."""
        return 4 * self.requests * self.actors if self.staleness is None else self.staleness

    @property
    def flags(self) -> str:
        """The same settings as flags of the command line."""
        if self.cluster is None:
            return ""
        changed = {
            "in-flight": (self.in_flight, None),
            "staleness": (self.staleness, None),
            "patience": (self.patience, None),
            "cpus-per-actor": (self.cpus_per_actor, 1.0),
        }
        words = [f"--{name} {value}" for name, (value, default) in changed.items() if value != default]
        return " ".join([f"--cluster {self.cluster}", f"--actors {self.actors}", *words])

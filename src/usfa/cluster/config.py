"""Where actors run, how many, and how far they may fall behind."""

from __future__ import annotations

from dataclasses import dataclass

from usfa.errors import InputError

__all__ = ["ClusterConfig", "requests_per_actor"]


def requests_per_actor(actors: int) -> int:
    """How many trajectories each should have in flight, so that somebody acts while the learner learns."""
    return 2 if actors == 1 else 1


@dataclass(frozen=True)
class ClusterConfig:
    """Actors on a Ray cluster; the learner is the process that was started."""

    cluster: str | None = None
    """Act in processes of their own, on Ray (extra ray): local starts it on this machine, auto finds a running cluster,
    or its HOST:PORT; by default everything is done in one process."""
    actors: int = 1
    """How many; each has as many environments as learner.environments says."""
    in_flight: int | None = None
    """Trajectories per actor that are asked for and not yet learned from. By default 1, and 2 for a single actor, so
    that somebody acts while the learner learns; more make trajectories older."""
    staleness: int | None = None
    """The most rounds that the weights behind a trajectory may be old; older ones are dropped. By default four times as
    many as trajectories are in flight."""
    cpus_per_actor: float = 1.0
    """What Ray reserves for each; less than 1 lets actors share a CPU."""

    def __post_init__(self) -> None:
        for name, value in {"actors": self.actors, "in-flight": self.in_flight}.items():
            if value is not None and value < 1:
                raise InputError(f"--{name} is {value}; expected at least 1.")
        if self.staleness is not None and self.staleness < 0:
            raise InputError(f"--staleness is {self.staleness}; expected at least 0.")
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
        """How to say this on the command line."""
        if self.cluster is None:
            return ""
        changed = {
            "in-flight": (self.in_flight, None),
            "staleness": (self.staleness, None),
            "cpus-per-actor": (self.cpus_per_actor, 1.0),
        }
        words = [f"--{name} {value}" for name, (value, default) in changed.items() if value != default]
        return " ".join([f"--cluster {self.cluster}", f"--actors {self.actors}", *words])

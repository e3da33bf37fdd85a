"""Where actors run, how many, and how far they may fall behind."""

from __future__ import annotations

from dataclasses import dataclass

from usfa.errors import InputError

__all__ = ["ClusterConfig"]


@dataclass(frozen=True)
class ClusterConfig:
    """Actors on a Ray cluster; the learner is the process that was started."""

    cluster: str | None = None
    """Act in processes of their own, on Ray (extra ray): local starts it on this machine, auto finds a running cluster,
    or its HOST:PORT; by default everything is done in one process."""
    actors: int = 1
    """How many; each has as many environments as learner.environments says."""
    in_flight: int = 2
    """Trajectories per actor that are asked for and not yet learned from; with 2, acting and learning overlap."""
    staleness: int | None = None
    """The most rounds that the weights behind a trajectory may be old; older ones are dropped. By default twice as many
    as trajectories are in flight."""
    cpus_per_actor: float = 1.0
    """What Ray reserves for each; less than 1 lets actors share a CPU."""

    def __post_init__(self) -> None:
        for name in ("actors", "in_flight"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name.replace('_', '-')} is {getattr(self, name)}; expected at least 1.")
        if self.staleness is not None and self.staleness < 0:
            raise InputError(f"--staleness is {self.staleness}; expected at least 0.")
        if not 0 < self.cpus_per_actor < float("inf"):
            raise InputError(f"--cpus-per-actor is {self.cpus_per_actor}; expected a positive number.")
        if self.cluster is None and self.actors > 1:
            raise InputError(
                f"--actors is {self.actors}, but there is no --cluster; expected local, auto or HOST:PORT."
            )

    @property
    def stalest(self) -> int:
        """The bound on staleness, in rounds."""
        return 2 * self.in_flight * self.actors if self.staleness is None else self.staleness

    @property
    def flags(self) -> str:
        """How to say this on the command line."""
        if self.cluster is None:
            return ""
        changed = {
            "in-flight": (self.in_flight, 2),
            "staleness": (self.staleness, None),
            "cpus-per-actor": (self.cpus_per_actor, 1.0),
        }
        words = [f"--{name} {value}" for name, (value, default) in changed.items() if value != default]
        return " ".join([f"--cluster {self.cluster}", f"--actors {self.actors}", *words])

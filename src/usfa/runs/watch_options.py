"""The episode to record with `usfa watch`. No torch here, so that help does not wait for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from usfa.errors import InputError

__all__ = ["Watch"]


@dataclass(frozen=True)
class Watch:
    """The episode to record."""

    task: str
    """The task w: "1,-1,0,0" or "1-100"."""
    agent: str | None = None
    """A trained agent: a name or a run directory."""
    candidates: str | None = None
    """The candidate set C of the agent."""
    trust: bool = False
    """Allow the agent's file to name modules to import, for its network, sampler or agent class."""
    rule: str | None = None
    """The decision rule of the agent: cautious (the default), gpi, follow."""
    policy: Literal["random", "greedy", "oracle"] = "oracle"
    """The policy if there is no agent: random, or greedy or oracle, which use the true state of the room."""
    steps: int = 300
    """Number of decisions to record, 15 per second; fewer if the episode ends earlier."""
    seed: int = 0
    """Random seed of the environment and of the random policy."""
    arguments: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    """Arguments of the environment, such as: types 6 layout "...../.##../...../...../....." (a slash ends a line)."""
    phi: str | None = None
    """Source of φ: reward (a vector), info (info["vector_reward"]), or module:function; by default that of the
    agent's training, or reward."""
    size: int = 336
    """Width and height in pixels of the view, and of the map beside it."""
    out: Path | None = None
    """File of the film, .gif or .mp4; by default runs/watch-ENVIRONMENT-ACTOR-TASK.gif. The contact sheet is written to
    the same name with .png."""
    overwrite: bool = False
    """Replace an existing film and contact sheet."""

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= 100_000:
            raise InputError(f"steps is {self.steps}; expected 1 to 100000.")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; expected 0 or more.")
        if not 42 <= self.size <= 1024:
            raise InputError(f"size is {self.size}; expected 42 to 1024 pixels.")
        for name, value in {"candidates": self.candidates, "rule": self.rule}.items():
            if value is not None and self.agent is None:
                raise InputError(f"{name} is {value!r}, but there is no agent; expected one with --agent.")
        if self.out is not None and self.out.suffix not in {".gif", ".mp4"}:
            raise InputError(f"out is {self.out}; expected a name that ends in .gif or .mp4.")

    @property
    def actor(self) -> str:
        """The name of the agent or policy."""
        return self.policy if self.agent is None else self.agent

    def path(self, environment: str) -> Path:
        actor = self.policy if self.agent is None else Path(self.agent).resolve().name
        return self.out or Path("runs") / (re.sub(r"[:/;]", "-", f"watch-{environment}-{actor}-{self.task}") + ".gif")

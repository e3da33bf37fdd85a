"""Finding trained agents: by the path of a run, by the path of an agent, or by the name of a shipped one."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from usfa.agents import TrainedAgent, load_agent
from usfa.errors import InputError, unknown_name
from usfa.experiments.config import TrainConfig
from usfa.experiments.run_directory import RunDirectory, read_config
from usfa.files import read_json
from usfa.records import from_json

__all__ = ["SHIPPED_AGENTS", "load", "read_training"]

SHIPPED_AGENTS: dict[str, str] = {
    "trip": "USFA for the Trip MDP, preset trip-usfa, seed 0",
    "room": "USFA for the room, from pixels, preset room-laptop for 7 million frames, seed 2",
    "room-uvfa": "UVFA for the room, to compare with, preset room-laptop-uvfa, seed 0",
}
"""Agents inside the package, with a word about each."""


def load(path: str | os.PathLike[str], seed: int | None = None) -> TrainedAgent:
    """A trained agent: `usfa.load("trip")` for a shipped one, or the directory of a run or of an agent ("./trip").

    Args:
        path: a name or a directory.
        seed: which of the runs in it; the first by default.
    """
    name = os.fspath(path)
    directory = _shipped(name) if name in SHIPPED_AGENTS else Path(path)
    if not directory.exists() and len(directory.parts) == 1:
        raise unknown_name("agent or run directory", name, SHIPPED_AGENTS)
    if (directory / "weights.safetensors").exists():
        return load_agent(directory, seed)
    if (directory / "runs").is_dir():
        inside = ", ".join(str(run) for run in sorted((directory / "runs").iterdir()))
        raise InputError(f"Directory {directory} holds several runs; expected one of {inside}.")
    run = RunDirectory(directory)
    run.config(TrainConfig)  # says what is wrong if this is not a run
    if not (run.agent / "config.json").exists():
        raise InputError(f"The run in {directory} is not finished and has no agent yet; go on with --resume.")
    return load_agent(run.agent, seed)


def read_training(path: Path) -> TrainConfig:
    """How to train: the configuration in a run's config.json, or the one that an agent's config.json was made by."""
    fields = read_json(path)
    if "weights_sha256" in fields:
        return from_json(TrainConfig, fields.get("training"), f"File {path}")
    return read_config(path, TrainConfig)


def _shipped(name: str) -> Path:
    return Path(str(resources.files("usfa") / "shipped" / name))

"""Finding trained agents: by the path of a run, by the path of an agent, or by the name of a shipped one."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from rich.console import Console

from usfa.agents import TrainedAgent, load_agent, save_accuracy
from usfa.errors import InputError, unknown_name
from usfa.evaluation import accuracy_of
from usfa.runs.config import TrainConfig
from usfa.runs.directory import RunDirectory, read_config
from usfa.files import read_json
from usfa.progress import progress_bar
from usfa.records import from_json

__all__ = ["SHIPPED_AGENTS", "load", "measure_and_save", "read_training"]

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
    return load_agent(_agent_directory(os.fspath(path)), seed)


def measure_and_save(
    path: str | os.PathLike[str], overwrite: bool = False, trust: bool = False, console: Console | None = None
) -> list[TrainedAgent]:
    """Measure how wrong ψ of every run of an agent is, and save it with the agent; weights stay as they are.

    Args:
        path: as for :func:`load`.
        overwrite: whether an accuracy that was measured before may be replaced.
        trust: whether the agent's file may name a module to import its environment from.
        console: where to show progress.
    """
    directory = _agent_directory(os.fspath(path))
    file = load_agent(directory).file
    if file.kind != "usfa":
        raise InputError(f"A {file.kind} agent has no learned ψ to measure; expected a USFA.")
    if os.fspath(path) in SHIPPED_AGENTS:
        raise InputError(f"The agent {path!r} is part of the package; expected a directory of your own, or a copy.")
    if file.accuracy and not overwrite:
        raise InputError(f"The accuracy of the agent in {directory} is measured already; --overwrite measures it anew.")
    with progress_bar("measuring how wrong ψ is", len(file.seeds), "runs", console) as bar:
        accuracy = []
        for count, seed in enumerate(file.seeds, start=1):
            accuracy.append(accuracy_of(load_agent(directory, seed), trust))
            bar.update(count)
    save_accuracy(directory, tuple(accuracy))
    return [load_agent(directory, seed) for seed in file.seeds]


def _agent_directory(name: str) -> Path:
    directory = _shipped(name) if name in SHIPPED_AGENTS else Path(name)
    if not directory.exists() and len(directory.parts) == 1:
        raise unknown_name("agent or run directory", name, SHIPPED_AGENTS)
    if (directory / "weights.safetensors").exists():
        return directory
    if (directory / "runs").is_dir():
        inside = ", ".join(str(run) for run in sorted((directory / "runs").iterdir()))
        raise InputError(f"Directory {directory} holds several runs; expected one of {inside}.")
    run = RunDirectory(directory)
    run.config(TrainConfig)  # says what is wrong if this is not a run
    if not (run.agent / "config.json").exists():
        raise InputError(f"The run in {directory} is not finished and has no agent yet; go on with --resume.")
    return run.agent


def read_training(path: Path) -> TrainConfig:
    """How to train: the configuration in a run's config.json, or the one that an agent's config.json was made by."""
    fields = read_json(path)
    if "weights_sha256" in fields:
        return from_json(TrainConfig, fields.get("training"), f"File {path}")
    return read_config(path, TrainConfig)


def _shipped(name: str) -> Path:
    return Path(str(resources.files("usfa") / "shipped" / name))

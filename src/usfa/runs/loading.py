"""Load trained agents: by the path of a run or an agent, the name of a shipped agent, or from the Hugging Face hub."""

from __future__ import annotations

import importlib.util
import os
import re
from importlib import resources
from pathlib import Path

from rich.console import Console

from usfa.agents import (
    AGENT_FILES,
    TrainedAgent,
    load_agent,
    load_kept_phi,
    part_texts,
    save_accuracy,
    updated_settings,
)
from usfa.errors import InputError, told, unknown_name
from usfa.evaluation import accuracy_of
from usfa.files import read_json
from usfa.names import SHIPPED_AGENTS
from usfa.progress import progress_bar
from usfa.records import from_json
from usfa.registry import import_modules
from usfa.runs.config import TrainConfig
from usfa.runs.directory import RunDirectory, read_config

__all__ = ["agent_directory", "load", "measure_and_save", "read_training"]

HUB = "hf://"
"""Prefix of the name of a repository of the Hugging Face hub."""


def load(path: str | os.PathLike[str], seed: int | None = None, trust: bool = False) -> TrainedAgent:
    """Load a trained agent: `usfa.load("trip")` for a shipped one, or the directory of a run or an agent ("./trip").

    Args:
        path: a name, a directory, or "hf://OWNER/NAME" for a repository of the Hugging Face hub (extra `hub`);
            append "@REVISION" for a branch, a tag or a commit.
        seed: seed of the training run; by default the first.
        trust: whether to import modules that its file names, for networks, samplers and agents of users. Without it,
            import them first.
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path is {path!r}; expected the name of a shipped agent, or a directory.")
    return load_agent(agent_directory(os.fspath(path)), seed, trust)


def measure_and_save(
    path: str | os.PathLike[str], overwrite: bool = False, trust: bool = False, console: Console | None = None
) -> list[TrainedAgent]:
    """Measure the errors of ψ of every run of an agent, and save them in its config.json.

    Args:
        path: as for :func:`load`.
        overwrite: whether to replace an accuracy that is measured already.
        trust: whether to import modules that the agent's file names.
        console: for the progress bar; None shows nothing.
    """
    directory = agent_directory(os.fspath(path))
    agent = load_agent(directory, trust=trust)
    file = agent.file
    if not agent.actor.learns_psi:
        raise InputError(f"A {file.kind} agent has no learned ψ to measure; expected a USFA.")
    if os.fspath(path) in SHIPPED_AGENTS:
        raise InputError(f"The agent {path!r} is part of the package; expected a directory of your own, or a copy.")
    if file.accuracy and not overwrite:
        raise InputError(f"The accuracy of the agent in {directory} is measured already; replace it with --overwrite.")
    with progress_bar("measuring the errors of ψ", len(file.seeds), "runs", console) as bar:
        accuracy = []
        for count, seed in enumerate(file.seeds, start=1):
            accuracy.append(accuracy_of(load_agent(directory, seed, trust), trust))
            bar.update(count)
    save_accuracy(directory, tuple(accuracy), trust)
    return [load_agent(directory, seed, trust) for seed in file.seeds]


def agent_directory(name: str) -> Path:
    """The directory with the files of an agent; for an agent on the hub, its copy in the client's cache."""
    if name.startswith(HUB):
        return _from_hub(name)
    directory = _shipped(name) if name in SHIPPED_AGENTS else Path(name)
    if not directory.exists() and len(directory.parts) == 1:
        raise unknown_name("agent or run directory", name, SHIPPED_AGENTS)
    if (directory / "weights.safetensors").exists():
        return directory
    if (directory / "runs").is_dir():
        inside = ", ".join(str(run) for run in sorted((directory / "runs").iterdir()))
        raise InputError(f"Directory {directory} holds several runs; expected one of {inside}.")
    run = RunDirectory(directory)
    run.check_kind(TrainConfig)
    if not (run.agent / "config.json").exists():
        raise InputError(f"The run in {directory} is not finished and has no agent yet; continue it with --resume.")
    return run.agent


def _from_hub(address: str) -> Path:
    """Download the files of an agent, unless the cache has them; without a network (HF_HUB_OFFLINE=1) use the cache."""
    repository, _, revision = address.removeprefix(HUB).partition("@")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise InputError(f"The agent is {address!r}; expected {HUB}OWNER/NAME or {HUB}OWNER/NAME@REVISION.")
    if importlib.util.find_spec("huggingface_hub") is None:
        raise InputError(f"{address} needs huggingface_hub; install it with pip install 'usfa[hub]'.")
    import huggingface_hub

    try:
        return Path(
            huggingface_hub.snapshot_download(repository, revision=revision or None, allow_patterns=[*AGENT_FILES])
        )
    except Exception as error:  # the client raises dozens of types, and so does its network library
        raise InputError(f"{address} cannot be loaded: {told(error)}.") from error


def read_training(path: Path, trust: bool = False) -> TrainConfig:
    """Read the training configuration from the config.json of a run or of an agent."""
    fields = read_json(path)
    if "weights_sha256" not in fields:
        return read_config(path, TrainConfig, trust)
    load_kept_phi(path.parent, fields.get("phi"), trust)
    training = updated_settings(fields.get("training") or {})
    if trust:
        import_modules(part_texts(training))
    return from_json(TrainConfig, training, f"File {path}")


def _shipped(name: str) -> Path:
    return Path(str(resources.files("usfa") / "shipped" / name))

"""Files of a trained agent: `config.json`, `weights.safetensors` and a model card. No pickle is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from usfa.agents.agent import Agent, AgentSpec
from usfa.agents.tables import SfGpiTables
from usfa.agents.usfa import UsfaAgent
from usfa.agents.uvfa import UvfaAgent
from usfa.decisions import Accuracy
from usfa.environments import LEARNED, is_known_phi, known_phi
from usfa.errors import InputError, counted
from usfa.files import read_json, sha256, write_atomically, write_json
from usfa.networks import NetworkConfig, Parameters, read_weights
from usfa.phi import PHI_FILES, LearnedPhi, load_phi
from usfa.records import from_json, to_json
from usfa.registry import Registry, import_modules
from usfa.tasks import format_task, parse_tasks
from usfa.version import __version__

__all__ = [
    "AGENTS",
    "AGENT_FILES",
    "AgentFile",
    "check_weights",
    "keep_phi",
    "load_kept_phi",
    "part_texts",
    "read_agent",
    "save_accuracy",
    "save_agent",
    "section",
    "updated_settings",
]

AGENTS: Registry[Agent] = Registry("agent", Agent, {"usfa": UsfaAgent, "uvfa": UvfaAgent, "sf-gpi-tables": SfGpiTables})
"""Agents by name, for configurations and saved files."""

FORMAT = 2
CONFIG, WEIGHTS, CARD = "config.json", "weights.safetensors", "README.md"
AGENT_FILES = (CONFIG, WEIGHTS, CARD, *PHI_FILES)
"""Names of the files in an agent directory; a φ that was not learned has no files."""


@dataclass(frozen=True)
class AgentFile:
    """Everything about a trained agent except its weights."""

    kind: str
    """Class of the agent: a name in `AGENTS`, or module:Class."""
    spec: AgentSpec
    environment: str
    environment_arguments: Mapping[str, Any]
    gamma: float
    training_tasks: tuple[tuple[float, ...], ...]
    policies: str
    """D_z as text, see :func:`usfa.samplers.parse_sampler`."""
    seeds: tuple[int, ...]
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Not used by tables."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """The complete training configuration."""
    command: str = ""
    """Command that repeats the training, for the model card."""
    frames: int = 0
    """Environment steps of training, the mean over seeds."""
    episodes: int = 0
    """Finished episodes of training, the mean over seeds."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Mean scores after training, for the model card."""
    phi: str = "reward"
    """Source of φ, see :class:`usfa.environments.VectorReward`; a learned φ is saved beside the agent."""
    accuracy: tuple[Accuracy, ...] = ()
    """Errors of ψ of each seed; empty for UVFAs, exact tables, and agents of early versions."""

    def __post_init__(self) -> None:
        if not self.seeds:
            raise InputError("The agent's seeds are empty; expected at least one.")
        parse_tasks(self.training_tasks, self.spec.features)
        if self.accuracy and len(self.accuracy) != len(self.seeds):
            raise InputError(
                f"The agent has {counted(len(self.accuracy), 'accuracy', 'accuracies')}; "
                f"expected {len(self.seeds)}, one for each seed."
            )
        for accuracy in self.accuracy:
            if len(accuracy.step_error) != self.spec.features:
                raise InputError(
                    f"The agent's step_error has {counted(len(accuracy.step_error), 'entry', 'entries')}; "
                    f"expected {self.spec.features}."
                )
        if "phi" in self.environment_arguments:
            raise InputError("The agent's environment_arguments have an entry phi; set phi instead.")

    def agent(self) -> Agent:
        return AGENTS.make(self.kind, self.spec, self.network)


def save_agent(directory: Path, file: AgentFile, parameters: Parameters) -> None:
    """Write an agent directory; `parameters` are [R, ...], in the order of `file.seeds`."""
    weights = safetensors.torch.save({name: tensor.detach().contiguous() for name, tensor in parameters.items()})
    write_atomically(directory / WEIGHTS, weights)
    write_atomically(directory / CARD, _model_card(file).encode())
    keep_phi(directory, file.phi)
    _write_agent_file(directory, file, sha256(weights))


def keep_phi(directory: Path, phi: str) -> None:
    """Write the files of φ into a directory, if it was learned."""
    if phi.startswith(LEARNED):
        learned = known_phi(phi)
        assert isinstance(learned, LearnedPhi)
        learned.save(directory)


def load_kept_phi(directory: Path, phi: object, trust: bool = False) -> None:
    """Load the φ that :func:`keep_phi` wrote, unless it is loaded already; raise InputError if its text is not `phi`.

    A φ that is loaded already needs no file and no trust, because its text is a checksum of its content.
    """
    if isinstance(phi, str) and phi.startswith(LEARNED) and not is_known_phi(phi):
        found = load_phi(directory, trust)
        if found.text != phi:
            raise InputError(f"The φ in {directory} is {found.text!r}; expected {phi!r}, as in config.json.")


def save_accuracy(directory: Path, accuracy: tuple[Accuracy, ...], trust: bool = False) -> None:
    """Write the errors of ψ of each run to the config.json of an agent directory."""
    file, weights_sha256, _ = _read_agent_file(directory / CONFIG, trust)
    _write_agent_file(directory, replace(file, accuracy=accuracy), weights_sha256)


def _write_agent_file(directory: Path, file: AgentFile, weights_sha256: str) -> None:
    config = {"format": FORMAT, "version": __version__, "weights_sha256": weights_sha256, **to_json(file)}
    write_json(directory / CONFIG, config)


def _model_card(file: AgentFile) -> str:
    tasks = ", ".join(f"`{format_task(w)}`" for w in file.training_tasks)
    scores = "".join(f"| {name} | {value:.5f} |\n" for name, value in file.scores.items())
    training = f"* Training: `{file.command}`, {file.frames:,} frames per seed\n" if file.command else ""
    return f"""---
library_name: usfa
pipeline_tag: reinforcement-learning
tags:
- reinforcement-learning
- multi-objective
- successor-features
- zero-shot
---

# {file.kind} agent for `{file.environment}`

* Training tasks M: {tasks}
* Policies learned, D_z: `{file.policies}`; discount γ = {file.gamma:g}
{training}* Seeds in this file: {", ".join(str(seed) for seed in file.seeds)}; made by usfa {__version__}
* Use: `usfa.load(PATH).policy(task={list(file.training_tasks[0])})`, with the path of this directory,
  or `hf://OWNER/NAME` for its repository on the Hugging Face hub. The weights are safetensors, nothing is unpickled.

| after training | mean over seeds and tasks |
|---|---|
{scores}
## Training configuration

```json
{json.dumps(file.training, indent=2, ensure_ascii=False)}
```
"""


def read_agent(directory: Path, trust: bool = False) -> tuple[AgentFile, Parameters]:
    """Read the file and the weights [R, ...] from a directory of :func:`save_agent`.

    Args:
        directory: an agent directory.
        trust: whether to import modules that the file names, for user-defined classes.
    """
    file, weights_sha256, found = _read_agent_file(directory / CONFIG, trust)
    load_kept_phi(directory, file.phi, trust)
    weights = read_weights(directory / WEIGHTS, weights_sha256, CONFIG)
    if found == 1:
        weights = {_current_name(name): tensor for name, tensor in weights.items()}
    check_weights(f"The weights in {directory}", file.agent(), len(file.seeds), weights)
    return file, weights


def check_weights(source: str, agent: Agent, runs: int, weights: Parameters) -> None:
    """Raise InputError if weights of several runs do not have the shapes and types of an agent, or are not finite."""
    expected = {name: (runs, *shape) for name, shape in agent.parameter_shapes().items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise InputError(
                f"{source} do not fit their config.json: {name} has shape {found.get(name)}, expected "
                f"{expected.get(name)}."
            )
    for name, dtype in agent.parameter_types().items():
        if weights[name].dtype not in ({dtype, torch.float16} if dtype == torch.float32 else {dtype}):
            raise InputError(
                f"{source} do not fit their config.json: {name} is {weights[name].dtype}, expected {dtype}."
            )
        if not bool(weights[name].isfinite().all()):
            raise InputError(f"{source} are not finite: {name} has NaN or infinite entries.")


def _read_agent_file(path: Path, trust: bool) -> tuple[AgentFile, str, int]:
    """Read config.json: the agent, the checksum of its weights, and the format."""
    config = read_json(path)
    found = config.pop("format", None)
    if found not in (1, FORMAT):
        raise InputError(f"File {path} is not an agent of format {FORMAT}, which usfa {__version__} reads.")
    config.pop("version", None)
    checksum = str(config.pop("weights_sha256", ""))
    config = updated_settings(config)
    if found == 1 and config.get("kind") == "sf-gpi-tables" and isinstance(config.get("training_tasks"), list):
        config["kind"] = f'sf-gpi-tables{{"policies": {len(config["training_tasks"])}}}'
    if trust:
        import_modules(part_texts(config))
    return from_json(AgentFile, config, f"File {path}"), checksum, found


def part_texts(fields: Mapping[str, Any]) -> list[object]:
    """The entries of a saved configuration or agent file that may name user-defined classes."""
    network, learner, evaluation = (section(fields, name) for name in ("network", "learner", "evaluation"))
    texts = [fields.get("kind"), fields.get("agent"), fields.get("policies")]
    texts += [network.get("network_class"), network.get("trunk_class"), learner.get("policies"), learner.get("tasks")]
    texts += [*(evaluation.get("rules") or ()), *(evaluation.get("final_rules") or ())]
    training = section(fields, "training")
    return [*texts, *part_texts(training)] if training else texts


def section(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A section of a file that is not checked yet; empty if it is missing or not a mapping."""
    found = fields.get(name)
    return found if isinstance(found, Mapping) else {}


# --- files of earlier versions ---

_RENAMED = {
    "network": {"centre": "obs_centre", "spread": "obs_scale", "scale": "output_scale"},
    "learner": {"boldest": "epsilon_max", "reuse": "replay_ratio", "average": "ema"},
}
"""Settings that were renamed since format 1: old name -> new name, by section."""


def updated_settings(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the settings of a saved configuration or agent file to their current names."""
    updated = dict(fields)
    for section, names in _RENAMED.items():
        if isinstance(updated.get(section), Mapping):
            updated[section] = {names.get(name, name): value for name, value in updated[section].items()}
    if isinstance(updated.get("training"), Mapping):
        updated["training"] = updated_settings(updated["training"])
    return updated


def _current_name(name: str) -> str:
    """The current name of a weight; in format 1 the trunk was not a separate module."""
    group, _, rest = name.partition(".")
    if group in ("convolutions", "image_norm", "memory"):
        return f"trunk.{name}"
    if group == "state_norm":
        return f"trunk.norm.{rest}"
    if group == "trunk" and rest.partition(".")[0].isdecimal():
        return f"trunk.layers.{rest}"
    return name

"""Agents with weights: what a user loads, asks and acts with, and the files they come from.

An agent directory holds `config.json`, `weights.safetensors` and a model card, `README.md`. Nothing is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import ArrayLike, NDArray

from usfa.agents.agent import Actor, AgentSpec
from usfa.agents.catalogue import make_agent
from usfa.agents.tables import SfGpiTables
from usfa.agents.usfa import UsfaAgent
from usfa.decisions import (
    DEFAULT_RULE,
    PAPER_RULE,
    Accuracy,
    CandidateSet,
    Decision,
    Rule,
    assumed_accuracy,
    parse_rule,
)
from usfa.errors import InputError
from usfa.files import read_json, sha256, write_atomically, write_json
from usfa.functional import mask_illegal, q_values
from usfa.networks import NetworkConfig, Parameters, select_run
from usfa.records import from_json, to_json
from usfa.samplers import candidate_set, distance_from_learned, is_near_the_task, parse_sampler
from usfa.tasks import TASKS_OF_M, format_task, parse_task, parse_tasks
from usfa.trajectory import Present
from usfa.version import __version__

__all__ = ["AgentFile", "Policy", "TrainedAgent", "load_agent", "save_accuracy", "save_agent"]

FORMAT = 1
Candidates = str | ArrayLike


@dataclass(frozen=True)
class AgentFile:
    """Everything about a trained agent but its weights."""

    kind: Literal["usfa", "uvfa", "sf-gpi-tables"]
    spec: AgentSpec
    environment: str
    environment_arguments: Mapping[str, Any]
    gamma: float
    training_tasks: tuple[tuple[float, ...], ...]
    policies: str
    """D_z as text, see :func:`usfa.samplers.parse_sampler`."""
    seeds: tuple[int, ...]
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Without meaning for tables."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """The whole configuration that made it."""
    command: str = ""
    """How to train it again, for the model card."""
    frames: int = 0
    """Environment steps of training, the mean over seeds."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """What was measured after training, for the model card."""
    phi: str = "reward"
    """Where φ comes from, see :class:`usfa.environments.VectorReward`."""
    accuracy: tuple[Accuracy, ...] = ()
    """How wrong ψ of each seed is; empty for UVFAs, exact tables, and agents saved before it was measured."""

    def __post_init__(self) -> None:
        if not self.seeds:
            raise InputError("The agent's seeds are empty; expected at least one.")
        parse_tasks(self.training_tasks, self.spec.features)
        if self.accuracy and len(self.accuracy) != len(self.seeds):
            raise InputError(
                f"The agent has {len(self.accuracy)} accuracies; expected {len(self.seeds)}, one for each seed."
            )
        for accuracy in self.accuracy:
            if len(accuracy.step_error) != self.spec.features:
                raise InputError(
                    f"The agent's step_error has {len(accuracy.step_error)} entries; expected {self.spec.features}."
                )
        if "phi" in self.environment_arguments:
            raise InputError("The agent's environment_arguments have an entry phi; expected it as phi itself.")

    def actor(self) -> Actor:
        if self.kind == "sf-gpi-tables":
            return SfGpiTables(self.spec, len(self.training_tasks))
        return make_agent(self.kind, self.spec, self.network)


class TrainedAgent:
    """One agent that does any task: ask it for values, or for a policy to act with."""

    def __init__(self, file: AgentFile, parameters: Parameters, seed: int) -> None:
        self.file = file
        self.parameters = parameters
        self.seed = seed
        self.actor = file.actor()
        self.training_tasks = np.array(file.training_tasks)
        self.sampler = parse_sampler(file.policies, self.training_tasks)

    def __repr__(self) -> str:
        tasks = ", ".join(format_task(w) for w in self.training_tasks)
        return f"<{self.file.kind} agent for {self.file.environment}, trained on {tasks}, seed {self.seed}>"

    @property
    def default_candidates(self) -> str:
        """M ∪ {w'}, both kinds of generalisation, but M alone where only policies in or near M were learned.

        GPI would trust ψ(·, w') there as it does the others, and in the room (σ = 0.1) that costs more than it brings:
        see docs/room-settings.md.
        """
        if self.file.kind == "uvfa":
            return "task"
        return "train" if self.file.kind == "sf-gpi-tables" or self._learned_near_m_only else "train+task"

    @property
    def tasks_acted_on(self) -> str:
        """`LearnerConfig.tasks` of the training."""
        return str(self.file.training.get("learner", {}).get("tasks", TASKS_OF_M[0]))

    @property
    def _learned_near_m_only(self) -> bool:
        near = self.tasks_acted_on in TASKS_OF_M and is_near_the_task(self.sampler)
        return self.file.policies == "train" or near

    @property
    def default_rule(self) -> str:
        """cautious where ψ was learned; gpi for exact tables and UVFAs, where cautious would change nothing."""
        return DEFAULT_RULE if self.file.kind == "usfa" else PAPER_RULE

    @property
    def accuracy(self) -> Accuracy | None:
        """How wrong ψ is, as measured after training; None if it was not."""
        return self.file.accuracy[self.file.seeds.index(self.seed)] if self.file.accuracy else None

    def candidates(
        self, w: NDArray[np.float64], candidates: Candidates | None, rng: np.random.Generator
    ) -> CandidateSet[NDArray[np.float64]]:
        """The set C for every task, w [..., D] -> z [..., N, D], with the measured errors of ψ."""
        chosen = self.default_candidates if candidates is None else candidates
        if self.file.kind == "uvfa" and not (isinstance(chosen, str) and chosen == "task"):
            raise InputError(f"A UVFA has no candidate set but 'task'; given was {chosen!r}.")
        z = candidate_set(chosen, w, self.training_tasks, self.sampler, rng)
        if self.file.kind != "usfa":
            return CandidateSet.believed(z)
        accuracy = self.accuracy or assumed_accuracy(self.file.spec.features)
        return accuracy.of(z, self.distance(z))

    def distance(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far policies z [..., D] are from those that were learned, [...]."""
        return distance_from_learned(z, self.sampler, self.training_tasks, self.tasks_acted_on)

    @torch.no_grad()
    def q_values(
        self,
        observation: object,
        task: str | ArrayLike,
        candidates: Candidates | None = None,
        *,
        legal: ArrayLike | None = None,
        seed: int = 0,
    ) -> NDArray[np.float32]:
        """Q(s, ·, w) by the best policy in C: one observation -> [A], a batch of K -> [K, A].

        Args:
            observation: as the environment gives it, or a batch of such.
            task: w, numbers or text.
            candidates: C; by default :attr:`default_candidates`.
            legal: [A] or [K, A], which actions exist; the others get -inf.
            seed: for "sample:N".
        """
        w = parse_task(task, self.file.spec.features)
        chosen = self.candidates(w, candidates, np.random.default_rng(seed)).tensors()
        present, single = self._at_start(observation)
        batch = len(present.observation)
        tasks = torch.from_numpy(w).float().expand(batch, -1)
        of_each = chosen.map(lambda values: values.expand(batch, *values.shape))
        situation, _ = self.actor.situation(self.parameters, present, tasks, of_each)
        q = q_values(situation.psi, situation.w).amax(dim=-2)
        q = mask_illegal(q, None if legal is None else torch.from_numpy(np.array(legal, np.bool_)))
        result: NDArray[np.float32] = (q[0] if single else q).numpy()
        return result

    def _at_start(self, observation: object) -> tuple[Present, bool]:
        """Episodes that begin with one observation or a batch of them, and whether it is one."""
        encoded = self.file.spec.observation.encode(observation)
        single = encoded.ndim == len(self.file.spec.observation.shape)
        return self.actor.at_start(torch.from_numpy(encoded[None] if single else encoded)), single

    @torch.no_grad()
    def successor_features(self, observation: object, z: ArrayLike) -> NDArray[np.float32]:
        """ψ(s, ·, z) of N policies [N, D]: one observation -> [N, A, D], a batch of K -> [K, N, A, D]."""
        if not isinstance(self.actor, UsfaAgent):
            raise InputError(f"A {self.file.kind} agent has no network of successor features; expected a USFA.")
        present, single = self._at_start(observation)
        policies = torch.from_numpy(parse_tasks(z, self.file.spec.features)).float()
        psi, _ = self.actor.step(self.parameters, present, policies.expand(len(present.observation), -1, -1))
        result: NDArray[np.float32] = (psi[0] if single else psi).numpy()
        return result

    def policy(
        self,
        task: str | ArrayLike,
        candidates: Candidates | None = None,
        rule: str | Rule | None = None,
        *,
        seed: int = 0,
    ) -> Policy:
        """A policy for a task: any real vector, negative entries included. Nothing is learned.

        Args:
            task: w, as [1, 1, -1, 0], "1,1,-1,0" or "11-10".
            candidates: C, the policies to choose from: "task", "train", "train+task", "sample:30" or an array
                [N, D]; by default :attr:`default_candidates`.
            rule: how to choose: "cautious", "gpi" (Eq. 3), "follow", or an object with a method `decide`; by default
                :attr:`default_rule`.
            seed: for "sample:N".
        """
        w = parse_task(task, self.file.spec.features)
        chosen = self.candidates(w, candidates, np.random.default_rng(seed))
        return Policy(self, w, chosen, parse_rule(self.default_rule if rule is None else rule))


class Policy:
    """Acts on one task without exploring. Call it with observations; `reset` it when an episode starts."""

    def __init__(
        self, agent: TrainedAgent, w: NDArray[np.float64], candidates: CandidateSet[NDArray[np.float64]], rule: Rule
    ) -> None:
        self.agent = agent
        self.w = w
        self.z = candidates.z
        self.rule = rule
        self._task = torch.from_numpy(w).float()[None]
        self._candidates = candidates.tensors().map(lambda values: values[None])
        self.reset()

    def reset(self) -> None:
        """Forget the episode."""
        self._memory = self.agent.actor.initial_state(1)
        self._first = torch.ones(1, dtype=torch.bool)
        self._last_action = torch.zeros(1, dtype=torch.int64)
        self.decision: Decision | None = None
        """What the rule decided last, each tensor with a first axis of 1."""

    @torch.no_grad()
    def __call__(self, observation: object, legal: ArrayLike | None = None) -> int:
        """The action for this observation.

        Args:
            observation: as the environment gives it.
            legal: which actions exist now, `info["action_mask"]` where the environment has one.
        """
        actor = self.agent.actor
        encoded = torch.from_numpy(actor.spec.observation.encode(observation)[None])
        if encoded.shape[1:] != actor.spec.observation.shape:
            raise InputError(f"The observation {observation!r} is a batch; expected one observation.")
        present = Present(encoded, self._last_action, self._mask(legal), self._first, self._memory)
        state = None if self.decision is None else self.decision.state
        self.decision, self._memory = actor.act(
            self.agent.parameters, present, self._task, self._candidates, self.rule, state
        )
        self._last_action = self.decision.action
        self._first = torch.zeros(1, dtype=torch.bool)
        return int(self._last_action)

    def _mask(self, legal: ArrayLike | None) -> torch.Tensor:
        spec = self.agent.actor.spec
        if legal is None and spec.masked:
            raise InputError(
                f"legal is missing; not every action of {self.agent.file.environment!r} is legal everywhere, "
                'expected its info["action_mask"].'
            )
        mask = np.ones(spec.actions, np.bool_) if legal is None else np.array(legal, np.bool_)
        if mask.shape != (spec.actions,) or not mask.any():
            raise InputError(f"legal is {legal!r}; expected {spec.actions} entries, one per action, not all false.")
        return torch.from_numpy(mask[None])


def save_agent(directory: Path, file: AgentFile, parameters: Parameters) -> None:
    """Write an agent directory; `parameters` have the runs of `file.seeds` as first axis."""
    weights = safetensors.torch.save({name: tensor.contiguous() for name, tensor in parameters.items()})
    write_atomically(directory / "weights.safetensors", weights)
    write_atomically(directory / "README.md", _model_card(file).encode())
    _write_agent_file(directory, file, sha256(weights))


def save_accuracy(directory: Path, accuracy: tuple[Accuracy, ...]) -> None:
    """Write how wrong ψ of each run is into an agent directory, and leave its weights alone."""
    file, weights_sha256 = _read_agent_file(directory / "config.json")
    _write_agent_file(directory, replace(file, accuracy=accuracy), weights_sha256)


def _write_agent_file(directory: Path, file: AgentFile, weights_sha256: str) -> None:
    config = {"format": FORMAT, "version": __version__, "weights_sha256": weights_sha256, **to_json(file)}
    write_json(directory / "config.json", config)


def _model_card(file: AgentFile) -> str:
    tasks = ", ".join(f"`{format_task(w)}`" for w in file.training_tasks)
    scores = "".join(f"| {name} | {value:.5f} |\n" for name, value in file.scores.items())
    training = f"* Training: `{file.command}`, {file.frames:,} frames per seed\n" if file.command else ""
    return f"""# {file.kind} agent for `{file.environment}`

* Training tasks M: {tasks}
* Policies learned, D_z: `{file.policies}`; discount γ = {file.gamma:g}
{training}* Seeds in this file: {", ".join(str(seed) for seed in file.seeds)}; made by usfa {__version__}
* Use: `usfa.load(PATH).policy(task={list(file.training_tasks[0])})`. The weights are safetensors, nothing is unpickled.

| after training | mean over seeds and tasks |
|---|---|
{scores}
## Training configuration

```json
{json.dumps(file.training, indent=2, ensure_ascii=False)}
```
"""


def load_agent(directory: Path, seed: int | None = None) -> TrainedAgent:
    """The agent in a directory from :func:`save_agent`; without `seed` the first of its runs."""
    file, weights_sha256 = _read_agent_file(directory / "config.json")
    if seed is None:
        seed = file.seeds[0]
    if seed not in file.seeds:
        raise InputError(f"The agent in {directory} has no seed {seed}; expected one of {list(file.seeds)}.")
    weights = _read_weights(directory / "weights.safetensors", weights_sha256)
    _check_shapes(directory, file, weights)
    return TrainedAgent(file, select_run(weights, file.seeds.index(seed)), seed)


def _check_shapes(directory: Path, file: AgentFile, weights: Parameters) -> None:
    expected = {name: (len(file.seeds), *shape) for name, shape in file.actor().parameter_shapes().items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise InputError(
                f"The weights in {directory} do not fit their config.json: {name} has shape {found.get(name)}, "
                f"expected {expected.get(name)}."
            )


def _read_weights(path: Path, expected_sha256: str) -> Parameters:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"File {path} cannot be read: {error.strerror}.") from error
    if sha256(content) != expected_sha256:
        raise InputError(f"File {path} is torn or was changed: its checksum does not match config.json.")
    try:
        return safetensors.torch.load(content)
    except safetensors.SafetensorError as error:
        raise InputError(f"File {path} is not a safetensors file: {error}.") from error


def _read_agent_file(path: Path) -> tuple[AgentFile, str]:
    config = read_json(path)
    if config.pop("format", None) != FORMAT:
        raise InputError(f"File {path} is not an agent of format {FORMAT}, which usfa {__version__} reads.")
    config.pop("version", None)
    checksum = str(config.pop("weights_sha256", ""))
    return from_json(AgentFile, config, f"File {path}"), checksum

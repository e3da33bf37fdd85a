"""The configuration of a training run, saved with the run as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gymnasium import Env
from numpy.typing import NDArray

from usfa.agents import AGENTS
from usfa.decisions import DEFAULT_RULE, PAPER_RULE, SINGLE, rule_name
from usfa.environments import EnvironmentSource, source
from usfa.errors import InputError
from usfa.learning import LearnerConfig, check_environments
from usfa.networks import NetworkConfig
from usfa.phi import PHI_FILES, LearnedPhi, load_phi
from usfa.records import settle
from usfa.registry import is_own, path_of, text_of
from usfa.samplers import PolicySampler, parse_sampler
from usfa.tasks import TASKS_OF_M, format_task, parse_tasks

if TYPE_CHECKING:
    from usfa.decisions import Rule
    from usfa.registry import ClassOrName

    AgentName = ClassOrName
    RuleName = str | Rule
else:  # configurations are saved as text
    AgentName = RuleName = str

__all__ = ["EvaluationConfig", "TrainConfig", "environment_text", "load_features", "phi_text", "tasks_text"]


@dataclass(frozen=True)
class EvaluationConfig:
    """Settings for scoring snapshots."""

    tasks: tuple[str, ...] = ()
    """Sets of test tasks: names, or lists such as "1,0;0.5,0.5"; by default the training tasks."""
    candidates: tuple[str, ...] = ("task",)
    """Candidate sets C: task, train, train+task, sample:N."""
    rules: tuple[RuleName, ...] = (PAPER_RULE,)
    """Decision rules to score every snapshot with: gpi (Eq. 3), cautious, steady, follow, single. Before the last
    snapshot ψ is treated as exact, so cautious is the same as gpi."""
    final_rules: tuple[RuleName, ...] = (DEFAULT_RULE, SINGLE)
    """Additional rules for the last snapshot. single is a baseline: the best policy of C in hindsight, followed
    alone."""
    snapshots: int = 25
    """Number of snapshots during training, evenly spaced, in addition to the one before training."""
    episodes: int = 20
    """Episodes per task and candidate set, if scores are not exact."""
    epsilon: float = 0.001
    """Probability of a random action in these episodes."""
    measure_errors: bool = True
    """Measure the errors of ψ after training, for cautious and steady, with a twentieth of the training steps but at
    least some thousands. Otherwise typical errors are assumed."""

    def __post_init__(self) -> None:
        for setting in ("rules", "final_rules"):
            texts = tuple(text_of(rule, f"evaluation.{setting}") for rule in _several(getattr(self, setting)))
            object.__setattr__(self, setting, texts)
        object.__setattr__(self, "tasks", tuple(map(tasks_text, _several(self.tasks))))
        settle(self, "evaluation.")
        if self.snapshots > 10_000:
            raise InputError(f"snapshots is {self.snapshots}; expected at most 10,000.")
        if self.episodes < 1:
            raise InputError(f"evaluation.episodes is {self.episodes}; expected at least 1.")
        if not 0 <= self.epsilon <= 1:
            raise InputError(f"evaluation.epsilon is {self.epsilon}; expected a number from 0 to 1.")
        if not self.candidates:
            raise InputError("evaluation.candidates is empty; expected at least one candidate set, such as 'task'.")
        if not self.rules:
            raise InputError("evaluation.rules is empty; expected at least one decision rule, such as 'gpi'.")
        for setting, rules in {"rules": self.rules, "final_rules": self.final_rules}.items():
            names = [rule_name(rule) for rule in rules]
            if len(set(names)) < len(names):
                raise InputError(f"evaluation.{setting} is {names}; expected each once.")


@dataclass(frozen=True)
class TrainConfig:
    """One agent, trained with several seeds at once."""

    environment: str
    """Name of the environment, see `usfa list`; in Python also a class, or a function that makes one. Saved as text."""
    training_tasks: str
    """M: the name of a set, or a list such as "1,0;0,1"; in Python also an array [K, D]. Saved as text."""
    agent: AgentName = "usfa"
    """usfa, uvfa, or a class of your own, as module:Class."""
    environment_arguments: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    """Arguments of the environment."""
    phi: str = "reward"
    """Source of φ: reward (a vector), info (info["vector_reward"]), module:function (of observation, action and next
    observation), or the directory of a learned φ; in Python also a function or a learned φ."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    seeds: tuple[int, ...] = tuple(range(10))
    """One training run for each seed; all train in parallel."""
    checkpoint_every: int = 200
    """Rounds of updates between two checkpoints."""
    threads: int = 1
    """Threads of PyTorch; one is fastest for small networks, and gives the same results on every machine."""
    device: str = "auto"
    """Device: cpu, cuda, or auto, which is a GPU if there is one."""
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    """Precision of convolutions and matrix products; auto measures which is faster; --resume keeps the choice."""
    saved_weights: Literal["fp32", "fp16"] = "fp32"
    """Precision of the weights of the finished agent; fp16 halves its file. Scores are those of the saved weights."""

    def __post_init__(self) -> None:
        texts = {
            "agent": text_of(self.agent, "agent"),
            "environment": environment_text(self.environment),
            "phi": phi_text(self.phi),
            "training_tasks": tasks_text(self.training_tasks),
        }
        for name, text in texts.items():
            object.__setattr__(self, name, text)
        settle(self)
        if not _trains(self.agent):
            raise InputError(f"agent is {self.agent!r}, which is computed, not trained; expected usfa or uvfa.")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise InputError(f"seeds are {self.seeds}; expected one or more different whole numbers from 0.")
        if len(self.seeds) > 10_000 or max(self.seeds) >= 2**63:
            raise InputError(f"seeds are up to {max(self.seeds)}; expected at most 10,000 numbers below 2^63.")
        for name, value in {"checkpoint_every": self.checkpoint_every, "threads": self.threads}.items():
            if value < 1:
                raise InputError(f"{name} is {value}; expected at least 1.")
        if self.threads > 1024:
            raise InputError(f"threads is {self.threads}; expected at most 1024.")
        if not 1 <= self.evaluation.snapshots <= self.learner.budget:
            raise InputError(
                f"snapshots is {self.evaluation.snapshots}; expected 1 to {self.learner.budget}, the budget."
            )
        parse_sampler(self.learner.policies, self.tasks)
        if "phi" in self.environment_arguments:
            raise InputError("environment_arguments has an entry phi; set phi instead.")
        _check_tasks(self.learner.tasks, self.tasks)
        check_environments(self.learner, self.tasks)

    @property
    def environments(self) -> EnvironmentSource:
        return source(self.environment, phi=self.phi, **self.environment_arguments)

    @property
    def tasks(self) -> NDArray[np.float64]:
        """M, [K, D]."""
        return parse_tasks(self.training_tasks)

    @property
    def milestones(self) -> tuple[int, ...]:
        """Times of the snapshots in the unit of the budget; the first is 0, the last is the budget."""
        count, budget = self.evaluation.snapshots, self.learner.budget
        return tuple(round(budget * k / count) for k in range(count + 1))


def _several(values: Any) -> Iterable[Any]:
    """Return a list or tuple as it is, and any other value as a tuple of one."""
    return values if isinstance(values, list | tuple) else (values,)


def environment_text(environment: object) -> str:
    """The name of an environment, or "module:name" of a class or function; InputError if it cannot be saved."""
    if isinstance(environment, str):
        return environment
    if not (isinstance(environment, FunctionType) or (isinstance(environment, type) and issubclass(environment, Env))):
        raise InputError(
            f"environment is {environment!r}, which cannot be saved; expected a name, a class derived from "
            "gymnasium.Env or a function, or usfa.register gives it a name."
        )
    return path_of(environment, "environment")


def phi_text(phi: object) -> str:
    """The text of a source of φ; InputError for a function that is not at the top of a module.

    The directory of a learned φ is loaded, and replaced by the text that identifies its content.
    """
    if isinstance(phi, str) and (phi in ("reward", "info") or ":" in phi):
        return phi
    if isinstance(phi, str) and not Path(phi).is_dir():
        raise InputError(
            f"phi is {phi!r}; expected 'reward', 'info', 'module:function', or the directory of a learned φ."
        )
    if isinstance(phi, str):
        return load_features(phi).text
    if isinstance(phi, LearnedPhi):
        return phi.text
    if not isinstance(phi, FunctionType):
        raise InputError(
            f"phi is {phi!r}; expected 'reward', 'info', a learned φ, or a function at the top of a module."
        )
    return path_of(phi, "phi")


def load_features(path: str | os.PathLike[str], trust: bool = False) -> LearnedPhi:
    """Load a learned φ from the directory of `usfa learn-features`, of a run, or of an agent.

    Args:
        path: the directory.
        trust: whether to import modules that its file names, for models and rewards of users.
    """
    directory = Path(path)
    for inside in (directory, directory / "phi", directory / "agent"):
        if (inside / PHI_FILES[0]).is_file():
            return load_phi(inside, trust)
    raise InputError(f"Directory {directory} holds no learned φ; expected one of usfa learn-features.")


def tasks_text(tasks: object) -> str:
    """The text of tasks [K, D]; a text stays as it is."""
    return tasks if isinstance(tasks, str) else ";".join(format_task(w) for w in parse_tasks(tasks))  # type: ignore[arg-type]


def _trains(agent: AgentName) -> bool:
    found = AGENTS.find(agent)
    return bool(getattr(getattr(found, "func", found), "trains", True))


def _check_tasks(tasks: str | PolicySampler, training_tasks: NDArray[np.float64]) -> None:
    if tasks in TASKS_OF_M:
        return
    try:
        parse_sampler(tasks, training_tasks)
    except InputError as error:
        if isinstance(tasks, str) and is_own(tasks):  # the error names the module or the class
            raise
        raise InputError(
            f"learner.tasks is {tasks!r}; expected {', '.join(TASKS_OF_M)}, or a distribution such as simplex, "
            "ball:1 or gaussian:0.1."
        ) from error

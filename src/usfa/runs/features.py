"""Learn φ from the rewards of several tasks, into a run directory that can be resumed.

config.json          the settings
data.npz             the transitions; if they were given as a file, its checksum is in data.sha256
data.frames          their observations, if they do not fit into memory
phi.json, phi.safetensors   the learned φ
quality.csv          R² and unexplained share of each reward, by number of features
figures/             the same, and what each feature responds to
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from usfa.agents import TrainedAgent
from usfa.decisions import RuleState, parse_rule, task_tensor
from usfa.environments import (
    Batch,
    Environment,
    EnvironmentSource,
    ObservationSpec,
    action_count,
    check_history,
    reward_texts,
    rewarded,
    source,
)
from usfa.errors import InputError
from usfa.evaluation import csv_bytes
from usfa.evaluation.episodes import check_observations
from usfa.figures import save_all
from usfa.figures.features import quality_figure, responses_figure
from usfa.files import read_bytes, sha256
from usfa.learning.exploration import epsilon_greedy
from usfa.phi import (
    PHI_FILES,
    Behaviour,
    Contrastive,
    Laplacian,
    LearnedPhi,
    LeastSquares,
    NetworkFit,
    PhiLearner,
    PhiSpec,
    RandomActions,
    RandomFeatures,
    RewardsThemselves,
    Transitions,
    check_features,
    collect,
    default_learner,
    learn_phi,
    load_phi,
    predict,
    read_transitions,
)
from usfa.phi.data import check_rewards
from usfa.phi.frames import frames_file
from usfa.phi.store import check_rows
from usfa.progress import AUTO, Display, ProgressBar, progress_bar, shown_on
from usfa.records import settle
from usfa.registry import Registry, text_of
from usfa.runs.config import environment_text
from usfa.runs.directory import OnExisting, RunDirectory
from usfa.runs.loading import load
from usfa.trajectory import CoreState, Present

if TYPE_CHECKING:
    LearnerName = str | PhiLearner
else:  # configurations are saved as text
    LearnerName = str

__all__ = ["PHI_LEARNERS", "AgentActions", "FeaturesConfig", "learn_features"]

PHI_LEARNERS: Registry[PhiLearner] = Registry(
    "learner of φ",
    PhiLearner,
    {
        "rewards": RewardsThemselves,
        "least-squares": LeastSquares,
        "network": NetworkFit,
        "laplacian": Laplacian,
        "contrastive": Contrastive,
        "random": RandomFeatures,
    },
)
"""Learners of φ by name."""

DATA, DATA_CHECKSUM, QUALITY = "data.npz", "data.sha256", "quality.csv"
FRAMES = frames_file(Path(DATA)).name


@dataclass(frozen=True)
class FeaturesConfig:
    """Settings for learning φ."""

    environment: str
    """Name of the environment; in Python also a class, or a function that makes one. Saved as text."""
    rewards: tuple[str, ...] = ()
    """Scalar rewards: reward (the environment's own), info:KEY, module:function (a function of observation, action and
    next observation), task:1,0 (the environment's vector reward times w), tasks:NAME (those of a set of tasks)."""
    data: str | None = None
    """An npz file with transitions and rewards, instead of collecting them."""
    features: int | None = None
    """D; by default the fewest that lose at most 0.01 of R² on held-out episodes (8 without rewards)."""
    learner: LearnerName = "auto"
    """rewards (φ is the rewards themselves), least-squares, network; laplacian, contrastive or random without rewards;
    or a class of your own, as module:Class. auto: least-squares for tables, network for everything else."""
    environment_arguments: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    """Arguments of the environment."""
    steps: int = 100_000
    """Random steps to collect. Observations of more than 3 GiB are kept on disk."""
    action_probabilities: tuple[float, ...] = ()
    """Relative probability of each action in these steps; equal by default."""
    repeat: float = 0.0
    """Probability of repeating the last action."""
    agent: str | None = None
    """Run of a trained agent, or several separated by commas. They act in some of the environments, on their training
    tasks in turn, with a random action in one of ten steps. By default all actions are random."""
    agent_share: float = 0.5
    """Share of the environments in which agents act, above 0, at most 1."""
    history: int = 1
    """H: φ is a function of the last H observations, their actions and the next observation; 1 is φ(s, a, s′). Set
    more if a reward depends on something seen earlier but not in the step itself."""
    seed: int = 0
    """Random seed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "environment", environment_text(self.environment))
        object.__setattr__(self, "rewards", reward_texts(self.rewards) if self.rewards else ())
        object.__setattr__(self, "learner", _with_defaults(text_of(self.learner, "learner")))
        settle(self)
        if self.steps < 100 or self.steps > 10**10:
            raise InputError(f"steps is {self.steps}; expected at least 100.")
        if not 0 <= self.repeat < 1:
            raise InputError(f"repeat is {self.repeat}; expected a number from 0, below 1.")
        if any(p < 0 for p in self.action_probabilities) or (
            self.action_probabilities and not sum(self.action_probabilities)
        ):
            raise InputError(f"action_probabilities are {self.action_probabilities}; expected numbers from 0.")
        if not 0 < self.agent_share <= 1:
            raise InputError(f"agent_share is {self.agent_share}; expected a number above 0, at most 1.")
        check_history(self.history)
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; expected a whole number from 0.")
        if self.data is not None and self.rewards:
            raise InputError("rewards and data were both given; expected one of them, as a file has its rewards.")
        supervised = self.supervised
        if not self.rewards and self.data is None and supervised:
            raise InputError(
                "rewards and data are missing; expected one of them, or a learner without rewards, such as laplacian."
            )
        if self.rewards and supervised:
            check_features(self.features, len(self.rewards))
        if self.data is not None and self.learner == "rewards":
            raise InputError("learner is 'rewards', which needs them at every step; expected rewards instead of data.")

    @property
    def supervised(self) -> bool:
        """Whether the learner needs rewards."""
        return self.learner == "auto" or PHI_LEARNERS.make(str(self.learner)).supervised

    @property
    def environments(self) -> EnvironmentSource:
        return source(self.environment, phi="reward", **self.environment_arguments)


def _with_defaults(learner: str) -> str:
    """The text of a learner with all of its settings, so that texts which leave out defaults compare equal."""
    name, brace, _ = learner.partition("{")
    found = PHI_LEARNERS.make(learner) if brace else None
    return name + brace + text_of(found, "learner").partition("{")[2] if is_dataclass(found) else learner


def learn_features(
    environment: Any = None,
    rewards: Any = (),
    *,
    data: str | os.PathLike[str] | None = None,
    features: int | None = None,
    learner: str | PhiLearner = "auto",
    out: str | os.PathLike[str] | None = None,
    existing: OnExisting = "refuse",
    console: Display = AUTO,
    config: FeaturesConfig | None = None,
    **settings: Any,
) -> LearnedPhi:
    """Learn φ(s, a, s′) and tasks w_1, …, w_K with r_k ≈ φ·w_k from scalar rewards, for environments without φ.

    The result is frozen. Use it as `phi` in :func:`usfa.settings_for`, :class:`usfa.TrainConfig` or :func:`usfa.make`.
    Without rewards, an unsupervised learner gives features of the states that random steps reach.

    Args:
        environment: as for :func:`usfa.settings_for`.
        rewards: one or several: functions of observation, action and next observation, or texts, see
            :class:`FeaturesConfig`.
        data: an npz file with transitions and rewards, instead of collecting them.
        features: D; by default chosen on held-out episodes.
        learner: a name, or an object, see :class:`usfa.PhiLearner`.
        out: run directory; by default nothing is written.
        existing: "refuse", "resume" or "overwrite", if the directory already holds a run.
        console: for progress bars; None shows nothing.
        config: all settings at once, instead of those above.
        settings: other settings of :class:`FeaturesConfig`.
    """
    if config is None:
        config = FeaturesConfig(
            environment,
            rewards,
            data=None if data is None else os.fspath(data),
            features=features,
            learner=learner,
            **settings,
        )
    shown = shown_on(console)
    if out is None:
        return _learned(config, _data(config, shown), shown, None)[0]
    if existing == "overwrite":
        _check(config)
    with RunDirectory.opened(Path(out), config, existing) as run:
        _check_same_data(config, run)
        if (run.path / QUALITY).exists() and (run.path / PHI_FILES[0]).exists():
            return load_phi(run.path, named=_functions(config))
        run.claim(
            DATA, FRAMES, *PHI_FILES, QUALITY, *(f"figures/{name}.{end}" for name in _FIGURES for end in ("png", "pdf"))
        )
        transitions = _kept_data(config, run, shown)
        phi, transitions = _learned(config, transitions, shown, run)
        phi.save(run.path)
        save_all(_figures(phi, transitions), run.figures)
        run.write(QUALITY, csv_bytes(quality_table(phi)))
        return phi


def _functions(config: FeaturesConfig) -> list[str]:
    """Names in the configuration that may be functions; the φ of its run may call them without asking for trust."""
    settings = {} if config.learner == "auto" else vars(PHI_LEARNERS.make(str(config.learner)))
    return [*config.rewards, *(value for value in settings.values() if isinstance(value, str))]


# --- data ---


def _check(config: FeaturesConfig) -> None:
    """Raise InputError if the data cannot be read or collected; call this before an earlier run is replaced."""
    if config.data is not None:
        _data(config, None)
        return
    check_rows(config.steps, config.history)
    _agents(config)
    with config.environments.opened() as env:
        _check_learner(config, env)


def _check_learner(config: FeaturesConfig, env: Environment) -> None:
    if config.learner != "auto":
        PHI_LEARNERS.make(str(config.learner)).check(ObservationSpec.of(env.observation_space), action_count(env))


def _check_same_data(config: FeaturesConfig, run: RunDirectory) -> None:
    """Raise InputError if the file of transitions was changed since the run began."""
    path = run.path / DATA_CHECKSUM
    if config.data is None or not path.exists():
        return
    if read_bytes(path).decode(errors="replace").strip() != sha256(read_bytes(Path(config.data))):
        raise InputError(
            f"File {config.data} was changed since the run in {run.path} began; expected the same file to resume, or "
            "another --out."
        )


def _kept_data(config: FeaturesConfig, run: RunDirectory, console: Console | None) -> Transitions:
    """Read the data of the run, or make it now and keep it."""
    path = run.path / DATA
    if config.data is None and path.exists():
        with config.environments.opened() as env:
            spec, actions = ObservationSpec.of(env.observation_space), action_count(env)
        return read_transitions(path, spec, actions, config.environment, config.history)
    found = _data(config, console, frames_file(path))
    if config.supervised:
        try:
            check_rewards(found.split(seed=config.seed)[0])
        except InputError:
            frames_file(path).unlink(missing_ok=True)  # a refused run leaves nothing
            raise
    if config.data is None:
        found.save(path)
    elif not (run.path / DATA_CHECKSUM).exists():
        run.write(DATA_CHECKSUM, f"{sha256(read_bytes(Path(config.data)))}\n".encode())
    return found


def _data(config: FeaturesConfig, console: Console | None, frames_path: Path | None = None) -> Transitions:
    """Read the file of data, or collect data; observations that do not fit into memory are written to a file."""
    environments = config.environments
    with environments.opened() as env:
        _check_learner(config, env)
        spec, actions = ObservationSpec.of(env.observation_space), action_count(env)
    if config.data is not None:
        return read_transitions(Path(config.data), spec, actions, config.environment, config.history)
    rng = np.random.default_rng([config.seed, 3])
    behaviour: Behaviour = RandomActions(rng, config.action_probabilities, config.repeat)
    agents = _agents(config)
    if agents:
        behaviour = AgentActions(agents, behaviour, config.seed, config.agent_share)
    inside = (
        rewarded(environments, config.rewards)
        if config.rewards
        else source(config.environment, phi=_nothing, **config.environment_arguments)
    )
    with progress_bar(f"{config.environment}: random steps", config.steps, "steps", console) as bar:
        found = collect(
            inside,
            config.rewards or ("none",),
            spec,
            behaviour,
            config.steps,
            config.seed,
            bar.advance,
            history=config.history,
            frames_path=frames_path,
        )
    return found if config.rewards else replace(found, names=(), rewards=found.rewards[:, :0], seen=found.seen[:, :0])


def _agents(config: FeaturesConfig) -> list[TrainedAgent]:
    return [] if config.agent is None else [load(path.strip()) for path in config.agent.split(",")]


class AgentActions:
    """Actions of agents in some of the environments, and of another behaviour in the rest.

    Args:
        agents: assigned in turn to the environments in which agents act; each acts on its training tasks in turn.
        others: chooses actions in the other environments.
        seed: random seed of the agents' random actions, one in ten.
        share: share of the environments in which agents act; 0.5 is every second one.
    """

    def __init__(self, agents: Sequence[TrainedAgent], others: Behaviour, seed: int, share: float = 0.5) -> None:
        self._actors = [_Actor(agent, np.random.default_rng([seed, 9, index])) for index, agent in enumerate(agents)]
        self._others, self._share = others, share

    def __call__(self, batch: Batch) -> NDArray[np.int64]:
        action = self._others(batch).copy()
        part = np.flatnonzero(np.diff(np.ceil(np.arange(len(batch) + 1) * self._share)))
        for index, actor in enumerate(self._actors):
            rows = part[index :: len(self._actors)]
            if len(rows):
                action[rows] = actor.act(batch, rows)
        return action


class _Actor:
    """An agent that acts in some environments of a batch, the same ones in every step."""

    def __init__(self, agent: TrainedAgent, rng: np.random.Generator) -> None:
        self._agent, self._rng = agent, rng
        self._memory: CoreState | None = None
        self._last = np.zeros(0, np.int64)
        self._rule = parse_rule(agent.default_rule)
        self._state: RuleState | None = None

    @torch.inference_mode()
    def act(self, batch: Batch, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        agent, tasks = self._agent, self._agent.training_tasks
        w = tasks[np.arange(len(rows)) % len(tasks)]
        candidates = agent.candidates(w, None, np.random.default_rng(0)).tensors()
        if self._memory is None:
            check_observations(agent.actor, batch)
            self._memory, self._last = agent.actor.initial_state(len(rows)), np.zeros(len(rows), np.int64)
            agent.network.hold(candidates.z)
        legal = batch.legal[rows]
        arrays = (batch.observation[rows], self._last, legal, batch.first[rows])
        observation, last, allowed, first = (torch.from_numpy(array) for array in arrays)
        present = Present(observation, last, allowed, first, self._memory)
        decision, self._memory = agent.actor.act(
            agent.network, present, task_tensor(w), candidates, self._rule, self._state
        )
        self._state = decision.state
        self._last = epsilon_greedy(decision.action.numpy()[None], legal[None], 0.1, [self._rng])[0]
        return self._last


def _nothing(observation: Any, action: Any, next_observation: Any) -> list[float]:
    """φ of an environment without rewards."""
    return [0.0]


# --- learning ---


def _learned(
    config: FeaturesConfig, data: Transitions, console: Console | None, run: RunDirectory | None
) -> tuple[LearnedPhi, Transitions]:
    learner = _learner(config, data)
    with progress_bar(f"{config.environment}: learning φ", 100, "percent", console) as bar:
        progress = _Progress(bar, run)
        found = learn_phi(
            data, learner, config.features, environment=config.environment, seed=config.seed, progress=progress
        )
        bar.update(100)
    shown = data.thinned(config.seed) if config.supervised else data
    rows = np.random.default_rng([config.seed, 19]).permutation(len(shown))[:_SHOWN]
    return found, shown.rows(np.sort(rows))


def _learner(config: FeaturesConfig, data: Transitions) -> PhiLearner:
    if config.learner != "auto":
        return PHI_LEARNERS.make(str(config.learner))
    return default_learner(PhiSpec(data.spec, data.actions, len(data.names), data.history))


class _Progress:
    """Shows progress in a bar, and keeps checkpoints in a run directory."""

    def __init__(self, bar: ProgressBar, run: RunDirectory | None) -> None:
        self._bar, self._run = bar, run

    def load(self) -> tuple[int, dict[str, Tensor]] | None:
        found = None if self._run is None else self._run.load_checkpoint()
        return None if found is None else (int(found[1]["step"]), found[0])

    def save(self, step: int, tensors: dict[str, Tensor]) -> None:
        if self._run is not None:
            self._run.save_checkpoint(step, tensors, {"step": step})

    def update(self, share: float, note: str = "") -> None:
        self._bar.update(100 * share, note)


# --- results ---

_SHOWN = 20_000  # maximum number of transitions in the figures

_FIGURES = ("quality", "responses")


def quality_table(phi: LearnedPhi) -> pd.DataFrame:
    """R² of each reward on held-out episodes by number of features, and the share that the chosen φ cannot express."""
    report = phi.report
    sizes: list[tuple[int, Sequence[float | None]]] = list(enumerate(report.r2_by_size, 1))
    if not sizes:
        sizes = [(phi.features, report.r2)]
    rows = [
        (reward, size, np.nan if r2 is None else r2, size == phi.features)
        for size, of_size in sizes
        for reward, r2 in zip(report.rewards, of_size, strict=True)
    ]
    table = pd.DataFrame(rows, columns=["reward", "features", "r2", "chosen"])
    unexplained = dict(zip(report.rewards, report.unexplained, strict=True))
    table = table.astype({"chosen": bool})  # also of an empty table
    return table.assign(unexplained=np.where(table.chosen, table.reward.map(unexplained), np.nan))


def responses_table(phi: LearnedPhi, data: Transitions) -> pd.DataFrame:
    """Responses of each feature: its mean for every action, and its correlation with every reward."""
    values = predict(phi.model, data)
    rows = [
        (name, "action", str(action), _mean(values[chosen, index], data.weight[chosen]))
        for index, name in enumerate(phi.feature_names)
        for action, chosen in enumerate(data.last_action == np.arange(data.actions)[:, None])
    ]
    rows += [
        (name, "reward", reward, _correlation(values[seen, index], data.rewards[seen, k], data.weight[seen]))
        for index, name in enumerate(phi.feature_names)
        for k, (reward, seen) in enumerate(zip(data.names, data.seen.T, strict=True))
    ]
    return pd.DataFrame(rows, columns=["feature", "kind", "to", "value"])


def _mean(values: NDArray[Any], weight: NDArray[Any]) -> float:
    return float(np.average(values, weights=weight)) if len(values) else float("nan")


def _correlation(x: NDArray[Any], y: NDArray[Any], weight: NDArray[Any]) -> float:
    x, y = (v - np.average(v, weights=weight) for v in (x.astype(np.float64), y.astype(np.float64)))
    size = np.sqrt(np.average(x**2, weights=weight) * np.average(y**2, weights=weight))
    return float(np.average(x * y, weights=weight) / size) if size > 0 else float("nan")


def _figures(phi: LearnedPhi, data: Transitions) -> dict[str, Any]:
    extremes = _extremes(phi, data) if data.spec.is_image else None
    responses = {"responses": responses_figure(responses_table(phi, data), extremes)}
    return {"quality": quality_figure(quality_table(phi)), **responses} if data.names else responses


def _extremes(phi: LearnedPhi, data: Transitions, count: int = 6) -> dict[str, NDArray[np.uint8]]:
    """For each feature the transitions with its largest values: images before and after, [count, 2, H, W, 3]."""
    values = predict(phi.model, data)
    best = {name: np.argsort(-values[:, index])[:count] for index, name in enumerate(phi.feature_names)}
    return {
        name: np.stack([np.asarray(x[rows])[..., -3:] for x in (data.observation, data.next_observation)], axis=1)
        for name, rows in best.items()
    }

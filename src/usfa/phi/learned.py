"""A learned φ: frozen, saved as JSON and safetensors, identified by its content."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from usfa.environments import LEARNED, ObservationSpec, remember_phi, runs_code
from usfa.errors import InputError
from usfa.files import read_json, sha256, write_atomically, write_json
from usfa.functional import LARGE_SHARE
from usfa.names import short_names
from usfa.networks import read_weights
from usfa.phi.data import Transitions, check_rewards
from usfa.phi.learners import NoProgress, PhiLearner, Progress, RewardsThemselves, tensors_of
from usfa.phi.model import PHI_MODELS, PhiModel, PhiSpec
from usfa.phi.quality import directions, fitted_tasks, mean_squared_error, r_squared, unexplained
from usfa.records import from_json, to_json
from usfa.registry import as_tuples, import_modules, text_of
from usfa.threads import threads
from usfa.version import __version__

__all__ = ["PHI_FILES", "LearnedPhi", "PhiReport", "check_features", "learn_phi", "load_phi", "predict"]

FORMAT = 2
_FORMATS = (1, 2)  # formats that can be read; 1 has no history
CONFIG, WEIGHTS = "phi.json", "phi.safetensors"
PHI_FILES = (CONFIG, WEIGHTS)
"""Names of the files of a learned φ."""
_ROWS = 512  # transitions per pass; with more, allocating the activations takes longer


@dataclass(frozen=True)
class PhiReport:
    """Origin of a learned φ, and its quality on held-out episodes."""

    environment: str = ""
    """Name of the environment."""
    learner: str = ""
    """The learner as text."""
    rewards: tuple[str, ...] = ()
    """Names of the K rewards."""
    tasks: tuple[tuple[float, ...], ...] = ()
    """w_k of each reward, [K, D]: r_k ≈ φ·w_k."""
    r2: tuple[float | None, ...] = ()
    """R² of each reward on held-out episodes; None where the reward does not vary there."""
    unexplained: tuple[float | None, ...] = ()
    """Share of each reward, Σ(r - φ·w)² / Σr², that φ cannot express on held-out episodes; None where it is always 0
    there."""
    squared_error: tuple[float | None, ...] = ()
    """Mean square of r - φ·w for each reward on held-out episodes; None where the reward was not seen there."""
    r2_by_size: tuple[tuple[float | None, ...], ...] = ()
    """R² of each reward with 1, 2, … features; empty for unsupervised learners."""
    transitions: int = 0
    """Number of transitions that φ was learned from."""
    scale: tuple[float, ...] = ()
    """Root mean square of each feature."""
    features: tuple[str, ...] = ()
    """Names of the features: of the rewards that they predict, or φ1, φ2, …"""


@dataclass(frozen=True)
class _File:
    """phi.json."""

    model: str
    spec: PhiSpec
    report: PhiReport
    weights_sha256: str
    settings: Mapping[str, Any] = field(default_factory=dict)


class LearnedPhi:
    """A learned, frozen φ(s, a, s′). Use it as `phi` wherever a source of φ is expected.

    With a history of H, φ depends on the last H observations and actions and on s′.

    Args:
        model: the model.
        report: its origin and quality.
    """

    def __init__(self, model: PhiModel, report: PhiReport) -> None:
        self.model = model.eval().requires_grad_(False)
        self.report = report
        self.features = model.spec.features
        self.history = model.spec.history
        self.rewards = tuple(model.rewards)
        remember_phi(self)

    def __repr__(self) -> str:
        return f"<φ with {self.features} features for {self.report.environment}, learned from {self.report.learner}>"

    @property
    def tasks(self) -> NDArray[np.float64]:
        """w_k of each reward that φ was learned from, [K, D]."""
        return np.array(self.report.tasks).reshape(-1, self.features)

    @property
    def noise(self) -> float:
        """Mean square of r - φ·w on held-out episodes, mean over rewards; 0 if it was not measured.

        With few rewards, use it as the ridge of :func:`usfa.infer_task`, which then assumes w ~ N(0, I) beforehand: the
        errors of φ are no longer mistaken for rarely seen features, whose entries of w stay near 0.
        """
        known = [error for error in self.report.squared_error if error is not None]
        return float(np.mean(known)) if known else 0.0

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the rewards that the features predict, or φ1, φ2, …"""
        return self.report.features

    @property
    def functions(self) -> tuple[str, ...]:
        """User-defined functions and classes that its files name; loading them needs trust."""
        model = type(self.model)
        own = [] if PHI_MODELS.name_of(model) else [text_of(model, "model")]
        return (*own, *model.functions_in(self.model.settings))

    @cached_property
    def text(self) -> str:
        """The text of φ in configurations: its checksum."""
        content = to_json(replace(self._file(""), report=PhiReport()))
        content["report"].pop("squared_error")  # the same checksum as before this field existed
        if self.history == 1:  # and before histories existed
            content["spec"].pop("history", None)
        parts = [json.dumps(content, sort_keys=True).encode()]
        for name, tensor in sorted(self.model.state_dict().items()):
            parts += [name.encode(), tensor.contiguous().numpy().tobytes()]
        return LEARNED + hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]

    def __call__(self, observation: ArrayLike, action: ArrayLike, next_observation: ArrayLike) -> NDArray[np.float32]:
        """φ of one transition [D] or of several [N, D], with observations as the environment returns them.

        With a history, observation and action are the last H, oldest first, with an axis for them: [H, ...] and [H], or
        [N, H, ...] and [N, H].
        """
        if self.rewards:
            raise InputError(
                f"φ is computed from the rewards {', '.join(self.rewards)}, which the environment gives; expected a "
                "call of the environment's step."
            )
        spec = self.model.spec.observation
        before, after, actions = spec.encode(observation), spec.encode(next_observation), np.asarray(action, np.int64)
        if after.ndim == len(spec.shape):
            return self._of_several(before[None], actions[None], after[None])[0]
        return self._of_several(before, actions, after)

    def _of_several(self, before: NDArray[Any], action: NDArray[np.int64], after: NDArray[Any]) -> NDArray[np.float32]:
        if self.history > 1:
            if action.shape != (len(after), self.history) or before.shape[:2] != action.shape:
                raise InputError(
                    f"φ has a history of {self.history}, but the actions have shape {action.shape}; expected as many "
                    "observations and actions, oldest first."
                )
            before = np.concatenate(list(before.swapaxes(0, 1)), axis=-1)
        else:
            action = action.reshape(-1)
        last, actions = action[:, -1] if self.history > 1 else action, self.model.spec.actions
        if last.min() < 0 or action.min() < -1 or action.max() >= actions:
            found = f"{action.min()} to {action.max()}"
            raise InputError(f"The actions are {found}; expected 0 to {actions - 1}, or -1 before an episode.")
        return self.of_batch(before, action, after, np.zeros((len(after), 0), np.float32))

    @threads(1)
    def of_batch(
        self,
        observation: NDArray[Any],
        action: NDArray[np.int64],
        next_observation: NDArray[Any],
        rewards: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        arrays = (observation, np.asarray(action, np.int64), next_observation, rewards.astype(np.float32))
        with torch.inference_mode():
            phi: Tensor = self.model(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))
        return phi.numpy()

    def check_fits(self, observation: ObservationSpec, actions: int) -> None:
        spec = self.model.spec
        if (spec.observation.shape, spec.actions) != (observation.shape, actions):
            raise InputError(
                f"φ was learned in {self.report.environment!r}, with observations {spec.observation.shape} and "
                f"{spec.actions} actions; this environment has {observation.shape} and {actions}."
            )

    # --- files ---

    def _file(self, weights_sha256: str) -> _File:
        model, settings = self.model, self.model.settings
        text = PHI_MODELS.name_of(type(model)) or text_of(type(model), "model")
        text_of(partial(type(model), **settings), "model")  # raises if the settings cannot be saved
        return _File(text, model.spec, self.report, weights_sha256, settings)

    def save(self, directory: Path) -> None:
        """Write phi.json and phi.safetensors into a directory."""
        weights = safetensors.torch.save({name: x.contiguous() for name, x in self.model.state_dict().items()})
        write_atomically(directory / WEIGHTS, weights)
        header = {"format": FORMAT, "version": __version__}
        write_json(directory / CONFIG, header | to_json(self._file(sha256(weights))))


def load_phi(directory: Path, trust: bool = False, named: Collection[str] = ()) -> LearnedPhi:
    """Read a learned φ from the directory of :meth:`LearnedPhi.save`.

    Args:
        directory: with phi.json and phi.safetensors.
        trust: whether to import modules that the file names, for user-defined models and rewards.
        named: functions that the user has named, which need no trust.
    """
    path = directory / CONFIG
    fields = read_json(path)
    if fields.pop("format", None) not in _FORMATS:
        formats = " or ".join(map(str, _FORMATS))
        raise InputError(f"File {path} is not a φ of format {formats}, which usfa {__version__} reads.")
    fields.pop("version", None)
    file = from_json(_File, fields, f"File {path}")
    if trust:
        import_modules([file.model])
    model = _made(file, path, None if trust else named)
    weights = read_weights(directory / WEIGHTS, file.weights_sha256, CONFIG)
    _check_weights(directory / WEIGHTS, weights, model)
    model.load_state_dict(weights)
    return LearnedPhi(model, file.report)


def _made(file: _File, path: Path, named: Collection[str] | None) -> PhiModel:
    """Make the model of a file, which may be untrusted: only functions in `named` may be run; None trusts all."""
    if "{" in file.model:  # arguments there would not be checked
        raise InputError(f"File {path} has the model {file.model!r}; expected its name, with arguments in settings.")
    model_class = PHI_MODELS.find(file.model)
    _check_functions(getattr(model_class, "functions_in", PhiModel.functions_in)(file.settings), named)
    settings = {name: as_tuples(value) for name, value in file.settings.items()}
    try:
        with torch.random.fork_rng(devices=[]):
            model = model_class(file.spec, **settings)
    except (TypeError, ValueError, RuntimeError, MemoryError) as error:
        raise InputError(f"File {path} does not describe a model of φ: {error}.") from error
    _check_functions((text for text in model.rewards if runs_code(text)), named)
    return model


def _check_functions(texts: Iterable[str], named: Collection[str] | None) -> None:
    """Raise InputError if a file would run functions that are not in `named`; None trusts all."""
    for text in texts:
        if named is not None and text not in named:
            raise InputError(
                f"The file names the function {text!r}, which would be run; set trust (--trust) if you know it."
            )


def _check_weights(path: Path, weights: Mapping[str, Tensor], model: PhiModel) -> None:
    expected = {name: tuple(x.shape) for name, x in model.state_dict().items()}
    found = {name: tuple(x.shape) for name, x in weights.items()}
    if expected != found or not all(bool(x.isfinite().all()) for x in weights.values()):
        raise InputError(f"The weights in {path} do not fit {CONFIG}; expected finite ones of the shapes {expected}.")


# --- learning ---


@threads(1)
def learn_phi(
    data: Transitions,
    learner: PhiLearner,
    features: int | None = None,
    *,
    environment: str = "",
    seed: int = 0,
    progress: Progress | None = None,
) -> LearnedPhi:
    """Learn φ and w_1, …, w_K with r_k ≈ φ·w_k, and measure both on held-out episodes.

    Args:
        data: transitions with the rewards of K tasks.
        learner: the method.
        features: D; by default as many as the rewards need, found on the held-out episodes, or 8 if unsupervised.
        environment: name of the environment, for the report.
        seed: for everything random, and for the episodes that are held out.
        progress: to report to, and to resume from.
    """
    _check_features(data, learner, features)
    train, held = data.split(seed=seed)
    if learner.supervised:
        check_rewards(train)
    outputs = len(data.names) if learner.supervised else features or _DEFAULT_FEATURES
    progress = progress or NoProgress()
    model = learner.fit(train, outputs, seed, progress)
    progress.update(1.0, "measuring R²")
    if model.spec.history != data.history:
        raise InputError(
            f"The learner {learner} made a model with a history of {model.spec.history}; expected {data.history}, that "
            "of the data: pass data.history to PhiSpec."
        )
    report = PhiReport(
        environment=environment, learner=_learner_text(learner), rewards=data.names, transitions=len(train)
    )
    if not learner.supervised:
        phi = predict(model, train)
        names = tuple(f"φ{index + 1}" for index in range(model.spec.features))
        report = replace(report, tasks=_nested(fitted_tasks(train, phi)), features=names)
        return LearnedPhi(model, _measured(report, model, train, phi, held))
    train, held = train.thinned(seed), held.thinned(seed)
    predicted, exact = predict(model, train), isinstance(learner, RewardsThemselves)
    chosen = directions(train, predicted, held, predict(model, held), features, exact)
    model.project(torch.from_numpy(chosen.mix).float())
    report = replace(
        report,
        tasks=_nested(chosen.tasks),
        r2_by_size=tuple(map(_optional, chosen.by_size)),
        features=short_names([data.names[index] for index in chosen.basis]),
    )
    report = _measured(report, model, train, predicted @ chosen.mix, held)
    _warn(report)
    return LearnedPhi(model, report)


def _nested(tasks: NDArray[np.float64]) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, tasks.tolist()))


def _measured(
    report: PhiReport, model: PhiModel, train: Transitions, phi: NDArray[np.float64], held: Transitions
) -> PhiReport:
    """Add the quality of φ on held-out episodes, and the sizes of its features, from φ [N, D] of `train`."""
    tasks = np.array(report.tasks).reshape(-1, model.spec.features)
    predicted = predict(model, held) @ tasks.T
    return replace(
        report,
        r2=_optional(r_squared(held, predicted)),
        unexplained=_optional(unexplained(held, predicted)),
        squared_error=_optional(mean_squared_error(held, predicted)),
        scale=tuple(np.sqrt(np.average(phi**2, axis=0, weights=train.weight)).tolist()),
    )


_DEFAULT_FEATURES = 8


def _learner_text(learner: PhiLearner) -> str:
    return text_of(learner, "learner").removeprefix("usfa.phi.learners:").removeprefix("usfa.phi.unsupervised:")


def _optional(values: NDArray[np.float64]) -> tuple[float | None, ...]:
    """Replace NaN, which JSON does not have, by None."""
    return tuple(None if np.isnan(value) else float(value) for value in values)


def _check_features(data: Transitions, learner: PhiLearner, features: int | None) -> None:
    if learner.supervised and not data.names:
        raise InputError("There are no rewards to learn φ from; expected rewards, or an unsupervised learner.")
    check_features(features, len(data.names) if learner.supervised else None)


def check_features(features: int | None, rewards: int | None) -> None:
    """Raise InputError if there are more features than rewards; `rewards` is None for unsupervised learners."""
    if features is not None and not 1 <= features <= 10_000:
        raise InputError(f"features is {features}; expected at least 1.")
    if features is not None and rewards is not None and features > rewards:
        raise InputError(
            f"features is {features}, but there are {rewards} rewards, which determine as many features at most; "
            "expected fewer features or more rewards."
        )


def _warn(report: PhiReport) -> None:
    """Warn of rewards that φ cannot express on held-out episodes, or that are always 0 there."""
    shares = list(zip(report.rewards, report.unexplained, strict=True))
    poor = [f"{share:.0%} of {name!r}" for name, share in shares if share is not None and share > LARGE_SHARE]
    unknown = [repr(name) for name, share in shares if share is None]
    if poor:
        warnings.warn(
            f"φ with {len(report.tasks[0])} features cannot express {', '.join(poor)} on held-out episodes; expected "
            f"at most {LARGE_SHARE:.0%}: try more features, more data, or another learner.",
            stacklevel=5,
        )
    if unknown:
        warnings.warn(
            f"It is not known how well φ expresses {', '.join(unknown)}, which held-out episodes never gave; collect "
            "more data.",
            stacklevel=5,
        )


@threads(1)
@torch.inference_mode()
def predict(model: PhiModel, data: Transitions) -> NDArray[np.float64]:
    """Outputs of a model for all transitions, [N, D]."""
    parts = []
    for start in range(0, len(data), _ROWS):
        parts.append(model(*tensors_of(data.rows(np.arange(start, min(start + _ROWS, len(data)))))).double())
    return torch.cat(parts).numpy() if parts else np.zeros((0, model.spec.features))

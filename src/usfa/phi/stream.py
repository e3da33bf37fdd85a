"""Tasks that come one after another, each known only by its scalar reward."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from usfa.environments import ObservationSpec, action_count, check_history, reward_texts, rewarded, source
from usfa.errors import InputError
from usfa.functional import LARGE_SHARE, InferredTask, infer_task
from usfa.phi.collecting import Behaviour, RandomActions, collect
from usfa.phi.data import Transitions, concatenated
from usfa.phi.learned import LearnedPhi, learn_phi, predict
from usfa.phi.learners import PhiLearner, default_learner
from usfa.phi.model import PhiSpec

__all__ = ["TaskEstimate", "TaskStream"]


@dataclass(frozen=True)
class TaskEstimate:
    """Estimate of a task from the rewards seen so far."""

    task: InferredTask
    """w with its standard error; accepted wherever a task is expected."""
    phi: LearnedPhi
    """φ that w belongs to."""
    fitted: bool
    """Whether φ is new, because there was none or it could not express the reward; agents must then learn a new ψ."""


class TaskStream:
    """A sequence of tasks: infers w of each from its rewards, and fits φ again when it cannot express a reward.

    Args:
        environment: as for :func:`usfa.settings_for`.
        learner: of φ; by default least squares for tables, a network for everything else.
        phi: a φ that was learned before; used until it cannot express a reward.
        history: H, the number of observations before the next one that φ depends on; ignored if `phi` is given.
        seed: for everything random.
        arguments: of the environment.
    """

    def __init__(
        self,
        environment: Any,
        learner: PhiLearner | None = None,
        *,
        phi: LearnedPhi | None = None,
        history: int = 1,
        seed: int = 0,
        **arguments: Any,
    ) -> None:
        check_history(history)
        self._history = history if phi is None else phi.history
        self._environments = source(environment, phi="reward", **arguments)
        self._name = environment if isinstance(environment, str) else repr(environment)
        with self._environments.opened() as env:
            self._spec = ObservationSpec.of(env.observation_space)
            actions = action_count(env)
            self._learner = learner or default_learner(PhiSpec(self._spec, actions, 1, self._history))
            self._learner.check(self._spec, actions)
        if not self._learner.supervised:
            raise InputError(f"The learner is {self._learner}; expected one that learns from rewards.")
        self._seed, self._observations = seed, 0
        self._data: Transitions | None = None
        self.phi = phi
        """The current φ; None before the first task, unless one was given."""

    @property
    def rewards(self) -> tuple[str, ...]:
        """The rewards observed so far."""
        return () if self._data is None else self._data.names

    def observe(self, reward: Any, steps: int = 200, behaviour: Behaviour | None = None) -> TaskEstimate:
        """Act for some steps, observe only this reward, and infer its task; fit φ again if it cannot express it.

        Observing a reward again refines its task, with all transitions in which it was seen.

        Args:
            reward: a function of observation, action and next observation, or a text, see
                :class:`usfa.FeaturesConfig`.
            steps: number of steps.
            behaviour: chooses actions; by default they are random.
        """
        texts = reward_texts(reward)
        if len(texts) != 1:
            raise InputError(f"The rewards are {texts}; expected one at a time.")
        self._observations += 1
        seed = self._seed + 1000 * self._observations
        act = behaviour or RandomActions(np.random.default_rng([seed, 3]))
        environments = rewarded(self._environments, texts)
        new = collect(environments, texts, self._spec, act, steps, seed, history=self._history)
        self._data = _joined(self._data, new)
        index = self._data.names.index(texts[0])
        if self.phi is not None:
            task = _inferred(self.phi, self._data, index)
            if task.unexplained <= LARGE_SHARE:
                return TaskEstimate(task, self.phi, fitted=False)
        self.phi = learn_phi(self._data, self._learner, environment=self._name, seed=self._seed)
        return TaskEstimate(_inferred(self.phi, self._data, index), self.phi, fitted=True)


def _inferred(phi: LearnedPhi, data: Transitions, index: int) -> InferredTask:
    """The task of a reward from the transitions in which it was seen."""
    own = data.rows(data.seen[:, index])
    with warnings.catch_warnings():  # the result holds the same information
        warnings.simplefilter("ignore")
        root = np.sqrt(own.weight / own.weight.mean(), dtype=np.float64)
        return infer_task(predict(phi.model, own) * root[:, None], own.rewards[:, index] * root, ridge=phi.noise)


def _joined(before: Transitions | None, new: Transitions) -> Transitions:
    """Join transitions; in each, only the reward of its own task was seen."""
    if before is None:
        return new
    names = before.names if new.names[0] in before.names else (*before.names, *new.names)
    parts = [_with_rewards(before, names), _with_rewards(new, names)]
    return concatenated(parts)


def _with_rewards(data: Transitions, names: tuple[str, ...]) -> Transitions:
    """The same transitions with further rewards, marked as not seen."""
    rewards = np.zeros((len(data), len(names)), np.float32)
    seen = np.zeros((len(data), len(names)), np.bool_)
    places = [names.index(name) for name in data.names]
    rewards[:, places], seen[:, places] = data.rewards, data.seen
    return replace(data, rewards=rewards, seen=seen, names=names)

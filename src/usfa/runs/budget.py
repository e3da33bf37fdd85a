"""The budget rule: choose environments, updates per step and scoring from a number of steps or minutes.

Learning needs thousands of updates, whatever the number of steps. With fewer steps than the default, each step gets
more updates (at most one per step), each on different replayed transitions. Their total is that of the default or, if
`frames` is given and observations are vectors, up to MORE_UPDATES times that. A short time limit lowers it. Frequent
updates overestimate actions that were hardly tried; the lower value of two networks counters that. With few steps,
environments also keep a preference, often an extreme one, for a whole episode, so that such actions are tried.
docs/mo-gymnasium.md has the effect of each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from usfa.environments import Environment, EnvironmentSource
from usfa.errors import InputError, counted
from usfa.evaluation import measuring_steps
from usfa.learning import Learner, LearnerConfig
from usfa.runs.config import EvaluationConfig, TrainConfig
from usfa.runs.scoring import MEASURED
from usfa.tasks import parse_tasks

__all__ = ["Costs", "Plan", "check_budget", "measured_costs", "plan"]

MAX_UPDATES_PER_STEP = 1.0
"""Maximum number of updates per step, for few steps."""
MORE_UPDATES = 3.0
"""Maximum ratio of updates to those of the default, if `frames` is given and observations are not images."""
FEW_STEPS = 0.9
"""Steps are few if both the chosen updates per step and those that match the total of the default exceed this."""
MOST_TIME_ON_UPDATES = 4.0
"""Maximum time of updates relative to that of steps, if the budget is only a time: if steps are quick, there are more
steps rather than more updates per step."""
MIN_ROUNDS = 80
"""Rounds of updates to aim for with few steps: there are fewer environments, so that rounds are shorter."""
MIN_ENVIRONMENTS = 4
MEMBERS = 2
"""Networks in the ensemble if there are more updates per step than usual."""
CHECKPOINTS = 20
"""Expected checkpoints of a run, one per round at most, so that an interruption loses few steps."""
SCORING_SHARE = 0.1
"""Largest share of the steps and of the time that is spent on scores."""
REPETITION: dict[str, Any] = {"repeat_exponent": 2.0, "repeat_share": 0.25}
"""Exploration that reaches distant states in few steps, in a quarter of the environments."""
QUICK_START: dict[str, Any] = {"epsilon": 0.05, "epsilon_decay": 0.0, "priority_exponent": 0.0, "ema": 0.01}
"""Settings for few steps, and for images: random exploration at the start would use up too many steps, and priorities
overfit the few trajectories that are replayed again and again."""
_TRIAL = 4  # updates to measure their time


class Costs(NamedTuple):
    """Times in seconds, measured on this machine, and the length of an episode."""

    step: float  # of the environment
    acting: float  # of the network, per step
    update: float
    episode: int  # steps of the longest episode of random play
    start: float = 0.0  # already spent on measuring


class Plan(NamedTuple):
    """Settings for a budget, and a sentence about them."""

    config: TrainConfig
    sentence: str


def check_budget(frames: int | None, minutes: float | None) -> None:
    if frames is not None and frames < 1:
        raise InputError(f"frames is {frames}; expected at least 1.")
    if minutes is not None and not 0 < minutes < float("inf"):
        raise InputError(f"minutes is {minutes}; expected a positive number.")


def plan(
    config: TrainConfig,
    frames: int | None,
    minutes: float | None,
    costs: Costs,
    large_scale: float | None = None,
    images: bool = False,
) -> Plan:
    """Fit the default settings of an environment to a number of steps, to a time, or to both.

    Args:
        config: the default settings, for many steps.
        frames: environment steps per seed; None for as many as there is time for.
        minutes: time of the whole command, including measuring before and scoring after training; None for no limit.
        costs: from :func:`measured_costs`.
        large_scale: `network.output_scale` with few steps; by default unchanged.
        images: whether observations are images; then no random actions are repeated, and a shorter training has as
            many updates as the default, not more.
    """
    check_budget(frames, minutes)
    seconds = math.inf if minutes is None else max(30 * minutes, 60 * minutes - costs.start)
    for_training = (1 - SCORING_SHARE) * seconds
    steps = (
        _most_steps(config, costs, for_training) if frames is None else _steps_of(frames, config, costs, for_training)
    )
    evaluation = _evaluation(config, steps, costs, SCORING_SHARE * seconds)
    left = max(0.5 * seconds, seconds - _scoring(evaluation, config, steps, costs))
    if frames is None:
        density = _updates_by_time_alone(steps, config.learner, costs)
        limits: dict[str, Any] = {"budget": max(1, round(left)), "budget_unit": "seconds"}
    else:
        steps = _steps_of(frames, config, costs, left)
        wanted = updates_for(frames, config.learner, 1.0 if images else MORE_UPDATES)
        density = min(wanted, _updates_within(left, frames, config, costs))
        limits = {"budget": frames, "time_limit": None if minutes is None else left}
    planned = _with_density(config, steps, density, large_scale, images)
    learner = replace(planned.learner, **limits)
    chosen = replace(
        planned,
        learner=learner,
        evaluation=replace(evaluation, snapshots=min(evaluation.snapshots, learner.budget)),
        checkpoint_every=max(1, min(config.checkpoint_every, _rounds(learner, steps) // CHECKPOINTS)),
    )
    training = min(left, _duration(steps, updates_per_step(learner), config, costs))
    return Plan(chosen, _sentence(chosen, steps, training + _scoring(evaluation, config, steps, costs), costs))


def _duration(steps: float, density: float, config: TrainConfig, costs: Costs) -> float:
    """Seconds of training of all seeds."""
    return len(config.seeds) * steps * (costs.step + costs.acting + density * costs.update)


def _steps_of(frames: int, config: TrainConfig, costs: Costs, seconds: float) -> int:
    """The steps of `frames` that fit into the time with the usual updates."""
    return max(1, int(min(frames, seconds / _duration(1, updates_per_step(config.learner), config, costs))))


def _most_steps(config: TrainConfig, costs: Costs, seconds: float) -> int:
    """The number of steps that there is time for."""

    def fits(steps: float) -> bool:
        return _duration(steps, _updates_by_time_alone(steps, config.learner, costs), config, costs) <= seconds

    return int(_largest(fits))


def _updates_by_time_alone(steps: float, usual: LearnerConfig, costs: Costs) -> float:
    """Updates per step if the budget is only a time."""
    most = max(updates_per_step(usual), MOST_TIME_ON_UPDATES * (costs.step + costs.acting) / costs.update)
    return min(updates_for(steps, usual), most)


def _updates_within(seconds: float, steps: int, config: TrainConfig, costs: Costs) -> float:
    """Updates per step that fit into the time, at least the usual number; if even those take too long, training ends
    early.
    """
    spare = seconds / (len(config.seeds) * steps) - costs.step - costs.acting
    return max(updates_per_step(config.learner), spare / costs.update)


def updates_for(steps: float, usual: LearnerConfig, max_ratio: float = 1.0) -> float:
    """Updates per step: the usual number, or more for a shorter training.

    A shorter training has as many updates as the usual one in total, or up to `max_ratio` times as many.
    """
    least, ratio = updates_per_step(usual), max(1.0, usual.budget / max(steps, 1))
    return float(np.clip(least * ratio * min(ratio, max_ratio), least, max(MAX_UPDATES_PER_STEP, least)))


def updates_per_step(learner: LearnerConfig) -> float:
    return learner.updates_per_round / (learner.environments * learner.trajectory_length)


def _with_density(
    config: TrainConfig, steps: int, density: float, large_scale: float | None, images: bool
) -> TrainConfig:
    """Change the updates per step, and the settings that more updates than usual need."""
    learner, network = _with_updates(config.learner, steps, density), config.network
    if updates_per_step(learner) > updates_per_step(config.learner):
        network = replace(network, members=MEMBERS)
        learner = learner if images else replace(learner, **REPETITION)
    if min(updates_per_step(learner), updates_for(steps, config.learner)) > FEW_STEPS:
        learner = replace(learner, task_duration="episode", tasks=f"task|{learner.tasks}", **QUICK_START)
        network = replace(network, output_scale=large_scale or network.output_scale)
    return replace(config, learner=learner, network=network)


def _with_updates(learner: LearnerConfig, steps: int, density: float) -> LearnerConfig:
    """Change environments, updates and replay, so that every update has as many transitions as before."""
    length, usual = learner.trajectory_length, learner.environments
    wanted = steps / (length * MIN_ROUNDS)
    environments = max(MIN_ENVIRONMENTS, min(usual, 2 ** round(math.log2(max(1.0, wanted)))))
    whole = environments // math.gcd(environments, _batch(learner))  # so that updates get equal parts
    updates = whole * max(1, round(environments * length * density / whole))
    if environments == usual and updates <= learner.updates_per_round:
        return learner
    capacity = learner.replay_capacity * usual // environments
    return replace(
        learner,
        environments=environments,
        updates_per_round=updates,
        replay_ratio=max(0, _batch(learner) * updates // environments - 1),
        replay_capacity=max(1, min(capacity, -(-steps // (environments * length)))),
    )


def _rounds(learner: LearnerConfig, steps: int) -> int:
    return steps // (learner.environments * learner.trajectory_length)


def _batch(learner: LearnerConfig) -> int:
    """Trajectories per update."""
    return learner.trajectories_per_round // learner.updates_per_round


def _largest(fits: Callable[[float], bool]) -> float:
    """Find the largest number that fits by bisection, at least 1; every smaller number must fit too."""
    low, high = 1.0, 2.0**53
    while high - low > 0.5:
        middle = math.sqrt(low * high) if high > 2 * low else (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return high


# --- scoring ---


def _evaluation(config: TrainConfig, steps: int, costs: Costs, seconds: float) -> EvaluationConfig:
    """Reduce episodes, snapshots and preferences until scoring takes at most a tenth of the steps and of the time."""
    usual = config.evaluation
    if steps >= config.learner.budget and _scoring(usual, config, steps, costs) <= seconds:
        return usual
    few = max(config.tasks.shape[1], 5)
    for snapshots, episodes, tasks in ((usual.snapshots, usual.episodes, 20), (5, 1, 20), (1, 1, 20), (1, 1, few)):
        lighter = _lighter(config, snapshots, episodes, tasks, measure_errors=True)
        for one in (lighter, replace(lighter, measure_errors=False)):
            in_time = _scoring(one, config, steps, costs) <= seconds
            if in_time and _scored_steps(one, config, steps, costs) <= SCORING_SHARE * steps * len(config.seeds):
                return one
    return replace(lighter, measure_errors=False)


def _lighter(config: TrainConfig, snapshots: int, episodes: int, tasks: int, measure_errors: bool) -> EvaluationConfig:
    features = config.tasks.shape[1]
    return replace(
        config.evaluation,
        snapshots=snapshots,
        episodes=episodes,
        tasks=(f"simplex:{tasks},{features}",) if features > 1 else (),
        final_rules=(),  # with C = {w} all rules agree
        measure_errors=measure_errors,
    )


def _scored_steps(evaluation: EvaluationConfig, config: TrainConfig, steps: int, costs: Costs) -> int:
    """Environment steps after training, of all seeds."""
    tasks = sum(len(parse_tasks(name)) for name in evaluation.tasks) or len(config.tasks)
    played = (evaluation.snapshots + 1 + len(evaluation.final_rules)) * evaluation.episodes * tasks * costs.episode
    measured = measuring_steps(config.learner.gamma, steps // MEASURED) if evaluation.measure_errors else 0
    return len(config.seeds) * (played + measured)


def _scoring(evaluation: EvaluationConfig, config: TrainConfig, steps: int, costs: Costs) -> float:
    """Seconds of scoring and measuring after training."""
    return _scored_steps(evaluation, config, steps, costs) * (costs.step + costs.acting)


# --- measuring ---


class _Still(gym.Env[Any, Any]):
    """An environment that never changes, to measure the time of networks without using up steps of the real one."""

    def __init__(self, env: Environment, features: int) -> None:
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.reward_space = gym.spaces.Box(-np.inf, np.inf, (features,), np.float32)
        self._shown = self.observation_space.sample()
        self._phi = np.zeros(features, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self._shown, {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return self._shown, self._phi, False, False, {}


def measured_costs(
    config: TrainConfig, make_learner: Callable[[LearnerConfig, EnvironmentSource], Learner], step: float, episode: int
) -> Costs:
    """Measure the time of the network for acting and for an update.

    Args:
        config: the default settings.
        make_learner: makes a learner of one seed from settings and environments.
        step: seconds per step of the environment.
        episode: steps of an episode.
    """
    learner = config.learner
    environments = 2 * MIN_ENVIRONMENTS
    trial = replace(
        learner,
        environments=environments,
        updates_per_round=_TRIAL,
        replay_ratio=max(0, _batch(learner) * _TRIAL // environments - 1),
        replay_capacity=10,
    )
    with config.environments.opened() as env:
        still = EnvironmentSource(lambda: _Still(env, config.tasks.shape[1]))
        with closing(make_learner(trial, still)) as measured:
            measured.step()  # the first round is slower
            acting = _seconds(lambda: measured.acting.collect(measured))
            update = max(_seconds(measured.step) - acting, 1e-6) / _TRIAL
        per_step = acting / (environments * learner.trajectory_length)
        return Costs(step, per_step, update, episode)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _sentence(config: TrainConfig, steps: int, seconds: float, costs: Costs) -> str:
    learner = config.learner
    per_step = updates_per_step(learner)
    updates = "an update per step" if per_step >= 1 else f"an update for every {1 / per_step:.3g} steps"
    steps_text = counted(steps, "step", "steps")
    environments_text = counted(learner.environments, "environment", "environments")
    return (
        f"Budget: about {steps_text} per seed, {_time(costs.step)} each, in {environments_text}, and "
        f"{updates}, {_time(costs.update)} each; this takes about {_time(seconds)}, with scoring."
    )


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.2g} ms"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"

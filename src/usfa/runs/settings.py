"""Default settings for an environment without a preset, from its observations and the size of its returns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from usfa.environments import (
    LEARNED,
    Environment,
    EnvironmentBatch,
    EnvironmentSource,
    ObservationSpec,
    PhiSource,
    feature_count,
    known_phi,
    source,
)
from usfa.errors import InputError
from usfa.evaluation import exact_mdp
from usfa.learning import Learner, LearnerConfig
from usfa.networks import NetworkConfig, convolutions_for
from usfa.phi import LearnedPhi
from usfa.progress import ProgressBar, progress_bar
from usfa.runs.budget import MEMBERS, QUICK_START, check_budget, measured_costs, plan
from usfa.runs.config import EvaluationConfig, TrainConfig, environment_text, phi_text, tasks_text
from usfa.runs.training import build_agent
from usfa.threads import threads

__all__ = ["fitting_numbers", "settings_for"]

Array = NDArray[np.float64]

RANDOM_STEPS = 2000
"""Random steps to estimate the size of returns and observations; fewer if they are slow, or the budget is small."""
RANDOM_SECONDS = 20.0
"""Maximum time of the random steps."""

# Measured on MO-Gymnasium's environments, see docs/mo-gymnasium.md.
_VECTORS = LearnerConfig(
    policies="task+simplex",
    policies_per_step=6,
    environments=32,
    tasks="simplex",
    task_duration="episode",
    trajectory_length=8,
    updates_per_round=16,
    lambda_=0.9,
    gamma=0.99,
    epsilon=0.02,
    epsilon_max=1.0,
    epsilon_decay=0.25,
    replay_ratio=15,
    replay_capacity=1000,
    priority_exponent=0.6,
    learning_rate=1e-3,
    ema=0.02,
    along_z=10.0,
    budget=300_000,
    budget_unit="frames",
)
_IMAGES = replace(
    _VECTORS,
    task_duration="trajectory",
    trajectory_length=16,
    updates_per_round=8,
    replay_ratio=1,
    replay_capacity=50,
    budget=1_000_000,
    **QUICK_START,
)
_BYTES_OF_PAST = 2 * 2**30
"""Maximum bytes of replayed images: enough for 50 trajectories up to 150×150 pixels, fewer of larger images."""


def settings_for(
    environment: str | Callable[..., Environment],
    arguments: Mapping[str, bool | int | float | str] | None = None,
    phi: PhiSource = "reward",
    console: Console | None = None,
    frames: int | None = None,
    minutes: float | None = None,
    random_steps: int | None = None,
    gamma: float | None = None,
) -> TrainConfig:
    """Choose a configuration to train in any environment for all preferences on the simplex.

    Without a budget, training takes as many steps as the settings were chosen for. With one, the number of environments
    and of updates per step depend on it, see :mod:`usfa.runs.budget`.

    Args:
        environment: its name, as in :func:`usfa.environments.make`, or its class or a function at the top of a module.
        arguments: arguments of the environment.
        phi: source of φ, see :class:`usfa.environments.VectorReward`.
        console: for a temporary progress bar, and a sentence about the budget; None shows nothing.
        frames: environment steps of training per seed.
        minutes: time of the whole training, including measuring before it and scoring after it.
        random_steps: random steps to estimate the size of returns and observations; by default up to `RANDOM_STEPS`.
        gamma: the discount, on which the size of returns depends; by default that of a finite MDP, or 0.99.
    """
    began = time.perf_counter()
    check_budget(frames, minutes)
    environment, phi = environment_text(environment), phi_text(phi)
    if not isinstance(arguments, Mapping | None):
        raise InputError(f"arguments is {arguments!r}; expected a dict of the environment's arguments.")
    env = source(environment, phi=phi, **(arguments or {})).one()
    spec, features = ObservationSpec.of(env.observation_space), feature_count(env)
    learner = replace(_learner(spec), gamma=_discount(env) if gamma is None else gamma)
    most = RANDOM_STEPS if random_steps is None else random_steps
    steps = max(1, most if frames is None else min(most, frames // 10))
    limit = RANDOM_SECONDS if minutes is None else min(RANDOM_SECONDS, 2 * minutes)
    with progress_bar(f"random steps in {environment}", steps, "steps", console, stays=False) as bar:
        played = _random_play(env, learner.gamma, steps, limit, bar)
    config = TrainConfig(
        environment=environment,
        training_tasks=_training_tasks(phi, features),
        environment_arguments=dict(arguments or {}),
        phi=phi,
        network=_network(spec, played),
        learner=learner,
        evaluation=EvaluationConfig(
            tasks=(f"simplex:20,{features}",) if features > 1 else (), snapshots=5, episodes=5, epsilon=0.0
        ),
        seeds=(0,),
    )
    if frames is None and minutes is None:
        return config
    with threads(config.threads):
        costs = measured_costs(config, partial(_trial, config), played.seconds_per_step, played.longest)
    costs = costs._replace(start=time.perf_counter() - began)
    scale = _mean_size(played.returns)
    planned = plan(config, frames, minutes, costs, large_scale=scale, images=spec.is_image)
    if console is not None:
        console.print(planned.sentence, highlight=False, markup=False, soft_wrap=True)
    return planned.config


def _network(spec: ObservationSpec, played: _Played) -> NetworkConfig:
    """Choose a network for these observations, scaled to the observations and returns of random play."""
    network = NetworkConfig(trunk=(128,), head=(128,), output_scale=_size(played.returns))
    if spec.is_image:
        return replace(network, convolutions=convolutions_for(min(spec.shape[:2])), normalise=True)
    if not spec.is_vector:
        return network
    seen = played.seen
    centre, scale = np.where(spec.amounts, (seen.mean(axis=0), _spread(seen)), [[0.0], [1.0]])
    return replace(network, obs_centre=_rounded(centre), obs_scale=_rounded(scale))


def _trial(config: TrainConfig, learner: LearnerConfig, environments: EnvironmentSource) -> Learner:
    """Make a learner of one seed with these settings and environments, and the larger network for small budgets."""
    larger = replace(config, network=replace(config.network, members=MEMBERS))
    return Learner(build_agent(larger), learner, environments, config.tasks, (0,))


def _training_tasks(phi: str, features: int) -> str:
    """The tasks that φ was learned from; otherwise the D tasks with a single 1."""
    learned = known_phi(phi) if phi.startswith(LEARNED) else None
    tasks = learned.tasks if isinstance(learned, LearnedPhi) else np.zeros((0, features))
    return tasks_text(tasks) if len(tasks) and not np.array_equal(tasks, np.eye(features)) else f"corners:{features}"


def fitting_numbers(learner: LearnerConfig, tasks: int, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Complete changes of a learner's numbers: move the other numbers to the nearest values that fit.

    With fixed tasks, environments must be a multiple of the tasks. Updates per round must divide the trajectories of a
    round. Without replay there are no priorities.

    Args:
        learner: the configuration that is changed.
        tasks: the number of training tasks.
        changes: new values of `environments`, `updates_per_round`, `replay_ratio` and `tasks`, which are kept.
    """
    new = {name: getattr(learner, name) for name in ("environments", "updates_per_round", "replay_ratio", "tasks")}
    new |= changes
    each = 1 + new["replay_ratio"]  # trajectories of a round per environment, new and replayed
    if min(new["environments"], new["updates_per_round"], each) < 1:
        return dict(changes)  # the configuration rejects them
    if "environments" not in changes:
        step = tasks if new["tasks"] == "fixed" else 1
        if "updates_per_round" in changes:
            step = math.lcm(step, new["updates_per_round"] // math.gcd(new["updates_per_round"], each))
        new["environments"] = max(1, round(new["environments"] / step)) * step
    if "updates_per_round" not in changes:
        new["updates_per_round"] = _nearest_divisor(new["environments"] * each, new["updates_per_round"])
    if not new["replay_ratio"]:
        new["priority_exponent"] = 0.0  # nothing is replayed
    return {name: value for name, value in new.items() if name in changes or value != getattr(learner, name)}


def _nearest_divisor(number: int, wanted: int) -> int:
    """Return the divisor of a number that is nearest to `wanted`, the smaller one if two are."""
    below = next(count for count in range(min(wanted, number), 0, -1) if number % count == 0)
    above = (count for count in range(wanted, 2 * wanted - below) if number % count == 0)
    return next(above, below)


def _learner(spec: ObservationSpec) -> LearnerConfig:
    if not spec.is_image:
        return _VECTORS
    bytes_each = (_IMAGES.trajectory_length + 1) * _IMAGES.environments * math.prod(spec.shape)
    return replace(_IMAGES, replay_capacity=max(1, min(_IMAGES.replay_capacity, _BYTES_OF_PAST // bytes_each)))


def _discount(env: Environment) -> float:
    """The discount of a finite MDP; for other environments the default."""
    mdp = exact_mdp(env)
    return _VECTORS.gamma if mdp is None else float(mdp.discount.max())


def _size(returns: Array) -> float:
    """Standard deviation of the returns, but at least a tenth of their mean norm, to two digits; 1 if all are 0.

    The mean hardly counts, because the network learns a constant by its bias. For example, random play in minecart
    has a return of -2.8 ± 0.8, since it burns many times as much fuel as good policies.
    """
    size = max(np.linalg.norm(returns.std(axis=0)), 0.1 * np.linalg.norm(returns, axis=-1).mean())
    return _two_digits(size)


def _mean_size(returns: Array) -> float:
    """Mean norm of the returns, to two digits; 1 if it is 0. With few steps, outputs must become that large quickly."""
    return _two_digits(np.linalg.norm(returns, axis=-1).mean())


def _two_digits(size: float | np.floating[Any]) -> float:
    return float(f"{size:.2g}") if size > 0 else 1.0


def _spread(seen: Array) -> Array:
    """Standard deviation of every entry; 1 for constant entries."""
    deviation = seen.std(axis=0)
    return np.where(deviation > 1e-6, deviation, 1.0)


def _rounded(values: Array) -> tuple[float, ...]:
    return tuple(float(f"{x:.3g}") for x in values)


class _Played(NamedTuple):
    """Observations, returns and costs of random play."""

    seen: Array  # [steps, ...]  vector observations, empty for images
    returns: Array  # [steps, D]    discounted, truncated at the last step
    seconds_per_step: float
    longest: int  # steps of the longest episode


def _random_play(env: Environment, gamma: float, steps: int, seconds: float, bar: ProgressBar) -> _Played:
    """Act at random for a number of steps, or until the time is over; then close the environment."""
    batch = EnvironmentBatch([env], gamma, [0])
    rng = np.random.default_rng(0)
    seen: list[Array] = []
    rewards: list[tuple[Array, float]] = []
    length = longest = 0
    began = time.perf_counter()
    while len(rewards) < steps and (not rewards or time.perf_counter() - began < seconds):
        if batch.spec.is_vector:
            seen.append(batch.observation[0].astype(np.float64))
        step = batch.step(np.array([rng.choice(np.flatnonzero(batch.legal[0]))]))
        rewards.append((step.phi[0].astype(np.float64), 0.0 if step.ended[0] else gamma))
        length = 0 if step.ended[0] else length + 1
        longest = max(longest, length + 1)
        bar.advance(1)
    each = (time.perf_counter() - began) / len(rewards)
    batch.close()
    returns, after = [], np.zeros(batch.features)
    for phi, discount in reversed(rewards):
        after = phi + discount * after
        returns.append(after)
    return _Played(np.array(seen), np.array(returns), each, longest)

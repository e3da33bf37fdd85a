"""Diagnose an agent on a task: compare ψ·w of each policy in C with its return, and count steps.

The counts are of steps that follow a policy, that improve on it, and that lead back to a recent observation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from rich.console import Console

from usfa.agents import TrainedAgent
from usfa.decisions import PAPER_RULE, CandidateSet, Decision, Follow, Rule, Situation, decided, parse_rule, rule_name
from usfa.environments import EnvironmentSource
from usfa.errors import InputError
from usfa.evaluation.episodes import PATIENCE, OnStep, acting, check_agent, environments_of, episode_batch, playing
from usfa.evaluation.score import ScoringProtocol, listed_rules
from usfa.tasks import format_task, parse_task
from usfa.threads import threads

__all__ = ["Diagnosis", "diagnose"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_REMEMBERED = 8
"""Number of recent observations to compare a new one with."""
_SAME = 1 / 255
"""Largest difference of two observations that count as the same: for images the mean difference as a share of their
range, for vectors the largest difference as a share of the largest entry."""


@dataclass(frozen=True)
class Diagnosis:
    """Tables about one agent on one task."""

    actors: pd.DataFrame
    """A row for each rule, and for each policy in C followed alone: actor ("rule" or "policy"), name, score (the
    undiscounted return), std over episodes, improved (share of steps that differ from the trusted policy), undone
    (share of steps that return to the observation of two steps before), idle (share of steps that return to one of the
    last eight observations), and longest_idle, the most consecutive idle steps in any episode."""
    candidates: pd.DataFrame
    """A row for each policy in C: policy, distance from the learned ones, promised (ψ·w at the start), realised (the
    discounted return when it was followed alone, with ψ for the rest of truncated episodes), and for each rule the
    share of steps on which it was followed and improved upon."""
    features: pd.DataFrame
    """A row for each policy and feature: policy, feature, promised (mean of ψ_i along the policy), realised (mean of
    the discounted return from there) and error, the mean of |ψ_i - return|."""


@threads(1)
def diagnose(
    agent: TrainedAgent,
    task: str | ArrayLike,
    candidates: str | ArrayLike | None = None,
    rules: str | Rule | Sequence[str | Rule] | None = None,
    *,
    episodes: int = 10,
    epsilon: float = 0.001,
    seed: int = 0,
    break_loops: bool = True,
    trust: bool = False,
    console: Console | None = None,
) -> Diagnosis:
    """Play a task with each rule and with each policy in C alone, in the same environments; compare ψ·w with returns.

    Args:
        agent: from :func:`usfa.load`, one with successor features.
        task: w.
        candidates: C; by default :attr:`TrainedAgent.default_candidates`.
        rules: a name or an object, or several; by default :attr:`TrainedAgent.default_rule` and Eq. 3.
        episodes: for each rule and each policy.
        epsilon: probability of a random action.
        seed: of the environments, the exploration and "sample:N".
        break_loops: see :func:`usfa.evaluate`; policies alone keep their loops.
        trust: whether to import modules that the agent's file names.
        console: for progress bars; None shows nothing.
    """
    check_agent(agent)
    if not agent.actor.has_psi:
        raise InputError("A UVFA has no policies to compare; expected an agent with successor features.")
    protocol = ScoringProtocol(episodes, epsilon, seed, break_loops=break_loops)
    episodes = protocol.episodes
    w = parse_task(task, agent.file.spec.features)
    chosen = agent.candidates(w, candidates, protocol.rng())
    given = listed_rules((agent.default_rule, PAPER_RULE) if rules is None else rules)
    by_name = {rule_name(rule): parse_rule(rule) for rule in given}
    environments = environments_of(agent, trust)
    count = episodes * (len(by_name) + len(chosen.z))
    with playing("diagnosis", environments, count, console) as on_step:
        play = partial(_play, agent, environments, w, protocol, on_step)
        one_set = chosen.map(lambda values: values[None])
        by_rule = {name: play(one_set, rule) for name, rule in by_name.items()}
        alone = play(CandidateSet.believed(chosen.z[:, None]), Follow())
    by_policy = {name: alone.part(index, len(chosen.z)) for index, name in enumerate(_names(chosen.z))}
    return Diagnosis(
        _actor_table(by_rule, by_policy, w),
        _candidate_table(by_rule, by_policy, w, agent.distance(chosen.z)),
        _feature_table(by_policy),
    )


def _names(z: Array) -> list[str]:
    """Name of each policy, numbered where several have the same."""
    names = [format_task(policy.round(2)) for policy in z]
    return [name if names.count(name) == 1 else f"{name} #{number}" for number, name in enumerate(names, start=1)]


# --- playing ---


class _Played(NamedTuple):
    """T steps of B episodes; `running` marks the steps that belong to them."""

    phi: Array  # [T, B, D]
    psi: Array  # [T, B, D]  of the action and the trusted policy
    returns: Array  # [T, B, D]  the discounted return from each step on
    policy: NDArray[np.int64]  # [T, B]     index in C of the trusted one
    improved: Mask  # [T, B]
    undone: Mask  # [T, B]
    idle: Mask  # [T, B]
    running: Mask  # [T, B]

    def part(self, index: int, parts: int) -> _Played:
        """Every `parts`-th episode, starting with `index`."""
        every: Any = (values[:, index::parts] for values in self)
        return _Played(*every)

    def share(self, steps: Mask) -> float:
        return float((steps & self.running).sum() / self.running.sum())


class _Recorder:
    """Wraps a rule and keeps ψ of its last decision."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self.improves = getattr(rule, "improves", True)
        self.remembers = getattr(rule, "remembers", False)
        self.psi: Array = np.zeros((0, 0))

    def decide(self, situation: Situation) -> Decision:
        decision = decided(self._rule, situation)
        rows = np.arange(len(decision.action))
        self.psi = situation.psi.numpy()[rows, decision.policy.numpy(), decision.action.numpy()].astype(np.float64)
        return decision


class _Recent:
    """Recent observations of B environments, to detect steps that return to one of them."""

    def __init__(self, observation: NDArray[np.generic]) -> None:
        self._seen: deque[NDArray[np.float32]] = deque([self._flat(observation)], maxlen=_REMEMBERED)
        # The mean over many entries hides the two that differ between one-hot states.
        self._overall = np.mean if observation.dtype == np.uint8 else np.max

    @staticmethod
    def _flat(observation: NDArray[np.generic]) -> NDArray[np.float32]:
        return observation.reshape(len(observation), -1).astype(np.float32)

    def step(self, observation: NDArray[np.generic]) -> tuple[Mask, Mask]:
        """Masks [B] of new observations that undo the previous step, and that are among the recent ones."""
        new = self._flat(observation)
        size = 255.0 if observation.dtype == np.uint8 else np.abs(new).max(axis=1) + 1e-9
        differences = np.abs(np.stack(self._seen) - new)  # [recent, B, entries]
        same: Mask = self._overall(differences, axis=2) <= _SAME * size  # [recent, B]
        undone: Mask = same[-2] & ~same[-1] if len(same) > 1 else np.zeros(len(new), np.bool_)
        self._seen.append(new)
        return undone, np.logical_or.reduce(same)


def _play(
    agent: TrainedAgent,
    environments: EnvironmentSource,
    w: Array,
    protocol: ScoringProtocol,
    on_step: OnStep | None,
    candidates: CandidateSet[Array],
    rule: Rule,
) -> _Played:
    """Play the episodes of a task [D] with each of K candidate sets [K, N, D], the sets in turn."""
    rng, recorder, gamma = protocol.rng(), _Recorder(rule), agent.file.gamma
    w = np.tile(w, (len(candidates.z), 1))
    batch = episode_batch(environments, w, candidates, protocol.episodes, rng, gamma)
    rows: list[tuple[NDArray[np.generic], ...]] = []
    with closing(batch.environments) as worlds:
        recent, running = _Recent(worlds.observation), np.ones(len(worlds), np.bool_)
        moments = acting(agent.actor, agent.network, batch, recorder, protocol.epsilon, rng, protocol.loop_gamma(agent))
        for decision, _, step in islice(moments, PATIENCE):
            # After a termination the observation is the first of the next episode.
            undone, idle = (steps & ~worlds.first for steps in recent.step(worlds.observation))
            of_rule = decision.policy.numpy(), decision.improved.numpy()
            record = (step.phi, recorder.psi, *of_rule, undone, idle, running, step.discount, step.ended)
            rows.append(tuple(values.copy() for values in record))
            running &= ~step.ended
            if on_step is not None:
                on_step(len(worlds))
            if not running.any():
                break
        next(moments)  # records ψ of the last state
    phi, psi, policy, improved, undone, idle, ran, discount, ended = map(np.stack, zip(*rows, strict=True))
    psi_t = np.concatenate([psi[1:], recorder.psi[None]])
    returns = _returns(phi.astype(np.float64), discount, ended, psi_t)
    return _Played(phi, psi, returns, policy, improved, undone, idle, ran)


def _returns(phi: Array, discount: Array, ended: Mask, psi_t: Array) -> Array:
    """Discounted return from every step on, [T, B, D], with ψ for the rest of truncated episodes."""
    returns, after = np.zeros_like(phi), psi_t[-1]
    for t in reversed(range(len(phi))):
        after = phi[t] + discount[t][:, None] * np.where(ended[t][:, None], psi_t[t], after)
        returns[t] = after
    return returns


# --- tables ---


def _actor_table(by_rule: Mapping[str, _Played], by_policy: Mapping[str, _Played], w: Array) -> pd.DataFrame:
    rows = []
    for kind, played_by in (("rule", by_rule), ("policy", by_policy)):
        for name, played in played_by.items():
            scores = np.einsum("tbd,tb,d->b", played.phi, played.running, w)
            shares = [played.share(steps) for steps in (played.improved, played.undone, played.idle)]
            std = float(scores.std(ddof=1)) if len(scores) > 1 else 0.0
            rows.append((kind, name, float(scores.mean()), std, *shares, _longest(played.idle & played.running)))
    columns = ["actor", "name", "score", "std", "improved", "undone", "idle", "longest_idle"]
    return pd.DataFrame(rows, columns=columns)


def _longest(steps: Mask) -> int:
    """The longest run of marked steps [T, B] in any episode."""
    longest = current = np.zeros(steps.shape[1], np.int64)
    for row in steps:
        current = (current + 1) * row
        longest = np.maximum(longest, current)
    return int(longest.max())


def _candidate_table(
    by_rule: Mapping[str, _Played], by_policy: Mapping[str, _Played], w: Array, distance: Array
) -> pd.DataFrame:
    rows = []
    for index, (name, alone) in enumerate(by_policy.items()):
        shares = {}
        for rule, played in by_rule.items():
            trusted = played.policy == index
            shares[f"followed, {rule}"] = played.share(trusted & ~played.improved)
            shares[f"improved, {rule}"] = played.share(trusted & played.improved)
        promised, realised = (float((values[0] @ w).mean()) for values in (alone.psi, alone.returns))
        known = {"policy": name, "distance": distance[index], "promised": promised, "realised": realised}
        rows.append(known | shares)
    return pd.DataFrame(rows)


def _feature_table(by_policy: Mapping[str, _Played]) -> pd.DataFrame:
    rows = []
    for name, alone in by_policy.items():
        psi, returns = alone.psi[alone.running], alone.returns[alone.running]  # [steps, D]
        errors = np.abs(psi - returns).mean(axis=0)
        for feature, values in enumerate(zip(psi.mean(axis=0), returns.mean(axis=0), errors, strict=True), start=1):
            rows.append((name, feature, *map(float, values)))
    return pd.DataFrame(rows, columns=["policy", "feature", "promised", "realised", "error"])

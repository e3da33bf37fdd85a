"""Scores of trained agents on tasks: exact in finite MDPs, the mean return of whole episodes elsewhere.

Training scores its snapshots with a :class:`Scorer`, and `usfa evaluate` does the same through :func:`evaluate`. Both
seed random numbers as in :class:`ScoringProtocol`, so that an evaluation with the seed of a training run reproduces the
scores of its last snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from rich.console import Console

from usfa.agents import TrainedAgent
from usfa.decisions import SINGLE, CandidateSet, Follow, Rule, parse_rule, rule_name
from usfa.environments import LEARNED, EnvironmentSource, reward_texts
from usfa.errors import InputError
from usfa.evaluation.episodes import check_agent, environments_of, episode_batch, playing, vector_returns
from usfa.evaluation.exact import exact_mdp, exact_scores
from usfa.evaluation.rewards import RewardedEpisodes, known_shares, rewarded_environments, warn_of_shares
from usfa.functional import TabularMDP, optimal_return
from usfa.records import settle
from usfa.tasks import format_task, moderate, parse_tasks
from usfa.threads import threads

__all__ = ["Scorer", "Scores", "ScoringProtocol", "candidates_name", "evaluate", "listed_rules"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ScoringProtocol:
    """Settings of a score, and the seeding of random generators.

    One set of tasks with one candidate set and one rule is scored at a time. Each time, `rng()` gives a new generator
    for the policies of "sample:N", and another one for the episodes: first the seed of each environment, which all
    tasks share, then the exploration. Scores therefore do not depend on what else is scored, and all candidate sets and
    rules are scored in the same environments.
    """

    episodes: int = 20
    epsilon: float = 0.001
    seed: int = 0
    exact: bool | None = None  # require exact scores (True) or episodes (False)
    break_loops: bool = True  # in episodes, see usfa.decisions.Loops

    def __post_init__(self) -> None:
        settle(self)
        if self.episodes < 1:
            raise InputError(f"episodes is {self.episodes}; expected at least 1.")
        if not 0 <= self.epsilon <= 1:
            raise InputError(f"epsilon is {self.epsilon}; expected a number from 0 to 1.")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; expected a whole number from 0.")

    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, 1])

    def loop_gamma(self, agent: TrainedAgent) -> float | None:
        """γ of the agent, to break its loops; None to let it go around."""
        return agent.file.gamma if self.break_loops else None


@dataclass(frozen=True)
class Scores:
    """Returns on K tasks."""

    returns: Array  # [E, K]  E episodes, or 1 where exact
    optimal: Array  # [K]     NaN where it is not known
    unexplained: Array | None = None  # [K]  share of the rewards that φ cannot express, if there were rewards

    @property
    def mean(self) -> Array:
        return self.returns.mean(axis=0)

    @property
    def std(self) -> Array:
        """Standard deviation over episodes; 0 where the score is exact."""
        return self.returns.std(axis=0, ddof=1) if len(self.returns) > 1 else np.zeros(self.returns.shape[1])


def evaluate(
    agent: TrainedAgent,
    tasks: str | ArrayLike,
    candidates: str | ArrayLike | Sequence[str] | None = None,
    rules: str | Rule | Sequence[str | Rule] | None = None,
    *,
    episodes: int = 20,
    epsilon: float = 0.001,
    seed: int = 0,
    exact: bool | None = None,
    break_loops: bool = True,
    trust: bool = False,
    console: Console | None = None,
    rewards: object = None,
) -> pd.DataFrame:
    """Mean return of the agent on every task with every candidate set and decision rule, without learning.

    In a finite MDP the score is exact and comes with the optimum; elsewhere it is the mean of whole episodes.

    Args:
        agent: from :func:`usfa.load`.
        tasks: one vector, several, their text ("1,0;0.5,0.5"), or the name of a set ("trip-directions").
        candidates: a set C, or several names; by default :attr:`TrainedAgent.default_candidates`.
        rules: decision rules: "cautious", "gpi" (Eq. 3), "follow", an object with a method `decide`, or several; by
            default :attr:`TrainedAgent.default_rule`. "single" is a baseline: the best policy of C in hindsight,
            followed alone.
        episodes: per task, candidate set and rule, when the score is not exact.
        epsilon: probability of a random action in episodes.
        seed: of the environments, the exploration and "sample:N". With the seed of a training run, and its tasks,
            candidate sets, rules, episodes and epsilon, the scores are those of its last snapshot in scores.csv. Runs
            of recurrent agents are scored with break_loops=False, as in the paper.
        exact: require exact scores (True) or episodes (False).
        break_loops: in episodes, let agents give up actions that lead back to the same observation and memory again
            and again, if another one promises more. Exact scores are those of the rule alone.
        trust: whether to import modules that the agent's file names.
        console: for progress bars; None shows nothing.
        rewards: the reward of each task, see :class:`usfa.FeaturesConfig`, where φ·w only approximates it. Scores are
            then mean returns in these rewards, of episodes.

    Returns: a row for each candidate set, rule and task: candidates, rule, task, score, std (of the episodes), optimal,
    gap. With a learned φ or with rewards also unexplained, the share of the reward that φ cannot express, measured in
    the episodes or, without rewards, when φ was learned; NaN where it is not known. Warns of a large share.
    """
    check_agent(agent)
    protocol = ScoringProtocol(episodes, epsilon, seed, exact, break_loops)
    w = _task_rows(tasks, agent.file.spec.features)
    scorer = _scorer(agent, w, rewards, trust)
    listed = listed_rules(agent.default_rule if rules is None else rules)
    chosen_rules = [rule if rule == SINGLE else parse_rule(rule) for rule in listed]
    rows, shares = [], []
    for chosen in _listed_candidates(candidates):
        for rule in chosen_rules:
            scores = scorer.score(agent, w, chosen, rule, protocol, console)
            names = candidates_name(agent, chosen), rule_name(rule)
            rows += [
                (*names, format_task(task), mean, std, optimal, optimal - mean)
                for task, mean, std, optimal in zip(w, scores.mean, scores.std, scores.optimal, strict=True)
            ]
            shares.append(known_shares(agent, w) if scores.unexplained is None else scores.unexplained)
    warn_of_shares(w, np.fmax.reduce(shares))
    table = pd.DataFrame(rows, columns=["candidates", "rule", "task", "score", "std", "optimal", "gap"])
    told = rewards is not None or agent.file.phi.startswith(LEARNED)
    return table.assign(unexplained=np.concatenate(shares)) if told else table


def _scorer(agent: TrainedAgent, w: Array, rewards: object, trust: bool) -> Scorer:
    if rewards is None:
        return Scorer(environments_of(agent, trust))
    texts = reward_texts(rewards)
    if len(texts) != len(w):
        raise InputError(f"There are {len(texts)} rewards for {len(w)} tasks; expected one for each.")
    return Scorer(rewarded_environments(agent, texts, trust), rewarded=True)


class Scorer:
    """Scores agents in one environment, whose tables and optima are computed once.

    Args:
        environments: source of the environments.
        rewarded: whether their φ is followed by a reward for each task, see :func:`rewarded_environments`; scores are
            then returns in these rewards.
    """

    def __init__(self, environments: EnvironmentSource, rewarded: bool = False) -> None:
        self._environments, self._rewarded = environments, rewarded
        with environments.opened() as env:
            self._mdp, self._name = exact_mdp(env), str(env)
        self._optima: dict[bytes, Array] = {}

    @threads(1)
    def score(
        self,
        agent: TrainedAgent,
        w: Array,
        candidates: str | ArrayLike | None,
        rule: str | Rule,
        protocol: ScoringProtocol,
        console: Console | None = None,
    ) -> Scores:
        """Score one agent on a set of tasks with one candidate set and one rule.

        Args:
            agent: the agent.
            w: [K, D], the tasks.
            candidates: C; by default :attr:`TrainedAgent.default_candidates`.
            rule: the decision rule; "single" scores the best policy of C in hindsight, followed alone.
            protocol: exact scores or episodes, their number, and the seed.
            console: for progress bars; None shows nothing.
        """
        sets = agent.candidates(w, candidates, protocol.rng())
        players: list[tuple[CandidateSet[Array], Rule]]
        if rule == SINGLE:  # one policy after the other, in the same environments, to save memory
            policies = range(sets.z.shape[1])
            players = [(CandidateSet.believed(sets.z[:, [policy]]), Follow()) for policy in policies]
        else:
            players = [(sets, parse_rule(rule))]
        mdp = self._tables(agent, players[0][1], protocol.exact)
        if mdp is not None:
            actor, network = agent.actor, agent.network
            returns = [exact_scores(actor, network, mdp, w, own_sets, own_rule)[None] for own_sets, own_rule in players]
            return Scores(_best_in_hindsight(returns), self._optimal(mdp, w))
        label = f"C = {candidates_name(agent, candidates)}, {rule_name(rule)}"
        with playing(label, self._environments, protocol.episodes * len(w) * len(players), console) as on_step:
            returns, shares = [], []
            for own_sets, own_rule in players:
                rng = protocol.rng()
                batch = episode_batch(self._environments, w, own_sets, protocol.episodes, rng)
                truth = RewardedEpisodes(batch.environments, w) if self._rewarded else None
                batch = batch if truth is None else batch._replace(environments=truth)
                played = vector_returns(
                    agent.actor,
                    agent.network,
                    batch,
                    own_rule,
                    protocol.epsilon,
                    rng,
                    on_step=on_step,
                    loop_gamma=protocol.loop_gamma(agent),
                )
                scalar = np.einsum("bd,bd->b", played.undiscounted, batch.w) if truth is None else truth.returns
                returns.append(scalar.reshape(protocol.episodes, len(w)))
                shares += [] if truth is None else [truth.shares(len(w))]
        unexplained = np.fmax.reduce(shares) if shares else None
        return Scores(_best_in_hindsight(returns), np.full(len(w), np.nan), unexplained)

    def _tables(self, agent: TrainedAgent, rule: Rule, exact: bool | None) -> TabularMDP | None:
        """Tables for exact scores, or None to play episodes; InputError if exact scores are required but impossible."""
        obstacle = ""
        if self._rewarded:
            obstacle = "The scores are returns in rewards"
        elif self._mdp is None:
            obstacle = f"The environment {self._name} has no tables"
        elif agent.actor.remembers:
            obstacle = "The agent is recurrent"
        elif getattr(rule, "remembers", False):
            obstacle = f"The rule {rule_name(rule)!r} has a state"
        if exact and obstacle:
            raise InputError(f"{obstacle}; expected exact=False.")
        return None if obstacle or exact is False else self._mdp

    def _optimal(self, mdp: TabularMDP, w: Array) -> Array:
        key = w.tobytes()
        if key not in self._optima:
            tasks, factor = moderate(w)
            self._optima[key] = optimal_return(mdp, torch.from_numpy(tasks)).numpy() * factor[:, 0]
        return self._optima[key]


def _best_in_hindsight(returns: Sequence[Array]) -> Array:
    """Returns [E, K] of the policy with the best mean for each task, from the returns [E, K] of each policy."""
    each = np.stack(returns, axis=-1)  # [E, K, N]
    best = each.mean(axis=0, keepdims=True).argmax(axis=-1)[..., None]
    return np.take_along_axis(each, best, axis=-1)[..., 0]


def listed_rules(rules: str | Rule | Sequence[str | Rule]) -> list[str | Rule]:
    """One rule, or several, as a list."""
    given: Any = rules
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str | Rule) else [given]
    if not listed:
        raise InputError("The rules are empty; expected at least one, such as 'gpi'.")
    names = [rule_name(rule) for rule in listed]
    if len(set(names)) < len(names):
        raise InputError(f"The rules are {names}; expected each name once.")
    return listed


def candidates_name(agent: TrainedAgent, candidates: str | ArrayLike | None) -> str:
    """Name of a candidate set in tables; "own" for vectors."""
    if candidates is None:
        return agent.default_candidates
    return candidates if isinstance(candidates, str) else "own"


def _listed_candidates(candidates: str | ArrayLike | Sequence[str] | None) -> list[Any]:
    """A list of candidate sets: one for each name, or a single one for everything else."""
    if isinstance(candidates, str) or not isinstance(candidates, Sequence):
        return [candidates]
    if not candidates:
        raise InputError("The candidate set is empty; expected at least one policy z.")
    return list(candidates) if all(isinstance(name, str) for name in candidates) else [candidates]


def _task_rows(tasks: str | ArrayLike, features: int) -> Array:
    """Tasks [K, D]; a single vector is one task."""
    rows: Any = np.asarray(tasks) if hasattr(tasks, "__array__") else tasks
    if not isinstance(rows, str) and isinstance(rows, Iterable) and all(isinstance(entry, Real) for entry in rows):
        rows = [rows]
    return parse_tasks(rows, features)

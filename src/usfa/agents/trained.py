"""Trained agents: values, and policies to act with."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from usfa.agents.agent import Agent
from usfa.agents.agent_files import AgentFile, read_agent, section
from usfa.decisions import (
    DEFAULT_RULE,
    GAP_RULE,
    PAPER_RULE,
    Accuracy,
    CandidateSet,
    Decision,
    Loops,
    Rule,
    RuleState,
    assumed_accuracy,
    candidate_set,
    leaves_loops,
    parse_rule,
    rule_name,
    task_tensor,
)
from usfa.errors import InputError, unknown_name
from usfa.functional import mask_illegal, q_values
from usfa.networks import Parameters
from usfa.samplers import LearnedPolicies, parse_sampler
from usfa.tasks import TASKS_OF_M, format_task, moderate, parse_task, parse_tasks, shown
from usfa.threads import threads
from usfa.trajectory import CoreState, Present

__all__ = ["Policy", "TrainedAgent", "check_candidates", "load_agent"]

Candidates = str | ArrayLike


def check_candidates(agent: Agent, candidates: Candidates, setting: str) -> None:
    """Raise InputError if an agent supports only one candidate set, and another is given."""
    only = agent.only_candidates
    if only is not None and not (isinstance(candidates, str) and candidates == only):
        raise InputError(f"{setting} is {candidates!r}; expected {only!r}, the only candidate set of this agent.")


class TrainedAgent:
    """A trained agent for any task: gives values, or a policy to act with."""

    def __init__(self, file: AgentFile, parameters: Parameters, seed: int) -> None:
        self.file = file
        self.seed = seed
        self.actor = file.agent()
        self.network = self.actor.make_network()
        self.network.load_state_dict(parameters)
        self.network.freeze()
        self.training_tasks = np.array(file.training_tasks)
        self.sampler = parse_sampler(file.policies, self.training_tasks)
        learner = section(file.training, "learner")
        self.learned = LearnedPolicies(self.training_tasks, self.sampler, str(learner.get("tasks", TASKS_OF_M[0])))
        self._action_gap = learner.get("action_gap", 0.0)  # of advantage learning
        if not isinstance(self._action_gap, int | float) or not 0 <= self._action_gap < 1:
            raise InputError(f"The agent's action_gap is {self._action_gap!r}; expected a number from 0 to below 1.")

    def __repr__(self) -> str:
        tasks = ", ".join(format_task(w) for w in self.training_tasks)
        return f"<{self.file.kind} agent for {self.file.environment}, trained on {tasks}, seed {self.seed}>"

    @property
    def default_candidates(self) -> str:
        """Default C: M ∪ {w'}, or M alone if only policies in or near M were learned.

        In the second case ψ(·, w') is extrapolated and GPI trusts it too much: in the room (σ = 0.1) it lowers the
        scores, see docs/room-settings.md.
        """
        if self.actor.default_candidates is not None:
            return self.actor.default_candidates
        return "train" if self.learned.are_near_m or self.file.policies == "train" else "train+task"

    @property
    def default_rule(self) -> str:
        """Default rule: cautious for a learned ψ, steady after advantage learning, gpi for exact tables and UVFAs."""
        if not self.actor.learns_psi:  # exact tables and UVFAs
            return PAPER_RULE
        return GAP_RULE if self._action_gap else DEFAULT_RULE

    @property
    def accuracy(self) -> Accuracy | None:
        """Errors of ψ, measured after training; None if they were not measured."""
        return self.file.accuracy[self.file.seeds.index(self.seed)] if self.file.accuracy else None

    def candidates(
        self, w: NDArray[np.float64], candidates: Candidates | None, rng: np.random.Generator
    ) -> CandidateSet[NDArray[np.float64]]:
        """C for every task, w [..., D] -> z [..., N, D], with the measured errors of ψ."""
        w = np.asarray(w, np.float64)
        chosen = self.default_candidates if candidates is None else candidates
        check_candidates(self.actor, chosen, "candidates")
        z = candidate_set(chosen, w, self.training_tasks, self.sampler, rng)
        if not self.actor.learns_psi:
            return CandidateSet.believed(z)
        accuracy = self.accuracy or assumed_accuracy(self.file.spec.features)
        return accuracy.of(z, self.distance(z), self._horizon, 1 - self._action_gap)

    @property
    def _horizon(self) -> float:
        """Effective horizon in steps: 1/(1-γ), or the mean length of an episode in training if that is less."""
        file = self.file
        length = file.frames / file.episodes if file.episodes else math.inf
        return min(length, 1 / (1 - file.gamma) if file.gamma < 1 else math.inf)

    def distance(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Distance of policies z [..., D] from the learned ones, [...]."""
        return self.learned.distance(np.asarray(z, np.float64))

    @threads(1)
    @torch.inference_mode()
    def q_values(
        self,
        observation: object,
        task: str | ArrayLike,
        candidates: Candidates | None = None,
        *,
        legal: ArrayLike | None = None,
        seed: int = 0,
    ) -> NDArray[np.float32]:
        """Q(s, ·, w), the maximum over the policies in C: one observation -> [A], a batch of K -> [K, A].

        Args:
            observation: an observation of the environment, or a batch of them.
            task: w, numbers or text.
            candidates: C; by default :attr:`default_candidates`.
            legal: [A] or [K, A], mask of legal actions; the others get -inf.
            seed: for "sample:N".
        """
        w = parse_task(task, self.file.spec.features)
        chosen = self.candidates(w, candidates, np.random.default_rng(seed)).tensors()
        present, single = self._at_start(observation)
        batch = len(present.observation)
        tasks, factor = task_tensor(w).expand(batch, -1), float(moderate(w)[1][0])
        of_each = chosen.map(lambda values: values.expand(batch, *values.shape))
        situation, _ = self.actor.situation(self.network, present, tasks, of_each)
        q = q_values(situation.psi, situation.w).amax(dim=-2) * factor
        if not q.isfinite().all():
            raise InputError(
                f"The values on task {shown(task)} are too large for single precision; expected a shorter task."
            )
        q = mask_illegal(q, None if legal is None else self._mask(legal, batch))
        result: NDArray[np.float32] = (q[0] if single else q).numpy()
        return result

    def _mask(self, legal: ArrayLike, batch: int) -> torch.Tensor:
        mask, actions = np.array(legal, np.bool_), self.file.spec.actions
        if mask.shape not in {(actions,), (batch, actions)}:
            raise InputError(f"legal is {legal!r}; expected {actions} entries, one per action.")
        return torch.from_numpy(mask)

    def _at_start(self, observation: object) -> tuple[Present, bool]:
        """Encode one observation or a batch as starts of episodes; also return whether it is a single one."""
        encoded = self.file.spec.observation.encode(observation)
        single = encoded.ndim == len(self.file.spec.observation.shape)
        return self.actor.at_start(torch.from_numpy(encoded[None] if single else encoded)), single

    @threads(1)
    @torch.inference_mode()
    def successor_features(self, observation: object, z: ArrayLike) -> NDArray[np.float32]:
        """ψ(s, ·, z) of N policies [N, D]: one observation -> [N, A, D], a batch of K -> [K, N, A, D]."""
        if not self.actor.learns_psi:
            raise InputError(f"A {self.file.kind} agent has no network of successor features; expected a USFA.")
        present, single = self._at_start(observation)
        policies = torch.from_numpy(parse_tasks(z, self.file.spec.features)).float()
        psi, _ = self.actor.step(self.network, present, policies.expand(len(present.observation), -1, -1))
        result: NDArray[np.float32] = (psi[0] if single else psi).numpy()
        return result

    def policy(
        self,
        task: str | ArrayLike,
        candidates: Candidates | None = None,
        rule: str | Rule | None = None,
        *,
        epsilon: float = 0.0,
        seed: int = 0,
    ) -> Policy:
        """Make a policy for a task, without further learning. Any real vector is a task; entries may be negative.

        Args:
            task: w, as [1, 1, -1, 0], "1,1,-1,0" or "11-10".
            candidates: C: "task", "train", "train+task", "sample:30" or an array [N, D]; by default
                :attr:`default_candidates`.
            rule: decision rule: "cautious", "gpi" (Eq. 3), "follow", or an object with a method `decide`; by default
                :attr:`default_rule`.
            epsilon: probability of a random action.
            seed: for "sample:N" and for random actions.
        """
        return Policy(self, task, candidates, rule, epsilon=epsilon, seed=seed)


@dataclass(slots=True)
class _Episodes:
    """The state of a policy within the episodes of B environments."""

    first: torch.Tensor  # [B]  bool, no observation of the episode was seen yet
    last_action: torch.Tensor  # [B]  int64
    memory: CoreState
    rule_state: RuleState | None = None
    decision: Decision | None = None
    loops: Loops | None = None  # since φ of every step was given


class Policy:
    """Acts on one task. Call it with each observation; call :meth:`reset` when an episode starts.

    `task`, `candidates`, `rule` and `epsilon` can be set at any time, also within an episode: the recurrent state is
    kept. For several environments at once, call it with a batch of observations.
    """

    def __init__(
        self,
        agent: TrainedAgent,
        task: str | ArrayLike,
        candidates: Candidates | None = None,
        rule: str | Rule | None = None,
        *,
        epsilon: float = 0.0,
        seed: int = 0,
    ) -> None:
        """Arguments as in :meth:`TrainedAgent.policy`."""
        if not (isinstance(seed, int | np.integer) and seed >= 0):
            raise InputError(f"seed is {seed!r}; expected a whole number from 0.")
        self._agent = agent
        self._seed = int(seed)
        self._rng = np.random.default_rng([self._seed, 1])
        self._everything_legal = np.ones(agent.file.spec.actions, np.bool_)
        self.reset()
        self._choose(task, candidates)
        self.rule = rule
        self.epsilon = epsilon

    def __setattr__(self, name: str, value: object) -> None:
        if not (name.startswith("_") or name in _SETTABLE):
            raise unknown_name("attribute of a policy to set", name, _SETTABLE)
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        explores = f", ε = {self.epsilon:g}" if self.epsilon else ""
        name = self._spec if isinstance(self._spec, str) else f"{len(self.z)} policies"
        return f"<policy for task {format_task(self._w)}, C = {name}, rule {rule_name(self.rule)}{explores}>"

    # --- settings ---

    @property
    def agent(self) -> TrainedAgent:
        return self._agent

    @property
    def task(self) -> NDArray[np.float64]:
        """The task w, [D], a copy. Set it to numbers or a text; named candidate sets change with it."""
        return self._w.copy()

    @task.setter
    def task(self, task: str | ArrayLike) -> None:
        self._choose(task, self._spec)

    @property
    def w(self) -> NDArray[np.float64]:
        """The same as `task`."""
        return self.task

    @property
    def candidates(self) -> Candidates:
        """The candidate set C as it was given, a name or an array [N, D]; None sets the default."""
        return self._spec

    @candidates.setter
    def candidates(self, candidates: Candidates | None) -> None:
        self._choose(self._w, candidates)

    @property
    def z(self) -> NDArray[np.float64]:
        """The policies in C, [N, D], a copy."""
        return self._z.copy()

    @property
    def rule(self) -> Rule:
        """The decision rule. Set it to a name or an object; None sets the default. Setting it resets its state."""
        return self._rule

    @rule.setter
    def rule(self, rule: str | Rule | None) -> None:
        self._rule = parse_rule(self._agent.default_rule if rule is None else rule)
        self._now.rule_state = None
        self._now.loops = None  # their values are those of another rule

    @property
    def epsilon(self) -> float:
        """Probability of a random action."""
        return self._epsilon

    @epsilon.setter
    def epsilon(self, epsilon: float) -> None:
        if not (isinstance(epsilon, int | float | np.number) and 0 <= epsilon <= 1):
            raise InputError(f"epsilon is {epsilon!r}; expected a number from 0 to 1.")
        self._epsilon = float(epsilon)

    def _choose(self, task: str | ArrayLike, candidates: Candidates | None) -> None:
        """Set the task and C, which depends on it."""
        w = parse_task(task, self._agent.file.spec.features)
        chosen = self._agent.candidates(w, candidates, np.random.default_rng(self._seed))
        self._w = w.copy()
        self._spec: Candidates = self._agent.default_candidates if candidates is None else candidates
        self._z = chosen.z
        self._one = task_tensor(self._w)[None], chosen.tensors().map(lambda values: values[None])
        self._tensors = self._one
        self._now.loops = None  # their values are those of another task

    # --- acting ---

    @property
    def decision(self) -> Decision | None:
        """The last decision of the rule, before any random action; the first axis is the batch."""
        return self._now.decision

    def reset(self, ended: ArrayLike | None = None) -> None:
        """Start new episodes: reset the recurrent state and forget loops.

        Args:
            ended: [K], the environments of a batch whose episodes have ended; by default all, and the next batch may
                have another size.
        """
        if ended is None:
            self._now = self._start(1)
            return
        rows = np.asarray(ended)
        now = self._now
        if rows.shape != now.first.shape or rows.dtype != np.bool_:
            raise InputError(f"ended is {ended!r}; expected {len(now.first)} truth values, one per environment.")
        if now.rule_state and rows.any() and not rows.all():
            raise InputError(
                f"The rule {rule_name(self.rule)!r} has a state, which cannot be reset in some environments of a "
                "batch; expected a policy for each environment."
            )
        if rows.all():
            self._now = self._start(len(rows))
        else:
            now.first = now.first | torch.from_numpy(rows)

    def _start(self, batch: int) -> _Episodes:
        first, last = torch.ones(batch, dtype=torch.bool), torch.zeros(batch, dtype=torch.int64)
        return _Episodes(first, last, self._agent.actor.initial_state(batch))

    @threads(1)
    @torch.inference_mode()
    def __call__(self, observation: object, legal: ArrayLike | None = None, phi: ArrayLike | None = None) -> Any:
        """Choose the action for an observation, an int, or for a batch of K observations, int64 [K].

        With φ of every step, the agent gives up actions that lead back to the same observation and memory again and
        again (:class:`usfa.decisions.Loops`).

        Args:
            observation: an observation of the environment, or a batch; its size may change only after :meth:`reset`.
            legal: mask of legal actions, [A], or [K, A] for a batch; `info["action_mask"]` if the environment has one.
            phi: features of the step that led here, the vector reward that `env.step` returned, [D] or [K, D]; None for
                the first observation of an episode, or if it is not known: loops so far are forgotten.
        """
        actor = self._agent.actor
        spec = actor.spec.observation
        encoded = spec.encode(observation)
        single = encoded.ndim == len(spec.shape)
        batch = self._batch(encoded[None] if single else encoded)
        mask = self._mask(legal, len(batch))
        now = self._now
        w, candidates = self._tensors_for(len(batch))
        self._agent.network.hold(candidates.z)
        present = Present(torch.from_numpy(batch), now.last_action, torch.from_numpy(mask), now.first, now.memory)
        present = self._without_loops(present, phi, w)
        decision, now.memory = actor.act(self._agent.network, present, w, candidates, self._rule, now.rule_state)
        now.decision, now.rule_state = decision, decision.state
        now.last_action = self._explored(decision.action, mask) if self._epsilon else decision.action
        now.first = torch.zeros(len(batch), dtype=torch.bool)
        return int(now.last_action) if single else now.last_action.numpy().copy()

    def _without_loops(self, present: Present, phi: ArrayLike | None, w: torch.Tensor) -> Present:
        """The same without legal actions that only continue a loop, if φ of the steps is given."""
        now = self._now
        features = None if phi is None else self._phi(phi, len(w))
        if not leaves_loops(self._rule):
            return present
        if now.loops is None or now.decision is None or features is None:
            now.loops = Loops(w, self._agent.file.gamma)
        else:
            now.loops.add(now.decision.q, now.last_action.numpy(), features, now.first.numpy())
        return present._replace(legal=torch.from_numpy(now.loops.avoid(present)))

    def _phi(self, phi: ArrayLike, batch: int) -> NDArray[np.float64]:
        features = self._agent.file.spec.features
        try:
            values = np.asarray(phi, np.float64)
        except (TypeError, ValueError):
            values = np.full(1, np.nan)
        if values.shape == (features,) and batch == 1:
            values = values[None]
        if values.shape != (batch, features) or not np.isfinite(values).all():
            each = "" if batch == 1 else f" for each of {batch} environments"
            raise InputError(f"phi is {shown(phi)}; expected {features} numbers, the features of the last step{each}.")
        return values

    def _batch(self, encoded: NDArray[Any]) -> NDArray[Any]:
        """Check the size of a batch; the first one of an episode sets it."""
        if encoded.ndim != 1 + len(self._agent.actor.spec.observation.shape) or not len(encoded):
            raise InputError(
                f"The observations have shape {encoded.shape}; expected one, or a batch with one axis more."
            )
        if len(encoded) != len(self._now.first):
            if self._now.decision is not None:
                raise InputError(
                    f"The batch has {len(encoded)} observations; expected {len(self._now.first)}, as since the last "
                    "reset()."
                )
            self._now = self._start(len(encoded))
        return encoded

    def _tensors_for(self, batch: int) -> tuple[torch.Tensor, CandidateSet[torch.Tensor]]:
        """The task and C for each environment of a batch, cached until the task, C or the batch size changes."""
        if len(self._tensors[0]) != batch:
            w, candidates = self._one
            self._tensors = (
                w.expand(batch, -1),
                candidates.map(lambda values: values.expand(batch, *values.shape[1:])),
            )
        return self._tensors

    def _mask(self, legal: ArrayLike | None, batch: int) -> NDArray[np.bool_]:
        spec = self._agent.actor.spec
        if legal is None and spec.masked:
            raise InputError(
                'legal is missing; expected info["action_mask"], because some actions of '
                f"{self._agent.file.environment!r} are illegal in some states."
            )
        if legal is None:
            return np.broadcast_to(self._everything_legal, (batch, spec.actions)).copy()
        mask = np.array(legal, np.bool_)
        if mask.shape not in {(spec.actions,), (batch, spec.actions)} or not mask.any(axis=-1).all():
            raise InputError(f"legal is {legal!r}; expected {spec.actions} entries, one per action, not all false.")
        return np.broadcast_to(mask, (batch, spec.actions)).copy()

    def _explored(self, greedy: torch.Tensor, legal: NDArray[np.bool_]) -> torch.Tensor:
        """Replace actions by random legal ones with probability ε."""
        explores = self._rng.random(len(legal)) < self._epsilon
        random = np.where(legal, self._rng.random(legal.shape), -1.0).argmax(axis=1)
        return torch.from_numpy(np.where(explores, random, greedy.numpy()))


_SETTABLE = ("task", "candidates", "rule", "epsilon")


def load_agent(directory: str | os.PathLike[str], seed: int | None = None, trust: bool = False) -> TrainedAgent:
    """Load the agent in a directory of :func:`save_agent`.

    Args:
        directory: an agent directory.
        seed: seed of the training run; by default the first.
        trust: whether to import modules that its file names, for user-defined classes.
    """
    file, weights = read_agent(Path(directory), trust)
    if seed is None:
        seed = file.seeds[0]
    if seed not in file.seeds:
        raise InputError(f"The agent in {directory} has no seed {seed!r}; expected one of {list(file.seeds)}.")
    run = file.seeds.index(seed)
    return TrainedAgent(file, {name: tensor[run] for name, tensor in weights.items()}, seed)

"""Trained agents: values, and policies to act with."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from usfa.agents.agent import Agent
from usfa.agents.agent_files import AgentFile, read_agent, section
from usfa.decisions import (
    DEFAULT_RULE,
    PAPER_RULE,
    Accuracy,
    CandidateSet,
    Decision,
    Rule,
    assumed_accuracy,
    candidate_set,
    parse_rule,
    task_tensor,
)
from usfa.errors import InputError
from usfa.functional import mask_illegal, q_values
from usfa.networks import Parameters
from usfa.samplers import LearnedPolicies, parse_sampler
from usfa.tasks import TASKS_OF_M, format_task, moderate, parse_task, parse_tasks, shown
from usfa.trajectory import Present

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
        self.network.requires_grad_(False).eval()
        self.training_tasks = np.array(file.training_tasks)
        self.sampler = parse_sampler(file.policies, self.training_tasks)
        acted_on = str(section(file.training, "learner").get("tasks", TASKS_OF_M[0]))
        self.learned = LearnedPolicies(self.training_tasks, self.sampler, acted_on)

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
        """Default rule: cautious if ψ was learned; gpi for exact tables and UVFAs, where cautious is the same."""
        return DEFAULT_RULE if self.actor.learns_psi else PAPER_RULE

    @property
    def accuracy(self) -> Accuracy | None:
        """Errors of ψ, measured after training; None if they were not measured."""
        return self.file.accuracy[self.file.seeds.index(self.seed)] if self.file.accuracy else None

    def candidates(
        self, w: NDArray[np.float64], candidates: Candidates | None, rng: np.random.Generator
    ) -> CandidateSet[NDArray[np.float64]]:
        """C for every task, w [..., D] -> z [..., N, D], with the measured errors of ψ."""
        chosen = self.default_candidates if candidates is None else candidates
        check_candidates(self.actor, chosen, "candidates")
        z = candidate_set(chosen, w, self.training_tasks, self.sampler, rng)
        if not self.actor.learns_psi:
            return CandidateSet.believed(z)
        accuracy = self.accuracy or assumed_accuracy(self.file.spec.features)
        return accuracy.of(z, self.distance(z))

    def distance(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Distance of policies z [..., D] from the learned ones, [...]."""
        return self.learned.distance(z)

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
        q = mask_illegal(q, None if legal is None else torch.from_numpy(np.array(legal, np.bool_)))
        result: NDArray[np.float32] = (q[0] if single else q).numpy()
        return result

    def _at_start(self, observation: object) -> tuple[Present, bool]:
        """Encode one observation or a batch as starts of episodes; also return whether it is a single one."""
        encoded = self.file.spec.observation.encode(observation)
        single = encoded.ndim == len(self.file.spec.observation.shape)
        return self.actor.at_start(torch.from_numpy(encoded[None] if single else encoded)), single

    @torch.no_grad()
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
        seed: int = 0,
    ) -> Policy:
        """A policy for a task, any real vector including negative entries, without further learning.

        Args:
            task: w, as [1, 1, -1, 0], "1,1,-1,0" or "11-10".
            candidates: C: "task", "train", "train+task", "sample:30" or an array [N, D]; by default
                :attr:`default_candidates`.
            rule: decision rule: "cautious", "gpi" (Eq. 3), "follow", or an object with a method `decide`; by default
                :attr:`default_rule`.
            seed: for "sample:N".
        """
        w = parse_task(task, self.file.spec.features)
        chosen = self.candidates(w, candidates, np.random.default_rng(seed))
        return Policy(self, w, chosen, parse_rule(self.default_rule if rule is None else rule))


class Policy:
    """Acts on one task without exploration. Call it with each observation; call `reset` when an episode starts."""

    def __init__(
        self, agent: TrainedAgent, w: NDArray[np.float64], candidates: CandidateSet[NDArray[np.float64]], rule: Rule
    ) -> None:
        self.agent = agent
        self.w = w
        self.z = candidates.z
        self.rule = rule
        self._task = task_tensor(w)[None]
        self._candidates = candidates.tensors().map(lambda values: values[None])
        self.reset()

    def reset(self) -> None:
        """Reset the core state for a new episode."""
        self._memory = self.agent.actor.initial_state(1)
        self._first = torch.ones(1, dtype=torch.bool)
        self._last_action = torch.zeros(1, dtype=torch.int64)
        self.decision: Decision | None = None
        """The last decision of the rule; each tensor has a first axis of length 1."""

    @torch.no_grad()
    def __call__(self, observation: object, legal: ArrayLike | None = None) -> int:
        """The action for this observation.

        Args:
            observation: an observation of the environment.
            legal: mask of legal actions; `info["action_mask"]` if the environment has one.
        """
        actor = self.agent.actor
        encoded = torch.from_numpy(actor.spec.observation.encode(observation)[None])
        if encoded.shape[1:] != actor.spec.observation.shape:
            raise InputError(f"The observation {observation!r} is a batch; expected one observation.")
        present = Present(encoded, self._last_action, self._mask(legal), self._first, self._memory)
        state = None if self.decision is None else self.decision.state
        self.decision, self._memory = actor.act(
            self.agent.network, present, self._task, self._candidates, self.rule, state
        )
        self._last_action = self.decision.action
        self._first = torch.zeros(1, dtype=torch.bool)
        return int(self._last_action)

    def _mask(self, legal: ArrayLike | None) -> torch.Tensor:
        spec = self.agent.actor.spec
        if legal is None and spec.masked:
            raise InputError(
                'legal is missing; expected info["action_mask"], because some actions of '
                f"{self.agent.file.environment!r} are illegal in some states."
            )
        mask = np.ones(spec.actions, np.bool_) if legal is None else np.array(legal, np.bool_)
        if mask.shape != (spec.actions,) or not mask.any():
            raise InputError(f"legal is {legal!r}; expected {spec.actions} entries, one per action, not all false.")
        return torch.from_numpy(mask[None])


def load_agent(directory: str | os.PathLike[str], seed: int | None = None, trust: bool = False) -> TrainedAgent:
    """Load the agent in a directory of :func:`save_agent`.

    Args:
        directory: an agent directory.
        seed: seed of the training run; by default the first.
        trust: whether to import modules that its file names, for classes of users.
    """
    file, weights = read_agent(Path(directory), trust)
    if seed is None:
        seed = file.seeds[0]
    if seed not in file.seeds:
        raise InputError(f"The agent in {directory} has no seed {seed}; expected one of {list(file.seeds)}.")
    run = file.seeds.index(seed)
    return TrainedAgent(file, {name: tensor[run] for name, tensor in weights.items()}, seed)

"""What an agent decides and why: the action, the trusted policy, its values and ψ, all from one network call."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import TrainedAgent
from usfa.decisions import CandidateSet, Gpi, Rule, RuleState, Situation
from usfa.functional import policy_actions
from usfa.trajectory import CoreState, Present

__all__ = ["Question", "Thought", "think"]


@dataclass(frozen=True)
class Question:
    """What to do here?"""

    agent: TrainedAgent
    observation: NDArray[np.generic]  # encoded
    legal: NDArray[np.bool_]  # [A]
    first: bool
    previous_action: int
    memory: CoreState  # each [1, ...]
    w: NDArray[np.float64]  # [D]
    candidates: CandidateSet[NDArray[np.float64]]  # z [N, D]
    rule: Rule
    rule_state: RuleState | None  # each [1, ...]; None when an episode starts


@dataclass(frozen=True)
class Thought:
    """The decision, and what it rests on."""

    action: int
    q: NDArray[np.float32]  # [A]  the values of actions that the rule compared; -inf where illegal
    trusted: int  # index in C of the policy that the rule follows or improves on
    improved: bool  # the action is not that policy's own
    values: NDArray[np.float32]  # [N]  the value of each policy in C under the rule, see _values
    psi: NDArray[np.float32]  # [D]  ψ(s, action, trusted z); of a UVFA its value, D = 1
    memory: CoreState  # each [1, ...], after this observation
    rule_state: RuleState  # each [1, ...], after this decision


def think(questions: Sequence[Question]) -> list[Thought]:
    """Answer all questions, with one network call for all that are put to the same agent."""
    thoughts: dict[int, Thought] = {}
    for rows in _grouped(id(question.agent) for question in questions):
        thoughts.update(zip(rows, _think_together([questions[row] for row in rows]), strict=True))
    return [thoughts[row] for row in range(len(questions))]


def _grouped(keys: Iterable[Hashable]) -> list[list[int]]:
    """The places of equal keys."""
    places: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return list(places.values())


@torch.no_grad()
def _think_together(questions: Sequence[Question]) -> list[Thought]:
    """One network call for all, then one decision for all that share a rule and a size of C."""
    agent = questions[0].agent
    w = torch.from_numpy(np.stack([question.w for question in questions])).float()
    situation, memory = agent.actor.situation(agent.parameters, _present(questions), w, _padded(questions))
    thoughts: dict[int, Thought] = {}
    for rows in _grouped((one.rule, one.rule_state is None, len(one.candidates.z)) for one in questions):
        asked = [questions[row] for row in rows]
        memories = [_row(memory, row) for row in rows]
        thoughts.update(zip(rows, _decide(asked, _rows(situation, rows, asked), memories), strict=True))
    return [thoughts[row] for row in range(len(questions))]


def _decide(questions: Sequence[Question], situation: Situation, memories: Sequence[CoreState]) -> list[Thought]:
    """Decisions of one rule."""
    rule = questions[0].rule
    decision = rule.decide(situation)
    values = _values(rule, situation)
    return [
        Thought(
            action=(action := int(decision.action[row])),
            q=decision.q[row].float().numpy(),
            trusted=(trusted := int(decision.policy[row])),
            improved=bool(decision.improved[row]),
            values=values[row].float().numpy(),
            psi=situation.psi[row, trusted, action].float().numpy(),
            memory=memory,
            rule_state=_row(decision.state, row),
        )
        for row, memory in enumerate(memories)
    ]


def _values(rule: Rule, situation: Situation) -> Tensor:
    """The value of each policy under a rule, [B, N].

    Under Eq. 3 it is that of z's best action on w, max_a ψ(s,a,z)·w; under other rules that of following z,
    ψ(s,π_z(s),z)·w less the rule's doubt about z. The doubt is found by letting the rule decide with each z alone.
    """
    psi, w, z, legal, step_error, optimism, _ = situation
    size = z.shape[1]
    alone = Situation(
        psi.flatten(0, 1)[:, None],
        w.repeat_interleave(size, dim=0),
        z.flatten(0, 1)[:, None],
        legal.repeat_interleave(size, dim=0),
        step_error.repeat_interleave(size, dim=0),
        optimism.flatten()[:, None],
    )
    q = rule.decide(alone).q.unflatten(0, z.shape[:2])  # [B, N, A]
    if isinstance(rule, Gpi):
        return q.amax(dim=-1)
    return q.take_along_dim(policy_actions(psi, z, legal)[..., None], dim=-1).squeeze(-1)


def _present(questions: Sequence[Question]) -> Present:
    return Present(
        observation=torch.from_numpy(np.stack([question.observation for question in questions])),
        previous_action=torch.tensor([question.previous_action for question in questions]),
        legal=torch.from_numpy(np.stack([question.legal for question in questions])),
        first=torch.tensor([question.first for question in questions]),
        core_state=_joined([question.memory for question in questions]),
    )


def _padded(questions: Sequence[Question]) -> CandidateSet[Tensor]:
    """The sets of all questions, [B, N, D]; :func:`_rows` removes the padding of smaller ones."""
    return CandidateSet.joined([one.candidates.map(lambda values: values[None]) for one in questions]).tensors()


def _rows(situation: Situation, rows: Sequence[int], questions: Sequence[Question]) -> Situation:
    """The part of a situation that belongs to some questions of one size of C, without padding."""
    size = len(questions[0].candidates.z)
    psi, w, z, legal, step_error, optimism = (values[list(rows)] for values in situation[:-1])
    states = [question.rule_state for question in questions if question.rule_state is not None]
    state = _joined(states) if states else None
    return Situation(psi[:, :size], w, z[:, :size], legal, step_error, optimism[:, :size], state)


def _joined(states: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(torch.cat(parts) for parts in zip(*states, strict=True))


def _row(state: tuple[Tensor, ...], row: int) -> tuple[Tensor, ...]:
    return tuple(part[row : row + 1] for part in state)

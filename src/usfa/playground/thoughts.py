"""Why an agent does what it does: values, the policy it trusts and ψ, all from the call that chose the action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import SfGpiTables, TrainedAgent, UsfaAgent
from usfa.functional import gpi, mask_illegal, q_values
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
    z: NDArray[np.float64]  # [N, D]


@dataclass(frozen=True)
class Thought:
    """The answer, and what it rests on."""

    action: int
    q: NDArray[np.float32]  # [A]  max_z Q(s,a,z); -inf where illegal
    trusted: int  # index in C of the z whose value made the action the best
    values: NDArray[np.float32]  # [N]  what each z promises: max_a ψ(s,a,z)·w over legal actions
    psi: NDArray[np.float32] | None  # [D]  ψ(s, action, trusted z); None for agents without successor features
    memory: CoreState  # each [1, ...], after this observation


def think(questions: Sequence[Question]) -> list[Thought]:
    """Answer all questions, with one network call for all that are put to the same agent."""
    together: dict[int, list[int]] = {}
    for index, question in enumerate(questions):
        together.setdefault(id(question.agent), []).append(index)
    thoughts: dict[int, Thought] = {}
    for indices in together.values():
        thoughts.update(zip(indices, _think_together([questions[i] for i in indices]), strict=True))
    return [thoughts[index] for index in range(len(questions))]


@torch.no_grad()
def _think_together(questions: Sequence[Question]) -> list[Thought]:
    agent = questions[0].agent
    present = _present(questions)
    w = torch.from_numpy(np.stack([question.w for question in questions])).float()
    if isinstance(agent.actor, UsfaAgent | SfGpiTables):
        psi, memory = agent.actor.step(agent.parameters, present, _padded(questions))
        w = w.to(psi)
        decided = gpi(psi, w, present.legal)
        values = mask_illegal(q_values(psi, w), present.legal[:, None]).amax(dim=-1)
        return [
            Thought(
                action=(action := int(decided.action[index])),
                q=decided.q_max[index].float().numpy(),
                trusted=(trusted := int(decided.policy[index])),
                values=values[index, : len(question.z)].float().numpy(),
                psi=psi[index, trusted, action].float().numpy(),
                memory=_of_one(memory, index),
            )
            for index, question in enumerate(questions)
        ]
    q, memory = agent.actor.q_values(agent.parameters, present, w, w[:, None])
    q = mask_illegal(q, present.legal)
    return [
        Thought(int(row.argmax()), row.numpy(), 0, row.amax(dim=-1, keepdim=True).numpy(), None, _of_one(memory, index))
        for index, row in enumerate(q)
    ]


def _present(questions: Sequence[Question]) -> Present:
    return Present(
        observation=torch.from_numpy(np.stack([question.observation for question in questions])),
        previous_action=torch.tensor([question.previous_action for question in questions]),
        legal=torch.from_numpy(np.stack([question.legal for question in questions])),
        first=torch.tensor([question.first for question in questions]),
        core_state=tuple(torch.cat(parts) for parts in zip(*(question.memory for question in questions), strict=True)),
    )


def _padded(questions: Sequence[Question]) -> Tensor:
    """[B, N, D]: smaller sets repeat their last policy, which changes no maximum and wins no tie."""
    most = max(len(question.z) for question in questions)
    rows = [question.z[np.minimum(np.arange(most), len(question.z) - 1)] for question in questions]
    return torch.from_numpy(np.stack(rows)).float()


def _of_one(memory: CoreState, index: int) -> CoreState:
    return tuple(part[index : index + 1] for part in memory)

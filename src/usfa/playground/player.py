"""A player: one agent with its memory, candidate set and decision rule, acting in an environment of its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from usfa.agents import TrainedAgent
from usfa.decisions import (
    DEFAULT_RULE,
    GAP_RULE,
    PAPER_RULE,
    RULES,
    SINGLE,
    CandidateSet,
    Loops,
    Rule,
    RuleState,
    Situation,
    leaves_loops,
    parse_rule,
    rule_name,
    task_tensor,
)
from usfa.errors import InputError, unknown_name
from usfa.functional import policy_actions
from usfa.playground.outbox import DecisionFrame, PlayerFrame
from usfa.playground.protocol import Candidates
from usfa.playground.views import EnvironmentView
from usfa.tasks import format_task
from usfa.trajectory import CoreState, Present

__all__ = ["Player", "PlayerDecision", "candidate_choices", "decide", "has_psi", "rule_choices"]

_RECENT_STEPS = 300
Item = TypeVar("Item")


@dataclass(frozen=True)
class PlayerDecision:
    """A decision and the values behind it, all from one network call."""

    action: int
    q: NDArray[np.float32]  # [A]  the values of actions that the rule compared; -inf where illegal
    trusted: int  # index in C of the policy that the rule follows or improves on
    improved: bool  # the action is not that policy's own
    values: NDArray[np.float32]  # [N]  the value of each policy in C under the rule, see _policy_values
    psi: NDArray[np.float32]  # [D]  ψ(s, action, trusted z); of a UVFA its value, D = 1
    memory: CoreState  # each [1, ...], after this observation
    rule_state: RuleState  # each [1, ...], after this decision


class Player:
    """An agent in an environment. In every state, :func:`decide` sets `decision` and :meth:`act` takes its action."""

    def __init__(
        self,
        name: str,
        agent: TrainedAgent,
        view: EnvironmentView,
        w: NDArray[np.float64],
        candidates: Candidates | None = None,
        rule: str | None = None,
        seed: int = 0,
    ) -> None:
        self.name, self.agent, self.view, self.w = name, agent, view, w
        self.candidates: Candidates = agent.default_candidates if candidates is None else candidates
        self.set_candidates(self.candidates)
        self.set_rule(agent.default_rule if rule is None else rule)
        self.reset(seed)

    # --- changes by the user: the player decides again, in the same state ---

    def set_task(self, w: NDArray[np.float64]) -> None:
        self.w = w
        self.candidate_set = self._candidate_set(self.candidates)
        self.decision: PlayerDecision | None = None
        self._loops: Loops | None = None

    def set_candidates(self, candidates: Candidates) -> None:
        """Replace C; InputError if the agent does not support the set."""
        self.candidate_set = self._candidate_set(candidates)
        self.candidates = candidates
        self._clear_decision()

    def set_rule(self, name: str) -> None:
        """Decide by the rule of this name; InputError unless it is built in, because names come from the page."""
        if name.partition(":")[0] not in {*RULES, SINGLE}:
            raise unknown_name("rule", name, RULES)
        self.rule = parse_rule(name)
        self._clear_decision()

    def _clear_decision(self) -> None:
        """Drop the decision, the rule's state and the loops, whose values are those of the rule."""
        self.decision = None
        self._loops = None
        self.rule_state: RuleState | None = None  # each [1, ...]; None when an episode starts

    def _candidate_set(self, candidates: Candidates) -> CandidateSet[NDArray[np.float64]]:
        if not self.agent.actor.learns_psi and candidates not in candidate_choices(self.agent):
            raise InputError(
                f"A {self.agent.file.kind} agent cannot have the candidates {candidates!r}; expected "
                f"{candidate_choices(self.agent)[0]!r}."
            )
        if isinstance(candidates, str) and candidates.startswith("sample:") and candidates[7:] not in {"5", "30"}:
            raise InputError(f"The candidates are {candidates!r}; expected sample:5 or sample:30 in the playground.")
        # The same noise for every task, so that a sampled set moves with the sliders.
        return self.agent.candidates(self.w, candidates, np.random.default_rng(0))

    # --- an episode ---

    def reset(self, seed: int) -> None:
        """Begin an episode."""
        self.view.reset(seed)
        self._clear_decision()
        self.over, self.steps, self.returned = False, 0, 0.0
        self.improved = 0  # steps whose action was not the trusted policy's own
        self.collected = np.zeros(len(self.w))
        self.recent: list[NDArray[np.float64]] = []  # φ of the last steps
        self.memory = self.agent.actor.initial_state(1)  # each [1, ...]
        self.previous_action = 0

    def present(self) -> Present:
        """The current state, B = 1, without legal actions that only continue a loop."""
        present = Present(
            observation=torch.from_numpy(self.view.observation)[None],
            previous_action=torch.tensor([self.previous_action]),
            legal=torch.from_numpy(self.view.legal)[None],
            first=torch.tensor([self.steps == 0]),
            core_state=self.memory,
        )
        if not leaves_loops(self.rule):
            return present
        self._loops = self._loops or Loops(task_tensor(self.w)[None], self.agent.file.gamma)
        return present._replace(legal=torch.from_numpy(self._loops.avoid(present)))

    @property
    def needs_decision(self) -> bool:
        return self.decision is None and not self.over

    def act(self) -> None:
        """Take the action that was decided; does nothing when the episode is over."""
        if self.over or self.decision is None:
            return
        phi, self.over = self.view.step(self.decision.action)
        if self._loops is not None:
            q, action = torch.from_numpy(self.decision.q)[None], np.array([self.decision.action])
            self._loops.add(q, action, phi[None], np.array([self.over]))
        self.memory, self.previous_action = self.decision.memory, self.decision.action
        self.rule_state = self.decision.rule_state
        self.improved += self.decision.improved
        self.decision = None
        self.steps += 1
        self.collected += phi
        self.returned += float(phi @ self.w)
        self.recent = [*self.recent[1 - _RECENT_STEPS :], phi]

    # --- output ---

    @property
    def rule_name(self) -> str:
        return rule_name(self.rule)

    def policy_names(self) -> list[str]:
        """The shortest text of each policy in C; "w′" for that of the task itself."""
        names = [format_task(z.round(2)) for z in self.candidate_set.z]
        if self.candidates in ("task", "train+task"):
            names[-1] = "w′"
        return names

    def frame(self) -> PlayerFrame:
        """Everything about the current state."""
        return PlayerFrame(
            step=self.steps,
            over=self.over,
            collected=self.collected.round(3).tolist(),
            returned=round(self.returned, 4),
            improved=self.improved,
            decision=None if self.decision is None else self._decision_frame(self.decision),
            position=self.view.position(),
        )

    def intermediate_frame(self, share: float) -> PlayerFrame:
        """The position on the way to the current state."""
        return PlayerFrame(step=self.steps, position=self.view.position(share))

    def _decision_frame(self, decision: PlayerDecision) -> DecisionFrame:
        return DecisionFrame(
            action=decision.action,
            q=_rounded(decision.q),
            trusted=decision.trusted,
            improved=decision.improved,
            values=_rounded(decision.values),
            psi=_rounded(decision.psi) if has_psi(self.agent) else None,
        )


def _rounded(values: NDArray[np.float32]) -> list[float]:
    """Round to five digits, enough for a bar; -inf becomes null in JSON."""
    return [float(f"{value:.5g}") for value in values]


# --- choices that an agent supports ---


def candidate_choices(agent: TrainedAgent) -> list[str]:
    """Named candidate sets that the agent supports."""
    if agent.actor.learns_psi:
        return ["task", "train", "train+task", "sample:5", "sample:30"]
    return [agent.default_candidates]


def rule_choices(agent: TrainedAgent) -> list[str]:
    """Named rules that differ for the agent. A UVFA has one policy; with exact tables, caution changes nothing."""
    if not agent.actor.has_psi:
        return []
    return [name for name in RULES if agent.actor.learns_psi or name not in (DEFAULT_RULE, GAP_RULE)]


def has_psi(agent: TrainedAgent) -> bool:
    """Whether the agent has successor features."""
    return agent.actor.has_psi


# --- decisions of several players at once ---


@torch.inference_mode()
def decide(players: Sequence[Player]) -> None:
    """Set the decision of every player, with one network call per agent and one decision per rule and size of C."""
    for group in _grouped(players, lambda player: id(player.agent)):
        agent = group[0].agent
        w = task_tensor(np.stack([player.w for player in group]))
        sets = CandidateSet.joined([player.candidate_set.map(lambda values: values[None]) for player in group])
        situation, memory = agent.actor.situation(agent.network, _present(group), w, sets.tensors())
        for numbered in _grouped(list(enumerate(group)), lambda pair: _rule_key(pair[1])):
            rows, same_rule = [row for row, _ in numbered], [player for _, player in numbered]
            memories = [_row(memory, row) for row in rows]
            _decide_by_rule(same_rule, _rows_of(situation, rows, same_rule), memories)


def _grouped(items: Sequence[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _rule_key(player: Player) -> Hashable:
    return player.rule, player.rule_state is None, len(player.candidate_set.z)


def _decide_by_rule(players: Sequence[Player], situation: Situation, memories: Sequence[CoreState]) -> None:
    rule = players[0].rule
    decision = rule.decide(situation)
    values = _policy_values(rule, situation)
    for row, (player, memory) in enumerate(zip(players, memories, strict=True)):
        action, trusted = int(decision.action[row]), int(decision.policy[row])
        player.decision = PlayerDecision(
            action=action,
            q=decision.q[row].float().numpy(),
            trusted=trusted,
            improved=bool(decision.improved[row]),
            values=values[row].float().numpy(),
            psi=situation.psi[row, trusted, action].float().numpy(),
            memory=memory,
            rule_state=_row(decision.state, row),
        )


def _policy_values(rule: Rule, situation: Situation) -> Tensor:
    """The value of each policy under a rule, [B, N].

    Under Eq. 3 this is the value of z's best action on w, max_a ψ(s,a,z)·w. Under other rules it is the value of
    following z, ψ(s,π_z(s),z)·w, minus the rule's doubt about z, which shows when the rule decides with z alone.
    """
    psi, w, z, legal, step_error, optimism, horizon, gap_scale, _ = situation
    size = z.shape[1]
    alone = Situation(
        psi.flatten(0, 1)[:, None],
        w.repeat_interleave(size, dim=0),
        z.flatten(0, 1)[:, None],
        legal.repeat_interleave(size, dim=0),
        step_error.repeat_interleave(size, dim=0),
        optimism.flatten()[:, None],
        horizon.repeat_interleave(size),
        gap_scale.repeat_interleave(size),
    )
    q = rule.decide(alone).q.unflatten(0, z.shape[:2])  # [B, N, A]
    if rule_name(rule) == PAPER_RULE:
        return q.amax(dim=-1)
    return q.take_along_dim(policy_actions(psi, z, legal)[..., None], dim=-1).squeeze(-1)


def _present(players: Sequence[Player]) -> Present:
    states = [player.present() for player in players]
    return Present(
        observation=torch.cat([state.observation for state in states]),
        previous_action=torch.cat([state.previous_action for state in states]),
        legal=torch.cat([state.legal for state in states]),
        first=torch.cat([state.first for state in states]),
        core_state=_joined([state.core_state for state in states]),
    )


def _rows_of(situation: Situation, rows: Sequence[int], players: Sequence[Player]) -> Situation:
    """The rows of players with the same size of C, without the padding of their candidate sets."""
    size = len(players[0].candidate_set.z)
    psi, w, z, legal, step_error, optimism, horizon, gap_scale = (values[list(rows)] for values in situation[:-1])
    states = [player.rule_state for player in players if player.rule_state is not None]
    state = _joined(states) if states else None
    cut = psi[:, :size], w, z[:, :size], legal, step_error, optimism[:, :size]
    return Situation(*cut, horizon, gap_scale, state)


def _joined(states: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(torch.cat(parts) for parts in zip(*states, strict=True))


def _row(state: tuple[Tensor, ...], row: int) -> tuple[Tensor, ...]:
    return tuple(part[row : row + 1] for part in state)

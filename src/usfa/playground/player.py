"""A player: one agent with its memory, candidate set and decision rule, acting in a world of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from usfa.agents import TrainedAgent
from usfa.decisions import CandidateSet, RuleState, parse_rule, rule_name
from usfa.errors import InputError
from usfa.playground.frames import PlayerMoment, ThoughtMoment
from usfa.playground.protocol import Candidates
from usfa.playground.repertoire import candidate_choices, explains
from usfa.playground.thoughts import Question, Thought
from usfa.playground.worlds import World
from usfa.tasks import format_task

__all__ = ["Player"]

_KEPT_STEPS = 300


class Player:
    """At every instant it stands in a state, has thought about it or still has to, and then acts on that thought."""

    def __init__(
        self,
        agent: TrainedAgent,
        world: World,
        w: NDArray[np.float64],
        candidates: Candidates | None,
        seed: int,
        rule: str | None = None,
    ) -> None:
        self.agent, self.world = agent, world
        self.candidates: Candidates = agent.default_candidates if candidates is None else candidates
        self.thought: Thought | None = None
        self.w = w
        self.choose(self.candidates)
        self.choose_rule(agent.default_rule if rule is None else rule)
        self.reset(seed)

    # --- what visitors change; the thought is then thought anew, in the same state ---

    def set_task(self, w: NDArray[np.float64]) -> None:
        self.w = w
        self._candidate_set = self._policies(self.candidates)
        self.thought = None

    def choose(self, candidates: Candidates) -> None:
        """Set C; InputError if this agent cannot have it."""
        self._candidate_set = self._policies(candidates)
        self.candidates = candidates
        self._forget_decision()

    def choose_rule(self, name: str) -> None:
        """Decide by the rule of this name; InputError if there is none."""
        self._rule = parse_rule(name)
        self._forget_decision()

    def _forget_decision(self) -> None:
        """Decide again, with an empty rule state."""
        self.thought = None
        self._rule_state: RuleState | None = None

    def _policies(self, candidates: Candidates) -> CandidateSet[NDArray[np.float64]]:
        if self.agent.file.kind != "usfa" and candidates not in candidate_choices(self.agent):
            raise InputError(
                f"A {self.agent.file.kind} agent cannot have the candidates {candidates!r}; expected "
                f"{candidate_choices(self.agent)[0]!r}."
            )
        if isinstance(candidates, str) and candidates.startswith("sample:") and candidates[7:] not in {"5", "30"}:
            raise InputError(f"The candidates are {candidates!r}; expected sample:5 or sample:30 in the playground.")
        # The same noise at every task: while a slider moves, a sampled set moves along.
        return self.agent.candidates(self.w, candidates, np.random.default_rng(0))

    def reset(self, seed: int) -> None:
        """Begin an episode."""
        self.world.reset(seed)
        self._forget_decision()
        self.over, self.steps, self.returned = False, 0, 0.0
        self.improved = 0  # steps whose action was not the trusted policy's own
        self.collected = np.zeros(len(self.w))
        self.recent: list[NDArray[np.float64]] = []  # φ of the last steps
        self._memory = self.agent.actor.initial_state(1)
        self._previous_action = 0

    # --- thinking and acting ---

    @property
    def must_think(self) -> bool:
        return self.thought is None and not self.over

    def question(self) -> Question:
        return Question(
            self.agent,
            self.world.observation.copy(),
            self.world.legal.copy(),
            self.steps == 0,
            self._previous_action,
            self._memory,
            self.w,
            self._candidate_set,
            self._rule,
            self._rule_state,
        )

    def act(self) -> None:
        """Do what the thought says; does nothing when the episode is over."""
        if self.over or self.thought is None:
            return
        phi, self.over = self.world.step(self.thought.action)
        self._memory, self._previous_action = self.thought.memory, self.thought.action
        self._rule_state = self.thought.rule_state
        self.improved += self.thought.improved
        self.thought = None
        self.steps += 1
        self.collected += phi
        self.returned += float(phi @ self.w)
        self.recent = [*self.recent[1 - _KEPT_STEPS :], phi]

    # --- telling ---

    @property
    def z(self) -> NDArray[np.float64]:
        """C, [N, D]."""
        return self._candidate_set.z

    @property
    def rule(self) -> str:
        """The name of the rule."""
        return rule_name(self._rule)

    def policy_names(self) -> list[str]:
        """The shortest text of each policy in C; "w′" for that of the task itself."""
        names = [format_task(z.round(2)) for z in self.z]
        if self.candidates in ("task", "train+task"):
            names[-1] = "w′"
        return names

    def moment(self) -> PlayerMoment:
        """All there is to know about the present."""
        return PlayerMoment(
            step=self.steps,
            over=self.over,
            collected=self.collected.round(3).tolist(),
            returned=round(self.returned, 4),
            improved=self.improved,
            thought=None if self.thought is None else self._told(self.thought),
            place=self.world.place(),
        )

    def between(self, share: float) -> PlayerMoment:
        """On the way to the present: only where it is."""
        return PlayerMoment(step=self.steps, place=self.world.place(share))

    def _told(self, thought: Thought) -> ThoughtMoment:
        return ThoughtMoment(
            action=thought.action,
            q=_rounded(thought.q),
            trusted=thought.trusted,
            improved=thought.improved,
            values=_rounded(thought.values),
            psi=_rounded(thought.psi) if explains(self.agent) else None,
        )


def _rounded(values: NDArray[np.float32]) -> list[float]:
    """Five digits are enough for a bar; -inf becomes null in JSON."""
    return [float(f"{value:.5g}") for value in values]

"""Decision rules, which choose an action, and their names.

A rule is an object with one method, :meth:`Rule.decide`. Functions that take candidates also take a rule: a name, an
object of your own, or "module:Class".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from usfa.errors import InputError, unknown_name
from usfa.functional import Choice
from usfa.names import RULES, SINGLE
from usfa.registry import is_own, made, resolve, text_of

__all__ = [
    "DEFAULT_RULE",
    "GAP_RULE",
    "PAPER_RULE",
    "BuiltIn",
    "Cautious",
    "Decision",
    "Follow",
    "Gpi",
    "Rule",
    "RuleState",
    "Situation",
    "Steady",
    "decided",
    "parse_rule",
    "rule_name",
]

RuleState = tuple[Tensor, ...]
"""State of a rule within an episode, each tensor [B, ...]."""


class Situation(NamedTuple):
    """The input of a rule: B states, each with a task and a candidate set C."""

    psi: Tensor  # [B, N, A, D]  ψ(s,a,z) of every policy in C
    w: Tensor  # [B, D]        the tasks
    z: Tensor  # [B, N, D]     the policies in C
    legal: Tensor  # [B, A]        bool
    step_error: Tensor  # [B, D]        one-step error of ψ, see Accuracy.step_error
    optimism: Tensor  # [B, N]        overestimation by ψ of each policy, see Accuracy.optimism
    horizon: Tensor  # [B]           effective number of steps
    gap_scale: Tensor  # [B]           1 - action_gap, undoes advantage learning
    state: RuleState | None = None  # Decision.state of the previous step; None at the start of episodes


class Decision(NamedTuple):
    """The output of a rule."""

    action: Tensor  # [B]     int64
    policy: Tensor  # [B]     int64, index in C of the trusted z
    improved: Tensor  # [B]     bool, the action differs from that of the trusted policy
    q: Tensor  # [B, A]  the compared values, for display and for leaving loops, as returns on w; -inf where illegal
    state: RuleState = ()  # for the next step; () for a rule without state


@runtime_checkable
class Rule(Protocol):
    """Chooses actions. Its name in tables is the attribute `name`, or the name of its class."""

    def decide(self, situation: Situation) -> Decision:
        """Decide for B states at once."""
        ...


@dataclass(frozen=True)
class Gpi:
    """argmax_a max_{z∈C} ψ(s,a,z)·w: generalised policy improvement, Eq. 3."""

    name = "gpi"
    caution = 0.0
    improves = True

    def decide(self, situation: Situation) -> Decision:
        return _decided_by(self, situation)


@dataclass(frozen=True)
class Follow:
    """π_z(s) of the z whose policy has the largest value on w: policy selection without improvement.

    Values are reduced by the measured optimism, as in :class:`Cautious`.
    """

    name = "follow"
    caution = 1.0
    improves = False

    def decide(self, situation: Situation) -> Decision:
        return _decided_by(self, situation)


@dataclass(frozen=True)
class _WithCaution:
    """A rule that multiplies the measured errors of ψ by `caution`."""

    kind: ClassVar[str]
    improves: ClassVar[bool] = True
    caution: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.caution < math.inf:
            raise InputError(f"The caution is {self.caution!r}; expected a number from 0, where 1 is as measured.")

    @property
    def name(self) -> str:
        return self.kind if self.caution == 1 else f"{self.kind}:{self.caution:g}"

    def decide(self, situation: Situation) -> Decision:
        return _decided_by(self, situation)


@dataclass(frozen=True)
class Cautious(_WithCaution):
    """Follow the best policy, and improve on it only where the gain exceeds the measured error of ψ.

    The margin of an improving step is twice the error of ψ·w across z, because both compared values may be wrong. The
    value of a policy is reduced by its optimism, which grows with the distance from D_z. Both are measured after
    training (:class:`usfa.decisions.Accuracy`) and multiplied by `caution`. With an exact ψ, or a caution of 0, this
    is Eq. 3. For the theory see docs/decision-rules.md.
    """

    kind = "cautious"


@dataclass(frozen=True)
class Steady(_WithCaution):
    """Follow the best policy, and improve on it only where the gain is worth several times its cost.

    The cost of an action is its loss along z. Gains across z are divided by 1 + ρH, an estimate of how many times too
    large they are if ψ has an error of ρ in each of H steps. The values of policies are reduced by their optimism, as
    in :class:`Cautious`. The increase of differences between actions by advantage learning is undone. With an exact ψ,
    learned without advantage learning, this is Eq. 3. For the theory see docs/decision-rules.md.
    """

    kind = "steady"


BuiltIn = Gpi | Follow | Cautious | Steady
"""Rules that the compiled loop implements."""


def _decided_by(rule: Gpi | Follow | _WithCaution, situation: Situation) -> Decision:
    return Decision(*_compiled()(*situation[:-1], rule.caution, rule.improves, isinstance(rule, Steady)))


@cache
def _compiled() -> Callable[..., Choice]:
    """Import late, because numba takes half a second, and once, because an import takes as long as a decision."""
    from usfa.decisions.compiled import decide

    return decide


DEFAULT_RULE = "cautious"
GAP_RULE = "steady"
"""Default rule of agents that were trained with advantage learning."""
PAPER_RULE = "gpi"


def parse_rule(rule: str | Rule) -> Rule:
    """Make a rule from its name ("gpi", "follow", "cautious", "steady:0.5", "module:Class"), or return the object."""
    if not isinstance(rule, str):
        if isinstance(rule, type) or not isinstance(rule, Rule):
            raise InputError(f"The rule is {rule!r}; expected a name ({', '.join(RULES)}) or an object with decide().")
        return rule
    name, colon, argument = rule.partition(":")
    match name, colon:
        case "gpi", "":
            return Gpi()
        case "follow", "":
            return Follow()
        case "cautious" | "steady", _:
            kind = Cautious if name == Cautious.kind else Steady
            return kind(_caution(name, argument) if colon else 1.0)
        case "single", _:
            raise InputError(
                "The rule is 'single', which is only for evaluations, in hindsight; expected another rule."
            )
    if name in RULES:
        raise InputError(f"The rule is {rule!r}; expected {name!r}, which has no setting.")
    if is_own(rule):
        return made(rule, "rule", resolve(rule, "rule", _is_rule, "a class with a method decide"))
    raise unknown_name("rule", rule, RULES)


def _is_rule(cls: type) -> bool:
    return callable(getattr(cls, "decide", None))


def _caution(name: str, text: str) -> float:
    try:
        caution = float(text)
    except ValueError:
        caution = math.nan
    if not 0 <= caution < math.inf:
        raise InputError(f"The rule is '{name}:{text}'; expected a number from 0 after the colon, such as 0.5.")
    return caution


def decided(rule: Rule, situation: Situation) -> Decision:
    """Decide by a rule; raise InputError if a user-defined rule returns an invalid decision."""
    decision = rule.decide(situation)
    if isinstance(rule, BuiltIn):
        return decision
    batch, actions = situation.legal.shape
    wrong = ""
    if not isinstance(decision, Decision):
        wrong = f"a {type(decision).__name__}; expected a usfa.decisions.Decision"
    elif decision.action.shape != (batch,) or decision.action.dtype != torch.int64:
        found = f"{decision.action.dtype} of shape {tuple(decision.action.shape)}"
        wrong = f"actions that are {found}; expected torch.int64 of shape ({batch},)"
    elif bool(((decision.action < 0) | (decision.action >= actions)).any()):
        wrong = f"an action outside of 0 to {actions - 1}; expected one of these"
    elif bool((~situation.legal.gather(1, decision.action[:, None])[:, 0] & situation.legal.any(dim=1)).any()):
        wrong = "an illegal action; expected one that situation.legal allows"
    if wrong:
        raise InputError(f"The rule {rule_name(rule)!r} returned {wrong}.")
    return decision


def rule_name(rule: str | Rule) -> str:
    """Name of a rule in tables: its attribute `name`, or its class with the values of its fields."""
    if isinstance(rule, str):
        return SINGLE if rule == SINGLE else rule_name(parse_rule(rule))
    if hasattr(rule, "name"):
        return str(rule.name)
    try:
        return text_of(rule, "rule").partition(":")[2]
    except InputError:  # it cannot be saved, and need not be
        return type(rule).__name__

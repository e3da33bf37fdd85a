"""Decision rules: from approximate successor features of the policies in C to an action for a task w."""

from usfa.decisions.candidates import (
    Accuracy,
    CandidateSet,
    assumed_accuracy,
    candidate_set,
    task_tensor,
)
from usfa.decisions.loops import Loops, leaves_loops, loop_value
from usfa.decisions.rules import (
    DEFAULT_RULE,
    GAP_RULE,
    PAPER_RULE,
    BuiltIn,
    Cautious,
    Decision,
    Follow,
    Gpi,
    Rule,
    RuleState,
    Situation,
    Steady,
    decided,
    parse_rule,
    rule_name,
)
from usfa.names import CANDIDATE_SETS, RULES, SINGLE

__all__ = [
    "CANDIDATE_SETS",
    "DEFAULT_RULE",
    "GAP_RULE",
    "PAPER_RULE",
    "RULES",
    "SINGLE",
    "Accuracy",
    "BuiltIn",
    "CandidateSet",
    "Cautious",
    "Decision",
    "Follow",
    "Gpi",
    "Loops",
    "Rule",
    "RuleState",
    "Situation",
    "Steady",
    "assumed_accuracy",
    "candidate_set",
    "decided",
    "leaves_loops",
    "loop_value",
    "parse_rule",
    "rule_name",
    "task_tensor",
]

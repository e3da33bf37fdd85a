"""Decision rules: from approximate successor features of the policies in C to an action for a task w."""

from usfa.decisions.candidates import (
    CANDIDATE_SETS,
    Accuracy,
    CandidateSet,
    assumed_accuracy,
    candidate_set,
    task_tensor,
)
from usfa.decisions.rules import (
    DEFAULT_RULE,
    PAPER_RULE,
    RULES,
    SINGLE,
    Cautious,
    Decision,
    Follow,
    Gpi,
    Rule,
    RuleState,
    Situation,
    decided,
    parse_rule,
    rule_name,
)

__all__ = [
    "CANDIDATE_SETS",
    "DEFAULT_RULE",
    "PAPER_RULE",
    "RULES",
    "SINGLE",
    "Accuracy",
    "CandidateSet",
    "Cautious",
    "Decision",
    "Follow",
    "Gpi",
    "Rule",
    "RuleState",
    "Situation",
    "assumed_accuracy",
    "candidate_set",
    "decided",
    "parse_rule",
    "rule_name",
    "task_tensor",
]

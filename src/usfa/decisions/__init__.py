"""Decision rules: from inexact successor features of the policies in C to an action for a task w."""

from usfa.decisions.accuracy import Accuracy, CandidateSet, assumed_accuracy
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
    "decided",
    "parse_rule",
    "rule_name",
]

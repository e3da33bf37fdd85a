"""Agents -> tables of scores, and statistics of such tables."""

from usfa.evaluation.accuracy import LearnedPolicies, accuracy_of, measured_accuracy
from usfa.evaluation.bounds import bound_table
from usfa.evaluation.diagnosis import Diagnosis, diagnose
from usfa.evaluation.episodes import EpisodeBatch, Moment, acting, environments_of, repeated
from usfa.evaluation.evaluate import evaluate
from usfa.evaluation.exact import decision_tables, exact_mdp, exact_scores
from usfa.evaluation.fronts import (
    environment_front,
    front_indicators,
    front_of,
    known_front,
    known_table,
    read_known_table,
    reference_point,
)
from usfa.evaluation.scores import SCORE_COLUMNS, read_scores, score_table, write_table
from usfa.evaluation.scoring import Scores, ScoringProtocol, score
from usfa.evaluation.statistics import Summary, bootstrap_interval, interquartile_mean, summarise

__all__ = [
    "SCORE_COLUMNS",
    "Diagnosis",
    "EpisodeBatch",
    "LearnedPolicies",
    "Moment",
    "Scores",
    "ScoringProtocol",
    "Summary",
    "accuracy_of",
    "acting",
    "bootstrap_interval",
    "bound_table",
    "decision_tables",
    "diagnose",
    "environment_front",
    "environments_of",
    "evaluate",
    "exact_mdp",
    "exact_scores",
    "front_indicators",
    "front_of",
    "interquartile_mean",
    "known_front",
    "known_table",
    "measured_accuracy",
    "read_known_table",
    "read_scores",
    "reference_point",
    "repeated",
    "score",
    "score_table",
    "summarise",
    "write_table",
]

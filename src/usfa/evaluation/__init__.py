"""Agents -> tables of scores, and statistics of such tables."""

from usfa.evaluation.accuracy import accuracy_of, measured_accuracy, measuring_steps
from usfa.evaluation.diagnosis import Diagnosis, diagnose
from usfa.evaluation.episodes import EpisodeBatch, acting, environments_of, repeated
from usfa.evaluation.exact import bound_table, decision_tables, exact_mdp, exact_scores
from usfa.evaluation.fronts import (
    environment_front,
    front_indicators,
    front_of,
    known_front,
    known_table,
    read_known_table,
    reference_point,
)
from usfa.evaluation.score import Scorer, Scores, ScoringProtocol, evaluate
from usfa.evaluation.statistics import Summary, bootstrap_interval, interquartile_mean, summarise
from usfa.evaluation.table import SCORE_COLUMNS, csv_bytes, read_scores, score_table, write_table

__all__ = [
    "SCORE_COLUMNS",
    "Diagnosis",
    "EpisodeBatch",
    "Scorer",
    "Scores",
    "ScoringProtocol",
    "Summary",
    "accuracy_of",
    "acting",
    "bootstrap_interval",
    "bound_table",
    "csv_bytes",
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
    "measuring_steps",
    "read_known_table",
    "read_scores",
    "reference_point",
    "repeated",
    "score_table",
    "summarise",
    "write_table",
]

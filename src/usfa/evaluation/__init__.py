"""Agents -> tables of scores, and statistics of such tables."""

from usfa.evaluation.evaluate import evaluate
from usfa.evaluation.exact import exact_mdp, exact_scores
from usfa.evaluation.scores import SCORE_COLUMNS, read_scores, score_table, write_scores
from usfa.evaluation.statistics import Summary, bootstrap_interval, interquartile_mean, summarise

__all__ = [
    "SCORE_COLUMNS",
    "Summary",
    "bootstrap_interval",
    "evaluate",
    "exact_mdp",
    "exact_scores",
    "interquartile_mean",
    "read_scores",
    "score_table",
    "summarise",
    "write_scores",
]

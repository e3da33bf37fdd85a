"""Agents -> tables of scores, and statistics of such tables."""

from usfa.evaluation.bounds import bound_table
from usfa.evaluation.evaluate import evaluate
from usfa.evaluation.exact import exact_mdp, exact_scores, greedy_tables
from usfa.evaluation.scores import SCORE_COLUMNS, read_scores, score_table, write_table
from usfa.evaluation.scoring import Protocol, Scores, score
from usfa.evaluation.statistics import Summary, bootstrap_interval, interquartile_mean, summarise

__all__ = [
    "SCORE_COLUMNS",
    "Protocol",
    "Scores",
    "Summary",
    "bootstrap_interval",
    "bound_table",
    "evaluate",
    "exact_mdp",
    "exact_scores",
    "greedy_tables",
    "interquartile_mean",
    "read_scores",
    "score",
    "score_table",
    "summarise",
    "write_table",
]

"""Experiments: configurations, the paper's settings as presets, run directories, and the paper's sections end to end."""

from usfa.experiments.config import EvaluationConfig, TrainConfig
from usfa.experiments.library import SHIPPED_AGENTS, load
from usfa.experiments.presets import PRESETS, preset
from usfa.experiments.run_directory import RunDirectory
from usfa.experiments.training import train

__all__ = [
    "PRESETS",
    "SHIPPED_AGENTS",
    "EvaluationConfig",
    "RunDirectory",
    "TrainConfig",
    "load",
    "preset",
    "train",
]

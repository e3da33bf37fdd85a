"""Experiments: configurations, presets with the paper's settings, run directories, whole sections of the paper."""

from usfa.experiments.config import EvaluationConfig, TrainConfig
from usfa.experiments.library import SHIPPED_AGENTS, load, measure_and_save
from usfa.experiments.presets import PRESETS, preset
from usfa.experiments.run_directory import RunDirectory
from usfa.experiments.settings import settings_for
from usfa.experiments.training import build_agent, train

__all__ = [
    "PRESETS",
    "SHIPPED_AGENTS",
    "EvaluationConfig",
    "RunDirectory",
    "TrainConfig",
    "build_agent",
    "load",
    "measure_and_save",
    "preset",
    "settings_for",
    "train",
]

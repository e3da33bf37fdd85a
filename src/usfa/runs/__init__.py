"""Training runs: configurations, presets with the paper's settings, run directories, training, loading."""

from usfa.runs.callbacks import Callback, TensorBoard, Training, WeightsAndBiases
from usfa.runs.config import EvaluationConfig, TrainConfig, load_features
from usfa.runs.directory import RunDirectory
from usfa.runs.exporting import ONNX_FILE, export
from usfa.runs.features import PHI_LEARNERS, FeaturesConfig, learn_features
from usfa.runs.loading import SHIPPED_AGENTS, load, measure_and_save
from usfa.runs.presets import PRESETS, preset
from usfa.runs.settings import settings_for
from usfa.runs.training import build_agent, train

__all__ = [
    "ONNX_FILE",
    "PHI_LEARNERS",
    "PRESETS",
    "SHIPPED_AGENTS",
    "Callback",
    "EvaluationConfig",
    "FeaturesConfig",
    "RunDirectory",
    "TensorBoard",
    "TrainConfig",
    "Training",
    "WeightsAndBiases",
    "build_agent",
    "export",
    "learn_features",
    "load",
    "load_features",
    "measure_and_save",
    "preset",
    "settings_for",
    "train",
]

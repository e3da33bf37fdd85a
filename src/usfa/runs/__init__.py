"""Training runs: configurations, presets with the paper's settings, run directories, training, loading.

Modules are imported on first use, so that the help of commands does not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from usfa.names import SHIPPED_AGENTS

if TYPE_CHECKING:
    from usfa.runs.callbacks import Callback, TensorBoard, Training, WeightsAndBiases
    from usfa.runs.config import EvaluationConfig, TrainConfig, load_features
    from usfa.runs.directory import RunDirectory
    from usfa.runs.exporting import ONNX_FILE, export
    from usfa.runs.features import PHI_LEARNERS, FeaturesConfig, learn_features
    from usfa.runs.loading import load, measure_and_save
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

_EXPORTS = {
    "callbacks": ("Callback", "TensorBoard", "Training", "WeightsAndBiases"),
    "config": ("EvaluationConfig", "TrainConfig", "load_features"),
    "directory": ("RunDirectory",),
    "exporting": ("ONNX_FILE", "export"),
    "features": ("PHI_LEARNERS", "FeaturesConfig", "learn_features"),
    "loading": ("load", "measure_and_save"),
    "presets": ("PRESETS", "preset"),
    "settings": ("settings_for",),
    "training": ("build_agent", "train"),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

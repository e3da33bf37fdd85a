"""A configuration with some settings changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from usfa.runs import TrainConfig


def changed(config: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    """Change settings of the learner, given by name, and of the network, given as "network.NAME"."""
    network = {name.removeprefix("network."): x for name, x in changes.items() if name.startswith("network.")}
    learner = {name: x for name, x in changes.items() if not name.startswith("network.")}
    return replace(config, learner=replace(config.learner, **learner), network=replace(config.network, **network))

"""Hypothesis runs the same examples everywhere: a red build can be repeated."""

from dataclasses import replace

import pytest
import torch
from hypothesis import settings

from usfa.runs import preset, train

settings.register_profile("repeatable", max_examples=50, deadline=None, derandomize=True)
settings.load_profile("repeatable")
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_config():
    """USFA on Trip: 40 episodes, 2 seeds, 4 snapshots besides the first."""
    config = preset("trip-usfa")
    return replace(
        config,
        seeds=(0, 1),
        learner=replace(config.learner, budget=40, replay_ratio=3, replay_capacity=20),
        evaluation=replace(config.evaluation, snapshots=4),
        checkpoint_every=15,
    )


@pytest.fixture(scope="session")
def tiny_run(tiny_config, tmp_path_factory):
    """A finished run of `tiny_config`; nobody changes it."""
    return train(tiny_config, tmp_path_factory.mktemp("runs") / "tiny")

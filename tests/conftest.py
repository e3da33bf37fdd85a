"""Hypothesis runs the same examples everywhere: a red build can be repeated."""

import gc
from dataclasses import replace

import pytest
from hypothesis import settings

from undrawn import write_lines

settings.register_profile("repeatable", max_examples=50, deadline=None, derandomize=True)
settings.load_profile("repeatable")
gc.disable()  # while modules are imported and tests are collected, which makes no garbage


LONGEST = ("test_site.py", "test_examples.py", "test_reproduce_room.py")
"""Files that come first: one of them at the end would keep a core waiting."""


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_collection_finish():
    """Begin the tests. Not called in the process that only distributes them, which would wait for torch's import.

    The 400,000 objects that are there by now need no garbage collection, which would look at all of them every time.
    """
    import torch

    torch.set_num_threads(1)
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def tiny_config():
    """USFA on Trip: 40 episodes, 2 seeds, 4 snapshots besides the first."""
    from usfa.runs import preset

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
    from usfa.runs import train

    return train(tiny_config, tmp_path_factory.mktemp("runs") / "tiny")


@pytest.fixture
def undrawn(monkeypatch):
    """Files of figures have data in place of pictures."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", write_lines)

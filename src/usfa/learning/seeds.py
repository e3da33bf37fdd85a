"""The independent random streams of one seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

__all__ = ["ActingStreams", "Streams"]

ACTORS = 3  # the key of all actors' streams: spawn(3) below takes 0 to 2


class Streams:
    """What one process needs: weights, behaviour, and a seed for every environment."""

    def __init__(self, seed: int, environments: int) -> None:
        weights, behaviour, worlds = np.random.SeedSequence(seed).spawn(3)
        self.weights = torch.Generator().manual_seed(int(weights.generate_state(1, np.uint64)[0] >> np.uint64(1)))
        self.behaviour = np.random.default_rng(behaviour)
        self.environments = [int(state) for state in worlds.generate_state(environments)]


class ActingStreams:
    """What an actor needs, told apart by `key`: no two actors, nor two lives of one, see the same worlds."""

    def __init__(self, seed: int, environments: int, key: Sequence[int]) -> None:
        behaviour, worlds = np.random.SeedSequence(seed, spawn_key=(ACTORS, *key)).spawn(2)
        self.behaviour = np.random.default_rng(behaviour)
        self.environments = [int(state) for state in worlds.generate_state(environments)]

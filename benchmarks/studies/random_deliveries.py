"""Deliveries of ore on minecart by random actions, with and without repetition.

    python benchmarks/studies/random_deliveries.py [--steps 24000]

Repetition is in all environments here, not in a share of them.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from usfa.environments import source
from usfa.learning.exploration import Exploration

CARTS = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=24_000)
    words = parser.parse_args()
    for exponent in (None, 2.0, 1.5):
        ended, delivered = deliveries(exponent, words.steps)
        print(f"repeat_exponent {exponent}: {ended} episodes ended, {delivered} of them with ore")


def deliveries(exponent: float | None, steps: int) -> tuple[int, int]:
    """Number of episodes that ended, and of those that delivered ore, in a number of random steps."""
    batch = source("minecart-v0").batch(list(range(CARTS)), 1.0)
    exploration, rng = Exploration((1, CARTS), exponent), np.random.default_rng(0)
    greedy = np.zeros((1, CARTS), np.int64)
    ended = delivered = 0
    for _ in range(steps // CARTS):
        step = batch.step(exploration.actions(greedy, batch.legal[None], batch.first[None], 1.0, [rng])[0])
        ended += int(step.ended.sum())
        delivered += int((step.episode_phi[step.ended, :2].sum(axis=1) > 0).sum())
    batch.close()
    return ended, delivered


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of MO-Gymnasium
        main()

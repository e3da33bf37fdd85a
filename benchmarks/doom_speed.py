"""Steps per second of the room on ViZDoom: one room, 84×84, drawing and copying included, on one core.

python benchmarks/doom_speed.py [--seconds 5]
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

from usfa.environments.doom import DoomRoom


def doom_steps_per_second(seconds: float) -> float:
    """The best of five rounds that take `seconds` together; random actions, episodes of a minute, resets included."""
    with _one_core():
        env = DoomRoom(image_size=84)
        try:
            env.reset(seed=0)
            return max(_round(env, seconds / 5) for _ in range(5))
        finally:
            env.close()


def _round(env: DoomRoom, seconds: float) -> float:
    actions = np.random.default_rng(0).integers(len(env.action_names), size=env.rules.decisions).tolist()
    started, steps, truncated = time.perf_counter(), 0, True
    while time.perf_counter() - started < seconds:
        if truncated:
            env.reset()
        truncated = env.step(actions[steps % len(actions)])[3]
        steps += 1
    return steps / (time.perf_counter() - started)


class _one_core:
    """Keeps this process and its children on one core, if the system supports it."""

    def __enter__(self) -> None:
        self._before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        if self._before:
            os.sched_setaffinity(0, {max(self._before)})

    def __exit__(self, *_: object) -> None:
        if self._before:
            os.sched_setaffinity(0, self._before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    speed = doom_steps_per_second(parser.parse_args().seconds)
    print(f"ViZDoom, one room, 84×84: {speed:,.0f} steps/s.")


if __name__ == "__main__":
    main()

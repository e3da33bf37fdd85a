"""Steps per second of the room, drawing included, on one core; also of ViZDoom and MiniWorld if they are installed.

    python benchmarks/room_speed.py [--rooms 64] [--rounds 100]

All are measured in turn within each round and the best round counts, because machines are noisy.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

WANTED, WANTED_RATIO, WANTED_OVER_VIZDOOM = 25_000, 3.0, 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core, for the engine's process as well
    runners: dict[str, Callable[[], int]] = {
        "room 84×84": room_steps(arguments.rooms, 84),
        "room 42×42": room_steps(arguments.rooms, 42),
    }
    for name, make in (("ViZDoom 84×84", vizdoom_steps), ("MiniWorld 80×60", miniworld_steps)):
        runner = make()
        if runner is None:
            print(f"{name:16} not installed")
        else:
            runners[name] = runner
    best = dict.fromkeys(runners, 0.0)
    for _ in range(arguments.rounds):
        for name, runner in runners.items():
            best[name] = max(best[name], _rate(runner))
    for name, rate in best.items():
        print(f"{name:16} {rate:10,.0f} steps/s")
    print(f"84×84: {best['room 84×84']:,.0f} steps/s (wanted: at least {WANTED:,})")
    ratio = best["room 42×42"] / best["room 84×84"]
    print(f"42×42 is {ratio:.2f} times as fast as 84×84 (wanted: at least {WANTED_RATIO})")
    colds, warms = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            colds.append(first_frame_seconds(cache))
            warms.append(first_frame_seconds(cache))
    cold, warm = min(colds), min(warms)
    print(f"first frame after {warm:.2f} s with a warm cache (wanted: below 1), {cold:.2f} s cold (wanted: below 5)")
    if "ViZDoom 84×84" in best:
        ratio = best["room 84×84"] / best["ViZDoom 84×84"]
        print(f"room is {ratio:.1f} times as fast as ViZDoom (wanted: at least {WANTED_OVER_VIZDOOM})")


def first_frame_seconds(cache: str) -> float:
    """Seconds from the start of the import to the first observation, in a new process."""
    code = (
        "import time; started = time.perf_counter()\n"
        "from usfa.environments import make; make('room').reset(seed=0)\n"
        "print(time.perf_counter() - started)"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _rate(runner: Callable[[], int]) -> float:
    started = time.perf_counter()
    steps = runner()
    return steps / (time.perf_counter() - started)


def room_steps(rooms: int, image_size: int, calls: int = 10) -> Callable[[], int]:
    """A function that takes random actions in `rooms` rooms and returns the number of steps."""
    from usfa.environments.room import RoomBatch

    batch = RoomBatch(rooms, image_size=image_size)
    actions = np.random.default_rng(0).integers(batch.actions, size=(calls, rooms))

    def run() -> int:
        for action in actions:
            batch.step(action)
        return calls * rooms

    run()
    return run


def vizdoom_steps(steps: int = 100) -> Callable[[], int] | None:
    """The same room on ViZDoom, one environment on one core; None without the extra `doom`."""
    if importlib.util.find_spec("vizdoom") is None or importlib.util.find_spec("usfa.environments.doom") is None:
        return None
    from usfa.environments import make

    return _environment_steps(make("room-doom"), steps)


def miniworld_steps(steps: int = 100) -> Callable[[], int] | None:
    """MiniWorld's room with one box, its most similar environment; None if it is not installed."""
    if importlib.util.find_spec("miniworld") is None:
        return None
    import gymnasium as gym
    import miniworld  # noqa: F401  registers its environments

    return _environment_steps(gym.make("MiniWorld-OneRoom-v0", disable_env_checker=True), steps)


def _environment_steps(env: object, steps: int) -> Callable[[], int]:
    import gymnasium as gym

    assert isinstance(env, gym.Env)
    assert isinstance(env.action_space, gym.spaces.Discrete)
    actions = np.random.default_rng(0).integers(env.action_space.n, size=steps)
    env.reset(seed=0)

    def run() -> int:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(int(action))
            if terminated or truncated:
                env.reset()
        return steps

    run()
    return run


if __name__ == "__main__":
    main()

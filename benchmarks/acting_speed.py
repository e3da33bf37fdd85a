"""Steps per second of the README's three lines in a plain script, while another core is busy.

    python benchmarks/acting_speed.py [--busy 1] [--windows 10] [--seconds 1]

The script is the code block of the README and a loop, in a process without variables such as OMP_NUM_THREADS, while
other processes spin, one per busy core. Each window counts the steps in some seconds: of `policy(observation)` alone,
then with the step of the room. Look at the best window: the others shared their core with other jobs of the machine,
whose load average is printed too. Expected: at least 1,000 steps/s with one busy core.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"

LOOP = """
import json
import time

def steps_per_second(step, seconds):
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        step()
        steps += 1
    return steps / (time.perf_counter() - start)

room = Room(image_size=42)
room.reset(seed=0)

def act_and_step():
    global observation
    observation, _, terminated, truncated, _ = room.step(policy(observation))
    if terminated or truncated:
        observation, _ = room.reset()
        policy.reset()

steps_per_second(act_and_step, 1.0)  # to warm up: kernels are compiled, caches filled
acting = [steps_per_second(lambda: policy(observation), {seconds}) for _ in range({windows})]
with_room = [steps_per_second(act_and_step, {seconds}) for _ in range({windows})]
print(json.dumps([acting, with_room]))
"""


def three_lines() -> str:
    """The code block under "Three lines" in the README."""
    found = re.search(r"## Three lines\s+```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def plain_environment() -> dict[str, str]:
    """The environment variables without those that set numbers of threads."""
    return {name: value for name, value in os.environ.items() if not re.match(r"OMP_|MKL_|OPENBLAS_|KMP_|GOMP_", name)}


def measure(busy: int, windows: int, seconds: float) -> list[list[float]]:
    """Steps per second in each window: of the policy alone, and with the room."""
    script = three_lines() + LOOP.format(seconds=seconds, windows=windows)
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        command = [sys.executable, "-c", script]
        printed = subprocess.run(command, env=plain_environment(), check=True, stdout=subprocess.PIPE, text=True)
    finally:
        for process in spinning:
            process.kill()
            process.wait()
    results: list[list[float]] = json.loads(printed.stdout)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=int, default=1)
    parser.add_argument("--windows", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    before = os.getloadavg()[0]
    results = measure(options.busy, options.windows, options.seconds)
    load = f"load average {before:.1f} before, {os.getloadavg()[0]:.1f} after"
    print(f"{os.cpu_count()} cores, {options.busy} spinning; {load}")
    for name, windows in zip(("policy(observation)", "with the room's step"), results, strict=True):
        print(f"  {name:21s} best {max(windows):,.0f}, median {sorted(windows)[len(windows) // 2]:,.0f} steps/s")


if __name__ == "__main__":
    main()

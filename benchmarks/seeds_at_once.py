"""Speed of ten training runs at once relative to one after another, and the network's share of the time.

    python benchmarks/seeds_at_once.py [--episodes 1000]

Ratios of times measured in one process, the shortest of several rounds, because machines are noisy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import torch

from usfa.learning import Learner
from usfa.runs import TrainConfig, build_agent, preset

RUNS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config = preset("trip-usfa")
    config = replace(config, learner=replace(config.learner, budget=arguments.episodes))
    one, ten = [], []
    for _ in range(arguments.rounds):
        one.append(_seconds(lambda: _train(_learner(config, 1))))
        ten.append(_seconds(lambda: _train(_learner(config, RUNS))))
    ratio = min(ten) / min(one)
    print(f"Trip, USFA, {arguments.episodes} episodes: {RUNS} runs at once take {ratio:.2f} times as long as one run.")
    print(f"Against one after another that is {RUNS / ratio:.1f} times faster (wanted: below 3.00 times one run).")
    print(f"The bare network takes {100 * _network_share(config):.0f} % of the time of ten runs.")


def _train(learner: Learner) -> None:
    while not learner.done:
        learner.step()


def _learner(config: TrainConfig, runs: int) -> Learner:
    return Learner(build_agent(config), config.learner, config.environments, config.tasks, tuple(range(runs)))


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _network_share(config: TrainConfig) -> float:
    """Share of the time spent in values for acting, the loss, its gradient and Adam."""
    learner = _learner(config, RUNS)
    inside = [0.0]
    _count(learner.agent, "situation", inside)
    _count(learner, "_update", inside)
    total = _seconds(lambda: _train(learner))
    return inside[0] / total


def _count(owner: object, name: str, inside: list[float]) -> None:
    original = getattr(owner, name)

    def counted(*arguments: object) -> object:
        started = time.perf_counter()
        result = original(*arguments)
        inside[0] += time.perf_counter() - started
        return result

    setattr(owner, name, counted)


if __name__ == "__main__":
    main()

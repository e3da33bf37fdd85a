"""The cost of a decision rule: its share of the time of acting in the room.

    python benchmarks/rule_cost.py [--steps 60]

Acting is a step of the environments, the network and the rule. Shares are taken step by step, so that a slow
moment of the machine affects all parts of a step. Expected: at most 5 % for the cautious rule.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice

import numpy as np
import torch

from usfa.agents import TrainedAgent
from usfa.decisions import RULES, Decision, Rule, Situation, parse_rule
from usfa.evaluation import acting, environments_of, repeated
from usfa.runs import load


class Timed:
    """Measures the time of each decision of a rule."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.times: list[float] = []

    def decide(self, situation: Situation) -> Decision:
        start = time.perf_counter()
        decision = self.rule.decide(situation)
        self.times.append(time.perf_counter() - start)
        return decision


def share_of_deciding(agent: TrainedAgent, rule: str, candidates: str, rooms: int, steps: int) -> tuple[float, float]:
    """The share of acting time spent on decisions, and microseconds per decision of all rooms; medians over steps."""
    w = np.array([[1.0, 1.0, -1.0, 0.0]])
    chosen = agent.candidates(w, candidates, np.random.default_rng(0))
    batch = repeated(environments_of(agent, trust=False).batch(list(range(rooms)), gamma=1.0), w, chosen, rooms)
    timed, whole = Timed(parse_rule(rule)), []
    moments = acting(agent.actor, agent.network, batch, timed, 0.0, np.random.default_rng(0))
    start = time.perf_counter()
    for _ in islice(moments, steps):
        whole.append(time.perf_counter() - start)
        start = time.perf_counter()
    warm = steps // 4
    shares = np.array(timed.times[warm:]) / np.array(whole[warm:])
    return float(np.median(shares)), float(np.median(timed.times[warm:])) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    agent = load("room")
    print("share of acting in the room that is deciding, room-laptop's network")
    for rooms in (1, 64, 300):
        for candidates in ("train", "train+task", "sample:30"):
            cells = []
            for rule in RULES:
                share, micros = share_of_deciding(agent, rule, candidates, rooms, steps)
                cells.append(f"{rule} {share:.3f} ({micros:.0f} µs)")
            print(f"  {rooms:3d} rooms, C = {candidates:10s}  {'  '.join(cells)}")


if __name__ == "__main__":
    main()

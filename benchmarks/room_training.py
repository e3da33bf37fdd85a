"""Speed of training in the room relative to the bare network: the cost of environments, targets and buffers.

    python benchmarks/room_training.py [--presets room-laptop room-paper] [--minutes 4]

Bare network: the same acting and learning passes (T steps for all environments, then for every update forward, backward
and a step of Adam, and forward again where there is a target network) on random tensors: no environments, no targets,
no buffers. Also measured: the cost of n_z = 30 policies relative to one, in acting and in learning, and the cost of one
evaluation relative to the whole training. All parts of a preset are measured in turns, in one process, for the given
time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from usfa.agents import Agent
from usfa.decisions import CandidateSet, Gpi, candidate_set
from usfa.environments import RoomRules
from usfa.evaluation.episodes import acting, episode_batch
from usfa.learning import Learner, choose_device
from usfa.networks import Precision, autocast
from usfa.progress import progress_bar
from usfa.runs import TrainConfig, build_agent, preset
from usfa.samplers import parse_sampler
from usfa.tasks import parse_tasks
from usfa.trajectory import Inputs


class BareNetwork:
    """The network's share of a round of training."""

    def __init__(self, config: TrainConfig, agent: Agent, policies: int) -> None:
        self.config, self.agent = config, agent
        self.device = choose_device(config.device)
        self.precision: Precision = "bf16" if config.precision == "bf16" else "fp32"
        self.network = agent.make_network().to(self.device)
        self.optimizer = agent.optimizer(list(self.network.parameters()), 0.0)
        learner = config.learner
        learned = learner.environments * (1 + learner.replay_ratio)
        self.inputs = self._inputs(learner.trajectory_length + 1, learned)
        self.z = torch.randn(learned, policies, agent.spec.features, device=self.device)
        self.has_targets = learner.target_every is not None or learner.ema is not None

    def _inputs(self, steps: int, batch: int) -> Inputs:
        image = torch.randint(0, 256, (steps, batch, *self.agent.spec.observation.shape), dtype=torch.uint8)
        nothing = torch.zeros(steps, batch, dtype=torch.int64)
        return Inputs(*(x.to(self.device) for x in (image, nothing, nothing.bool())))

    def _unroll(self, inputs: Inputs, z: Tensor) -> Tensor:
        memory = tuple(x.to(self.device) for x in self.agent.initial_state(len(z)))
        with autocast(self.device, self.precision):
            values: Tensor = self.network(inputs, memory, z)[0]
            return values

    @torch.no_grad()
    def act(self) -> None:
        acting = self.config.learner.environments
        for t in range(self.config.learner.trajectory_length):
            self._unroll(Inputs(*(x[t : t + 1, :acting] for x in self.inputs)), self.z[:acting])

    def learn(self) -> None:
        parts = self.config.learner.updates_per_round
        for k, z in enumerate(self.z.chunk(parts)):
            inputs = Inputs(*(x.chunk(parts, dim=1)[k] for x in self.inputs))
            if self.has_targets:
                with torch.no_grad():
                    self._unroll(inputs, z)
            values = self._unroll(inputs, z)
            self.optimizer.zero_grad()
            values.sum().backward()
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.learner.clip or float("inf"))
            self.optimizer.step()

    def round(self) -> None:
        self.act()
        self.learn()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=["room-laptop", "room-paper"])
    parser.add_argument("--minutes", type=float, default=4.0, help="for each preset, by default %(default)g")
    chosen = parser.parse_args()
    for name in chosen.presets:
        config = preset(name)
        torch.set_num_threads(config.threads)
        measure(name, replace(config, precision="fp32"), 60 * chosen.minutes)


def measure(name: str, config: TrainConfig, duration: float) -> None:
    agent = build_agent(config)
    learner = Learner(agent, config.learner, config.environments, config.tasks, (0,), choose_device(config.device))
    many, one = BareNetwork(config, agent, config.learner.policies_per_step), BareNetwork(config, agent, 1)
    scoring = evaluation(config, agent)
    seconds = median_of_turns(
        name,
        {
            "training": learner.step,
            "scoring": lambda: next(scoring),
            "bare": many.round,
            "act 30": many.act,
            "act 1": one.act,
            "learn 30": many.learn,
            "learn 1": one.learn,
        },
        duration,
    )
    frames = config.learner.environments * config.learner.trajectory_length
    decisions = RoomRules().decisions
    share = seconds["scoring"] * decisions / (seconds["training"] * config.learner.budget / frames)
    print(f"{name}: {frames / seconds['training']:,.0f} frames/s, bare network {frames / seconds['bare']:,.0f}")
    print(f"  training / bare network   {seconds['bare'] / seconds['training']:.2f}  (at least 0.88)")
    print(f"  one evaluation / training {share:.3f}  (all tasks, candidate sets and episodes, {decisions} decisions)")
    print(f"  learning, n_z = 30 / 1    {seconds['learn 30'] / seconds['learn 1']:.2f}  (at most 1.60)")
    print(f"  acting, n_z = 30 / 1      {seconds['act 30'] / seconds['act 1']:.2f}  (at most 1.30)")


def evaluation(config: TrainConfig, agent: Agent) -> Iterator[object]:
    """Iterate over steps in all batches of episodes that score one snapshot."""
    rng, sampler = np.random.default_rng(0), parse_sampler(config.learner.policies, config.tasks)
    network = agent.make_network()
    moments = []
    for tasks, candidates in product(config.evaluation.tasks, config.evaluation.candidates):
        w = parse_tasks(tasks, agent.spec.features)
        sets = CandidateSet.believed(candidate_set(candidates, w, config.tasks, sampler, rng))
        batch = episode_batch(config.environments, w, sets, config.evaluation.episodes, rng)
        moments.append(acting(agent, network, batch, Gpi(), config.evaluation.epsilon, rng))
    return zip(*moments, strict=True)


def median_of_turns(name: str, work: dict[str, Callable[[], object]], duration: float) -> dict[str, float]:
    """The median seconds of each function, measured in turns, so that a slow minute of the machine affects all alike.

    Args:
        name: for the progress bar.
        work: functions by name.
        duration: seconds for all turns. The first turn warms up, and determines how many more there is time for.
    """
    console = Console(stderr=True)
    console.print(f"{name}: warming up")
    start = time.perf_counter()
    _turn(work)
    turns = max(3, int(duration / (time.perf_counter() - start)) - 1)
    times = []
    with progress_bar(name, turns, "turns", console) as bar:
        for _ in range(turns):
            times.append(_turn(work))
            bar.advance(1)
    return {part: float(np.median([turn[part] for turn in times])) for part in work}


def _turn(work: dict[str, Callable[[], object]]) -> dict[str, float]:
    times = {}
    for part, function in work.items():
        start = time.perf_counter()
        function()
        times[part] = time.perf_counter() - start
    return times


if __name__ == "__main__":
    main()

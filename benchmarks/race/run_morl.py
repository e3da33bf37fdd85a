"""GPI-LS, GPI-PD and Envelope of morl-baselines in the race, with the settings of its own examples for the minecart.

Scoring hooks into the environment they train in, so that their training loops run as they are. What GPI-LS plays to
choose its next preference, after every iteration, is part of its training; what either would play only to log is
switched off.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ["WANDB_MODE"] = "disabled"

import gymnasium as gym
import numpy as np
import torch
from morl_baselines.common.evaluation import seed_everything
from morl_baselines.multi_policy.envelope.envelope import Envelope
from morl_baselines.multi_policy.gpi_pd.gpi_pd import GPILS, GPIPD
from numpy.typing import NDArray
from racing import Array, Contest, Memoryless, Player, Scorer, TimeIsUp, arguments

ENDLESS = 10**9  # steps; the clock ends the race
COMMON = {
    "learning_rate": 3e-4,
    "net_arch": [256, 256, 256, 256],
    "initial_epsilon": 1.0,
    "final_epsilon": 0.05,
    "learning_starts": 100,
    "log": False,
}
DECAY = 50_000  # steps in which ε falls to its end, in the examples
STEPS_PER_SECOND = {"gpi-ls": 30, "gpi-ls-1": 40, "gpi-pd": 20, "envelope": 60}  # roughly, for races by time
GRADIENT_UPDATES = 10  # per step after the first 5,000; the examples leave the number to the command line
FEW = 10  # preferences that they lay out for logs that are not written; a hundred take seconds


class Watched(gym.Wrapper[Any, Any, Any, Any]):
    """Counts the steps and lets the scorer look after each."""

    scorer: Scorer
    steps = 0  # in this environment, which are learned from
    tried = 0  # in the other one

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self.env.step(action)
        self.steps += 1
        self.scorer.look(self.steps, self.steps + self.tried)
        return result


class Counted(gym.Wrapper[Any, Any, Any, Any]):
    """The other environment, in which GPI-LS tries out its policies to choose the next preference."""

    def __init__(self, env: gym.Env[Any, Any], watched: Watched) -> None:
        super().__init__(env)
        self.watched = watched

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.watched.tried += 1
        return self.env.step(action)


@dataclass(frozen=True)
class Entry:
    """One racer in a contest."""

    contest: Contest
    algorithm: str
    seed: int
    began: float
    table: Path

    @property
    def kind(self) -> str:
        """The algorithm, whatever its schedule of ε."""
        return self.algorithm.removesuffix("-scaled")

    @property
    def decay(self) -> int:
        """Steps in which ε falls: those of the examples, or scaled, the first half of the race."""
        if self.algorithm == self.kind:
            return DECAY
        return (self.contest.steps or round(self.contest.seconds * STEPS_PER_SECOND[self.kind])) // 2

    def scorer(self, player: Player) -> Scorer:
        return Scorer(self.contest, player, self.seed, self.began, self.algorithm, self.table)


def main() -> None:
    contest, algorithm, seed, out = arguments()
    torch.set_num_threads(1)
    entry = Entry(contest, algorithm, seed, time.process_time(), out)
    seed_everything(seed)  # the agents do not seed all of their random numbers
    env = Watched(contest.make())
    env.reset(seed=seed)
    env.action_space.seed(seed)
    with suppress(TimeIsUp):
        RACERS[entry.kind](entry, env)
    env.scorer.finish()


def gpi_ls(entry: Entry, env: Watched, gradient_updates: int = GRADIENT_UPDATES) -> None:
    _by_gpi(GPILS, entry, env, gradient_updates=gradient_updates)


def gpi_pd(entry: Entry, env: Watched) -> None:
    """GPI-LS with a learned model: its Dyna steps are not steps of the environment."""
    _by_gpi(GPIPD, entry, env, gradient_updates=GRADIENT_UPDATES, dyna=True, gpi_pd=True)


def _by_gpi(kind: Any, entry: Entry, env: Watched, **own: Any) -> None:
    agent = kind(
        env,
        gamma=entry.contest.gamma,
        batch_size=128,
        buffer_size=200_000,
        per=True,  # release 1.3.0 fails without
        target_net_update_freq=200,
        max_grad_norm=None,
        seed=entry.seed,
        device="cpu",
        epsilon_decay_steps=entry.decay,
        **COMMON,
        **own,
    )
    env.scorer = entry.scorer(Memoryless(partial(act_by_gpi, agent)))
    env.scorer.look(0, 0)
    agent.train(
        total_timesteps=ENDLESS,
        eval_env=Counted(entry.contest.make(), env),
        ref_point=np.zeros(agent.reward_dim),
        num_eval_weights_for_front=FEW,
        timesteps_per_iter=10_000,
        checkpoints=False,
    )


def envelope(entry: Entry, env: Watched) -> None:
    agent = Envelope(
        env,
        gamma=entry.contest.gamma,
        batch_size=64,
        buffer_size=2_000_000,
        max_grad_norm=0.1,
        homotopy_decay_steps=10_000,
        gradient_updates=1,
        target_net_update_freq=1000,
        seed=entry.seed,
        device="cpu",
        epsilon_decay_steps=entry.decay,
        **COMMON,
    )
    env.scorer = entry.scorer(Memoryless(partial(act_by_own, agent.q_net)))
    env.scorer.look(0, 0)
    agent.train(total_timesteps=ENDLESS, num_eval_weights_for_front=FEW)


RACERS: dict[str, Callable[[Entry, Watched], None]] = {
    "gpi-ls": gpi_ls,
    "gpi-ls-1": partial(gpi_ls, gradient_updates=1),  # as many as Envelope
    "gpi-pd": gpi_pd,
    "envelope": envelope,
}


@torch.no_grad()
def act_by_gpi(agent: Any, seen: NDArray[Any], w: Array) -> NDArray[np.int64]:
    """What `agent.eval` does, for many at once: GPI over the preferences that it has trained on so far."""
    net = agent.q_nets[0]
    if not getattr(agent, "weight_support", None):
        return act_by_own(net, seen, w)
    net.eval()
    tasks, support = torch.from_numpy(w).float(), torch.stack(agent.weight_support)
    observation = torch.from_numpy(seen).float().repeat_interleave(len(support), dim=0)
    q = net(observation, support.repeat(len(w), 1)).unflatten(0, (len(w), len(support)))
    net.train()
    return torch.einsum("bpar,br->bpa", q, tasks).amax(dim=1).argmax(dim=-1).numpy()


@torch.no_grad()
def act_by_own(net: Any, seen: NDArray[Any], w: Array) -> NDArray[np.int64]:
    net.eval()
    tasks = torch.from_numpy(w).float()
    q = net(torch.from_numpy(seen).float(), tasks)
    net.train()
    return torch.einsum("bar,br->ba", q, tasks).argmax(dim=-1).numpy()


if __name__ == "__main__":
    main()

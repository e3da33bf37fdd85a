"""Differences between actions as ψ promises them, compared with those that one step shows.

    python benchmarks/studies/action_gaps.py [room docs/results/room-agents/six-seeds/runs/usfa-seed-0 …]

The policies of M are followed with three random actions in ten. For an action that a policy would not take, ψ promises
the difference ψ(s,a,z) - ψ(s,π_z(s),z), and one step shows φ + γψ(s′,π_z(s′),z) - ψ(s,π_z(s),z). The slope is that of
the least-squares line through 0 that predicts the second from the first: 1 if the promise is right on average,
1 - action_gap if advantage learning has made it larger. "Along z" is the feature of the task itself, "across z" are the
others. Results: docs/decision-rules.md.
"""

from __future__ import annotations

import argparse
from contextlib import closing

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from usfa.agents import TrainedAgent
from usfa.evaluation import environments_of
from usfa.functional import policy_actions, take_actions
from usfa.learning.rollout import Rollout
from usfa.networks import Runs
from usfa.paper.report import markdown_table
from usfa.runs import load
from usfa.trajectory import Trajectory, is_seam, tensors_of, trajectory_of

ENVIRONMENTS, STEPS, EPSILON = 96, 200, 0.3


@torch.no_grad()
def differences(agent: TrainedAgent) -> tuple[Tensor, Tensor, Tensor]:
    """Promised and shown differences [K, D] of K actions that a policy of M would not take, and the policies [K, D]."""
    trajectory = _followed(agent)
    z = torch.from_numpy(agent.training_tasks).float().expand(ENVIRONMENTS, -1, -1)
    psi, _ = agent.network(trajectory.inputs, trajectory.core_state, z)  # [T+1, B, N, A, D]
    own = policy_actions(psi, z, trajectory.legal)
    value = take_actions(psi, own)  # [T+1, B, N, D]
    action = trajectory.action[..., None].expand(own[:-1].shape)
    promised = take_actions(psi[:-1], action) - value[:-1]
    shown = trajectory.phi[:, :, None] + trajectory.discount[..., None, None] * value[1:] - value[:-1]
    others = (action != own[:-1]) & ~is_seam(trajectory)[..., None]
    return promised[others], shown[others], z.expand(promised.shape)[others]


def _followed(agent: TrainedAgent) -> Trajectory:
    rng = np.random.default_rng(0)
    tasks = torch.from_numpy(np.resize(agent.training_tasks, (ENVIRONMENTS, agent.file.spec.features))).float()
    batch = environments_of(agent, trust=False).batch(rng.integers(2**31, size=ENVIRONMENTS).tolist(), agent.file.gamma)
    with closing(batch):
        rollout = Rollout(agent.actor, Runs([agent.network]), batch, STEPS)
        collected = rollout.collect(tasks[None], tasks[None, :, None], EPSILON, [rng])
    return trajectory_of({name: x[0] for name, x in tensors_of(collected.trajectory).items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agents", nargs="*", default=["room"])
    torch.set_num_threads(1)
    rows = []
    for name in parser.parse_args().agents:
        promised, shown, z = differences(load(name))
        for part, mask in (("along z", z != 0), ("across z", z == 0)):
            x, y = promised[mask], shown[mask]
            slope = (x * y).sum() / x.square().sum()
            rest = (y - slope * x).square().mean().sqrt()
            rows.append((name, part, *(f"{float(value):.3f}" for value in (slope, y.square().mean().sqrt(), rest))))
    print(markdown_table(pd.DataFrame(rows, columns=["agent", "part", "slope", "shown, rms", "unexplained, rms"])))


if __name__ == "__main__":
    main()

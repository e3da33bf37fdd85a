"""Choice of the settings of the Trip presets, by policies drawn from D_z, see docs/trip.md.

    python benchmarks/studies/trip_settings.py

Every setting trains a USFA with 20 seeds that no published number uses. Prints the mean gap of the policies π_z on
their own tasks z, for 300 z ~ D_z = U([0,1]²), with the standard deviation over seeds.
"""

from __future__ import annotations

import numpy as np
import torch
from changing import changed

from usfa.decisions import CandidateSet, Gpi
from usfa.environments import trip_mdp
from usfa.evaluation import exact_scores
from usfa.functional import optimal_return
from usfa.learning import Learner
from usfa.runs import TrainConfig, build_agent, preset

SEEDS = tuple(range(100, 120))


def main() -> None:
    torch.set_num_threads(1)
    base = preset("trip-usfa")
    print(f"{'setting':44} mean gap   std")
    for ratio in (0, 7, 15):
        for epsilon in (0.1, 0.5, 0.75, 1.0):
            changes = {"replay_ratio": ratio, "epsilon": epsilon}
            _report(f"replay_ratio {ratio}, epsilon {epsilon}", changed(base, changes))
    for rate in (1e-3, 1e-2):
        _report(f"preset with learning rate {rate}", changed(base, {"learning_rate": rate}))
    for head in (32, 128):
        _report(f"preset with {head} units in the head", changed(base, {"network.head": (head,)}))


def _report(name: str, config: TrainConfig) -> None:
    gaps = _gaps(config)
    print(f"{name:44} {gaps.mean():.5f}   {gaps.std(ddof=1):.5f}", flush=True)


def _gaps(config: TrainConfig) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The mean gap of each seed over held-out policies."""
    agent = build_agent(config)
    learner = Learner(agent, config.learner, config.environments, config.tasks, SEEDS)
    while not learner.done:
        learner.step()
    mdp, z = trip_mdp(), np.random.default_rng(100).random((300, 2))
    own = CandidateSet.believed(z[:, None])
    networks = [learner.network.network(run) for run in range(len(SEEDS))]
    scores = np.stack([exact_scores(agent, network, mdp, z, own, Gpi()) for network in networks])
    return np.asarray((optimal_return(mdp, torch.from_numpy(z)).numpy() - scores).mean(axis=1))


if __name__ == "__main__":
    main()

"""usfa in the race, with the settings that `usfa train ENVIRONMENT` has by itself, but for γ and the budget."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from racing import Array, Contest, Scorer, TimeIsUp, arguments, write

from usfa.decisions import CandidateSet, Gpi
from usfa.environments import EnvironmentSource
from usfa.learning import Learner
from usfa.runs import build_agent, settings_for
from usfa.runs.settings import RANDOM_STEPS

FRAMES = {
    "deep-sea-treasure-v0": 400_000,
    "four-room-v0": 400_000,
    "fruit-tree-v0": 200_000,
    "minecart-v0": 2_500_000,
}
"""Budgets, which set the schedule of the learning rate; a quiet core needs less than the time of the full race."""


def main() -> None:
    contest, algorithm, seed, out = arguments()
    torch.set_num_threads(1)
    began = time.perf_counter()
    learner = make_learner(contest, seed)
    scorer = Scorer(contest, lambda seen, w: act(learner, seen, w), seed, began)
    with suppress(TimeIsUp), closing(learner):
        while True:
            steps = int(learner.frames[0])
            scorer.look(steps, steps + RANDOM_STEPS)
            if learner.done:  # the budget was used before the time was
                scorer.score(steps, steps + RANDOM_STEPS)
                break
            learner.step()
    write(out, contest, algorithm, seed, scorer)


def make_learner(contest: Contest, seed: int) -> Learner:
    config = settings_for(contest.environment, contest.arguments)
    config = replace(config, learner=replace(config.learner, gamma=contest.gamma, budget=FRAMES[contest.environment]))
    return Learner(build_agent(config), config.learner, EnvironmentSource(contest.make), config.tasks, [seed])


@torch.no_grad()
def act(learner: Learner, seen: NDArray[Any], w: Array) -> NDArray[np.int64]:
    """Greedy actions with C = {w}."""
    agent = learner.agent
    present = agent.at_start(torch.from_numpy(agent.spec.observation.encode(seen)))
    tasks = torch.from_numpy(w).float()
    own = CandidateSet.believed(tasks[:, None])
    decision, _ = agent.act(learner.best.network(0), present, tasks, own, Gpi())
    return decision.action.numpy()


if __name__ == "__main__":
    main()

"""usfa in the race, with the settings that `usfa train ENVIRONMENT --learner.gamma …` chooses for steps or minutes."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from racing import Array, Contest, Scorer, TimeIsUp, arguments

from usfa.decisions import CandidateSet, Gpi
from usfa.environments import source
from usfa.learning import Learner
from usfa.runs import build_agent, settings_for
from usfa.runs.settings import RANDOM_STEPS


def main() -> None:
    contest, algorithm, seed, out = arguments()
    torch.set_num_threads(1)
    began = time.process_time()
    learner, random_steps = make_learner(contest, seed)
    scorer = Scorer(contest, lambda seen, w: act(learner, seen, w), seed, began, algorithm, out)
    learner.now = time.process_time
    with suppress(TimeIsUp), closing(learner):
        while True:
            steps = int(learner.frames[0])
            if learner.done:  # the budget was used before the time was
                scorer.score(steps, steps + random_steps)
                break
            scorer.look(steps, steps + random_steps)
            learner.step()
    scorer.finish()


def make_learner(contest: Contest, seed: int) -> tuple[Learner, int]:
    """The learner that `usfa train` makes for the steps, or for the time, and its random steps before training."""
    began = time.process_time()
    minutes = contest.seconds / 60 if contest.steps is None else None
    config = settings_for(
        contest.environment, contest.arguments, frames=contest.steps, minutes=minutes, gamma=contest.gamma
    )
    random_steps, learner = RANDOM_STEPS, config.learner
    if contest.steps is not None:  # the random steps count, although they are not learned from
        random_steps = min(RANDOM_STEPS, contest.steps // 10)
        learner = replace(learner, budget=contest.steps - random_steps)
    else:  # the time that `usfa train` keeps for scoring, which is not counted here, is time for training
        learner = replace(learner, budget=max(1, int(contest.seconds - (time.process_time() - began))))
    config = replace(config, learner=learner)
    made = Learner(build_agent(config), learner, source(contest.make), config.tasks, [seed])
    return made, random_steps


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

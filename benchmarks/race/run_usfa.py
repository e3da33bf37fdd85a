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

from usfa.decisions import CandidateSet, Gpi, Loops, leaves_loops
from usfa.environments import source
from usfa.learning import Learner
from usfa.runs import build_agent, settings_for
from usfa.runs.settings import RANDOM_STEPS


def main() -> None:
    contest, algorithm, seed, out = arguments()
    torch.set_num_threads(1)
    began = time.process_time()
    learner, random_steps = make_learner(contest, seed)
    player = LearnerPlayer(learner, contest.gamma)
    others = {f"{algorithm}-loops-kept": LearnerPlayer(learner, contest.gamma, break_loops=False)}
    scorer = Scorer(contest, player, seed, began, algorithm, out, others)
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


class LearnerPlayer:
    """Acts as `usfa evaluate` with C = {w} and Eq. 3 does; `break_loops=False` keeps loops."""

    def __init__(self, learner: Learner, gamma: float, break_loops: bool = True) -> None:
        self._learner, self._gamma = learner, gamma
        self._breaks_loops = break_loops and leaves_loops(Gpi())

    def begin(self, w: Array) -> None:
        self._tasks = torch.from_numpy(w).float()
        self._loops = Loops(self._tasks, self._gamma) if self._breaks_loops else None

    @torch.no_grad()
    def act(self, seen: NDArray[Any]) -> NDArray[np.int64]:
        agent, tasks = self._learner.agent, self._tasks
        observation = agent.spec.observation.encode(seen)
        present = agent.at_start(torch.from_numpy(observation))
        if self._loops is not None:
            present = present._replace(legal=torch.from_numpy(self._loops.avoid(present)))
        candidates = CandidateSet.believed(tasks[:, None])
        decision, _ = agent.act(self._learner.best.network(0), present, tasks, candidates, Gpi())
        self._q, self._action = decision.q, decision.action.numpy()
        return self._action

    def add(self, phi: Array, ended: NDArray[np.bool_]) -> None:
        if self._loops is not None:
            self._loops.add(self._q, self._action, phi, ended)


if __name__ == "__main__":
    main()

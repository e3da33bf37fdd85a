"""Your own environment: a class with a vector reward. Check it, train once, then change preferences as you like."""

import sys
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

import usfa
from usfa.environments import check_environment
from usfa.learning import LearnerConfig
from usfa.runs import EvaluationConfig

MAP = ["....", "S##G", "****"]  # way, mud and flowers, from S to G
MOVES = [(-1, 0), (1, 0), (0, -1), (0, 1)]


class Garden(gym.Env[Any, Any]):
    """Cross the garden; φ = (mud, flowers, time), where time is -1 in every step."""

    observation_space = gym.spaces.MultiDiscrete([3, 4])
    action_space = gym.spaces.Discrete(4)
    reward_space = gym.spaces.Box(-1.0, 1.0, (3,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.clock = (1, 0), 0
        return np.array(self.place), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.place = tuple(np.clip(np.add(self.place, MOVES[action]), 0, (2, 3)).tolist())
        self.clock += 1
        ground = MAP[self.place[0]][self.place[1]]
        phi = np.array([ground == "#", ground == "*", -1.0], np.float32)
        return np.array(self.place), phi, ground == "G", self.clock == 20, {}


def main(episodes: int) -> None:
    print("\n".join(f"{finding.severity}: {finding.sentence}" for finding in check_environment(Garden)))
    learner = LearnerConfig(policies="box:-1,1", environments=8, trajectory_length=4, gamma=0.9, epsilon=0.5)
    config = usfa.TrainConfig(
        environment="own_environment:Garden",  # module:Class; an id of Gymnasium works as well
        training_tasks="1,0,0;0,1,0;0,0,1",
        learner=replace(learner, learning_rate=3e-3, budget=episodes),
        evaluation=EvaluationConfig(snapshots=1, episodes=1),
        seeds=(0,),
    )
    agent, env = usfa.load(usfa.train(config, "runs/garden", "overwrite").path), Garden()
    for task in ([0, 0, 1], [-1, 0, 1], [-1, 1, 0], [1, -1, 0]):
        policy, (observation, _), total, done = agent.policy(task), env.reset(), np.zeros(3), False
        while not done:
            observation, phi, terminated, truncated, _ = env.step(policy(observation))
            total, done = total + phi, terminated or truncated
        print(f"task {task!s:10}  {-total[2]:.0f} steps, {total[0]:.0f} in mud, {total[1]:.0f} in flowers")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2500)

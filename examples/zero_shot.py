"""Load a trained agent and give it tasks that it never saw. Nothing is learned here."""

import gymnasium as gym
import numpy as np

import usfa
from usfa.environments import make


def play(env: gym.Env[np.int64, np.int64], policy: usfa.Policy) -> float:
    """Play one episode and return its return on the policy's task."""
    policy.reset()
    observation, info = env.reset(seed=0)
    total, done = 0.0, False
    while not done:
        action = policy(observation, legal=info["action_mask"])
        observation, phi, terminated, truncated, info = env.step(np.int64(action))
        total += float(np.asarray(phi) @ policy.w)
        done = terminated or truncated
    return total


def main() -> None:
    agent = usfa.load("trip")  # a shipped agent; any run directory works as well
    env = make("trip")
    print(agent)
    for task in ([1, 0], [0.7, 0.7], [0.9, 0.3], [1, -0.5]):
        for candidates in ("task", "train", "sample:5"):
            policy = agent.policy(task, candidates)
            print(f"task {task!s:11}  C = {candidates:8}  return {play(env, policy):.3f}")


if __name__ == "__main__":
    main()

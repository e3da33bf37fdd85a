"""Acrobot, which has one scalar reward and no φ: learn φ from three reward terms, then act on any weighting of them."""

import sys
import tempfile
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import usfa

Array = NDArray[np.float32]


def height(observation: Array, action: int, next_observation: Array) -> float:
    """Height of the tip; the observation holds cosines and sines of both angles, and their speeds."""
    cos1, sin1, cos2, sin2 = next_observation[:4]
    return float(-cos1 - (cos1 * cos2 - sin1 * sin2))


def effort(observation: Array, action: int, next_observation: Array) -> float:
    """1 if torque was used, otherwise 0."""
    return float(action != 1)


def speed(observation: Array, action: int, next_observation: Array) -> float:
    """Speed of the second joint, whatever its direction."""
    return float(abs(next_observation[5]) / 10)


def main(frames: int) -> None:
    rewards = [height, effort, speed]
    phi = usfa.learn_features("Acrobot-v1", rewards, steps=10_000, console=None)
    for name, r2 in zip(phi.report.rewards, phi.report.r2, strict=True):
        print(f"{name}: R² {r2:.3f} on held-out episodes")

    config = usfa.settings_for("Acrobot-v1", phi=phi)
    config = replace(
        config,
        learner=replace(config.learner, budget=frames, policies="task+box:-1,1", tasks="box:-1,1"),
        evaluation=replace(config.evaluation, snapshots=1, tasks=()),
    )
    agent = usfa.load(usfa.train(config, tempfile.mkdtemp(), existing="overwrite", console=None).path, trust=True)
    for w in np.eye(3):
        policy, env = agent.policy(w, "task", "gpi"), usfa.make("Acrobot-v1", phi=phi)
        observation, _ = env.reset(seed=0)
        total, done = np.zeros(3), False
        while not done:
            observation, features, terminated, truncated, _ = env.step(policy(observation))
            total, done = total + np.asarray(features), terminated or truncated
        print(f"task {w.astype(int)}: height {total[0]:.0f}, effort {total[1]:.0f}, speed {total[2]:.0f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000)

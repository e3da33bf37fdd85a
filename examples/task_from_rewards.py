"""Infer a task from rewards, for users without a task vector: watch a few transitions, infer w, act on it."""

import numpy as np

import usfa
from usfa.environments import make


def main() -> None:
    rng = np.random.default_rng(0)
    hidden_task = np.array([0.8, 0.5])  # the user's preferences, which only the rewards reveal
    env = make("trip")
    phi, reward = [], []
    for _ in range(10):  # behave at random for a while
        _, info = env.reset(seed=int(rng.integers(1000)))
        done = False
        while not done:
            action = rng.choice(np.flatnonzero(info["action_mask"]))
            _, features, done, _, info = env.step(action)
            phi.append(np.asarray(features))
            reward.append(np.asarray(features) @ hidden_task + rng.normal(scale=0.01))
    inferred = usfa.infer_task(phi, reward)
    print(f"inferred task {inferred.w.round(3)}, condition number {inferred.condition_number:.1f}")
    agent = usfa.load("trip")
    print(usfa.evaluate(agent, inferred.w, ["task", "train", "sample:5"]).to_string(index=False))


if __name__ == "__main__":
    main()

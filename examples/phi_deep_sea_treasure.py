"""Deep Sea Treasure with φ hidden: learn φ from three rewards, train on it, infer a new task from 200 steps."""

import sys
import tempfile
from dataclasses import replace

import numpy as np

import usfa

REWARDS = ["task:0.9,0.1", "task:0.7,0.3", "task:0.5,0.5"]  # treasure and time, mixed; φ itself is not used
NEW = "task:0.8,0.2"


def main(frames: int) -> None:
    phi = usfa.learn_features("deep-sea-treasure-v0", REWARDS, steps=20_000, console=None)
    print(f"{phi.features} features for {len(REWARDS)} rewards, R² on held-out episodes {phi.report.r2}")

    config = usfa.settings_for("deep-sea-treasure-v0", phi=phi)
    config = replace(
        config,
        learner=replace(config.learner, budget=frames, policies="task+gaussian:0.05", tasks="resampled"),
        evaluation=replace(config.evaluation, snapshots=1, tasks=(), episodes=1),
    )
    agent = usfa.load(usfa.train(config, tempfile.mkdtemp(), existing="overwrite", console=None).path)

    stream = usfa.TaskStream("deep-sea-treasure-v0", phi=phi)
    task = stream.observe(NEW, steps=200).task
    print(f"w of the new task from 200 rewarded random steps: {task.w.round(3)} ± {task.std.round(3)}")
    hidden = [[0.9, 0.1], [0.7, 0.3], [0.5, 0.5]]
    true_w = np.linalg.lstsq(np.array(hidden), phi.tasks, rcond=None)[0].T @ [0.8, 0.2]
    for name, w in (("inferred w", task.w), ("true w", true_w)):
        table = usfa.evaluate(agent, [w], "train+task", "gpi", rewards=[NEW], episodes=1)
        print(f"{name}: return {table.score[0]:.2f}, unexplained {table.unexplained[0]:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)

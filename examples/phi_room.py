"""The room from pixels and four scalar rewards: learn φ, train the agent of `room-laptop` on it, try a hard task.

By default this takes hours on two cores; `python examples/phi_room.py 9000 300 2000` shows it in a minute, badly.
"""

import sys
from dataclasses import replace
from pathlib import Path

import usfa
from usfa.phi import NetworkFit

FORWARD = (0.3, 0.02, 0.02, 0.02, 0.1, 0.1, 0.22, 0.22)  # what is collected behind one's back cannot be seen


def main(out: Path, steps: int = 1_000_000, updates: int = 40_000, frames: int = 5_000_000) -> None:
    phi = usfa.learn_features(
        "room",
        "tasks:room-train",  # "collect a TV", "a ball", "a hat", "a balloon": one number each, and no φ
        features=4,
        environment_arguments={"image_size": 42},
        learner=NetworkFit(convolutions=((16, 6, 3), (32, 3, 2)), steps=updates),
        steps=steps,
        action_probabilities=FORWARD,
        repeat=0.75,
        out=out / "phi",
        existing="resume",
    )
    print(f"R² on held-out episodes: {phi.report.r2}")

    config = usfa.preset("room-laptop")
    config = replace(
        config,
        phi=phi.text,
        learner=replace(config.learner, budget=frames),
        evaluation=replace(config.evaluation, snapshots=1, tasks=("room-train",), candidates=("train",), episodes=1),
    )
    agent = usfa.load(usfa.train(config, out / "run", existing="resume").path)
    table = usfa.evaluate(agent, "1,1,0,0", rewards="task:1,1,0,0", episodes=2)
    print(table[["task", "score", "unexplained"]].to_string(index=False))


if __name__ == "__main__":
    main(Path("runs/room-from-rewards"), *map(int, sys.argv[1:4]))

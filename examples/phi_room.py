"""The room from pixels and four scalar rewards: learn φ, train the agent of `room-laptop` on it, try a hard task.

φ is learned three times: first from random walks, then also from agents trained on the φ so far, which find the states
where it is wrong. By default this takes two hours on two cores; `python examples/phi_room.py 9000 300 2000 2` takes a
few minutes, with poor results.
"""

import sys
from dataclasses import replace
from pathlib import Path

import usfa
from usfa.phi import NetworkFit

CAMERA = {"image_size": 42, "field_of_view": 110}  # with the default of 80 degrees, objects leave the view too early
FORWARD = (0.3, 0.02, 0.02, 0.02, 0.1, 0.1, 0.22, 0.22)  # mostly forward: behind its back the agent sees no object
MIRRORED = (0, 1, 3, 2, 5, 4, 7, 6)  # left and right swapped
NETWORK = NetworkFit((1024, 512, 256), ((32, 4, 2), (32, 3, 2), (32, 3, 1)), batch=128, mirrored_actions=MIRRORED)


def main(out: Path, steps: int = 600_000, updates: int = 12_000, frames: int = 500_000, rounds: int = 3) -> None:
    config = usfa.preset("room-laptop")
    config = replace(
        config,
        environment_arguments=CAMERA,
        learner=replace(config.learner, budget=frames),
        evaluation=replace(config.evaluation, snapshots=1, tasks=("room-train",), candidates=("train",), episodes=1),
    )
    scouts: list[str] = []
    for name in ("first", "second", "third")[:rounds]:
        phi = usfa.learn_features(
            "room",
            "tasks:room-train",  # "collect a TV", "a ball", "a hat", "a balloon": one number each, and no φ
            features=4,
            history=4,  # an object leaves the view a step or two before it is collected
            environment_arguments=CAMERA,
            learner=replace(NETWORK, steps=updates),
            steps=steps,
            action_probabilities=FORWARD,
            repeat=0.75,
            agent=",".join(scouts) or None,
            agent_share=0.75,
            out=out / f"{name}-phi",
            existing="resume",
        )
        print(f"R² on held-out episodes: {phi.report.r2}")
        run = usfa.train(replace(config, phi=phi.text), out / f"{name}-run", existing="resume")
        scouts.append(str(run.path))
    table = usfa.evaluate(usfa.load(run.path), "1,1,0,0", rewards="task:1,1,0,0", episodes=2)
    print(table[["task", "score", "unexplained"]].to_string(index=False))


if __name__ == "__main__":
    main(Path("runs/room-from-rewards"), *map(int, sys.argv[1:5]))

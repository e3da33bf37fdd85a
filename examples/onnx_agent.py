"""Act with an exported agent: NumPy and ONNX Runtime, no PyTorch. Needs `pip install 'usfa[export]' onnxruntime`."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime

from usfa.environments import Room  # a simulator, in place of a robot

NAMES = ["TVs", "balls", "hats", "balloons"]
MODEL = Path("exports/room/model.onnx")


def main() -> None:
    if not MODEL.exists():
        subprocess.run([sys.executable, "-m", "usfa", "export", "room", "--onnx"], check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(MODEL, options)
    outputs = [value.name for value in session.get_outputs()]
    about = json.loads(session.get_modelmeta().custom_metadata_map["usfa"])
    candidates = {name: np.array([values], np.float32) for name, values in about["candidates"].items()}  # C = M

    for task in ([1, 1, -1, 0], [0, 0, 1, 1]):
        env = Room(image_size=42)
        observation, _ = env.reset(seed=0)
        memory = {name: np.zeros((1, *shape), np.float32) for name, shape in about["memory"].items()}
        action, collected, steps = np.zeros(1, np.int64), np.zeros(4), 200
        for step in range(steps):
            inputs = {"observation": observation[None], "w": np.array([task], np.float32), **candidates, **memory}
            inputs |= {"previous_action": action, "first": np.array([step == 0])}
            found = dict(zip(outputs, session.run(None, inputs), strict=True))
            action, memory = found["action"], {name: found[f"next_{name}"] for name in memory}
            observation, phi, *_ = env.step(int(action[0]))
            collected += phi
        print(f"task {task}: " + ", ".join(f"{n:.0f} {name}" for n, name in zip(collected, NAMES, strict=True)))


if __name__ == "__main__":
    main()

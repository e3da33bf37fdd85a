"""Train once when imported, so that processes forked afterwards have imported and compiled everything."""

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from usfa.cli import main

TRAIN = (
    *("train", "trip-usfa", "--seeds", "0", "1", "--learner.budget", "20", "--learner.replay-ratio", "1"),
    *("--evaluation.snapshots", "2", "--evaluation.tasks", "1,0", "--evaluation.candidates", "task"),
)

with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        code = main([*TRAIN, "--out", str(Path(folder) / "run")])
    if code or len(os.listdir("/proc/self/task")) > 1:
        sys.exit("a process with threads cannot be forked")

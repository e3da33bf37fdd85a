"""The Trip MDP with a tally of its steps on disk, which survives kill -9: how much was really acted, by whom.

Every process that steps it has a file named after its number in the directory that USFA_TALLY names.
"""

import mmap
import os
from pathlib import Path

import gymnasium as gym

from usfa.environments import Trip

SIZE = 8
_tally = None


def _counter():
    global _tally
    if _tally is None:
        path = Path(os.environ["USFA_TALLY"]) / str(os.getpid())
        path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            _tally = mmap.mmap(file.fileno(), SIZE)
    return _tally


def steps_counted(directory):
    """Steps by process."""
    return {int(path.name): int.from_bytes(path.read_bytes(), "little") for path in Path(directory).iterdir()}


class CountedTrip(Trip):
    def step(self, action):
        tally = _counter()
        tally[:] = (int.from_bytes(tally[:], "little") + 1).to_bytes(SIZE, "little")
        return super().step(action)


gym.register("CountedTrip-v0", entry_point=CountedTrip)

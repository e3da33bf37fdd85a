"""Draw the published figures of the room and of the cluster again from the published tables, without training.

python docs/result_figures.py [--out docs/results] [--formats png pdf svg]

Those of the other experiments: `usfa reproduce trip`, `usfa reproduce one-state` (seconds to a minute, the same tables
to the byte), `usfa front trip` and `python benchmarks/race/race.py --report`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from usfa.environments.room import OBJECTS
from usfa.environments.room.yardstick import read_yardstick
from usfa.figures import save_all
from usfa.figures.cluster import plan
from usfa.figures.room import all_figures

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--formats", nargs="+", default=["png"])
    words = parser.parse_args()
    training, summary = (read("room-agents", name) for name in ("training", "summary"))
    names = [kind.name for kind in OBJECTS]
    figures = all_figures(training, summary, read_yardstick(), names)
    save_all(figures, words.out / "room-agents" / "figures", words.formats)
    save_all({"plan": plan(read("cluster", "plan"))}, words.out / "cluster", words.formats)


def read(experiment: str, table: str) -> pd.DataFrame:
    return pd.read_csv(RESULTS / experiment / f"{table}.csv", dtype={"task": str})


if __name__ == "__main__":
    main()

"""The command line of studies that train room-laptop with changes, one run for each change and seed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from rich.console import Console

from usfa.evaluation import write_table
from usfa.paper.experiment import Job, run_jobs
from usfa.paper.report import markdown_table
from usfa.runs import TrainConfig

__all__ = ["study"]


def study(
    description: str | None,
    settings: Callable[[int], Mapping[str, TrainConfig]],
    results: Callable[[list[Job]], pd.DataFrame],
    seeds: Sequence[int],
    out: Path,
) -> None:
    """Train the settings chosen on the command line, write their results to DIRECTORY/DIRECTORY.csv, and print them.

    Args:
        description: for --help.
        settings: configurations by name, for a number of frames.
        results: a table of the scores of finished jobs.
        seeds: the default seeds.
        out: the default directory.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(seeds))
    parser.add_argument("--only", nargs="+", choices=list(settings(1)), metavar="NAME", help="some of the changes")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="runs; by default one for each core")
    parser.add_argument("--out", type=Path, default=out)
    chosen = parser.parse_args()
    jobs = [
        Job(name, replace(config, seeds=(seed,)), chosen.out / f"{chosen.frames}-{name.replace(' ', '-')}-{seed}")
        for seed in chosen.seeds
        for name, config in settings(chosen.frames).items()
        if chosen.only is None or name in chosen.only
    ]
    run_jobs(jobs, chosen.at_once, Console(stderr=True))
    table = results(jobs)
    write_table(chosen.out / f"{chosen.out.name}.csv", table)
    print(markdown_table(table))

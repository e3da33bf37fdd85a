"""Table of scores, one row for each agent, candidate set, rule, seed, snapshot and task."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from usfa.decisions import PAPER_RULE
from usfa.errors import InputError, told
from usfa.files import write_atomically
from usfa.tasks import format_task, shown

__all__ = [
    "SCORE_COLUMNS",
    "csv_bytes",
    "read_scores",
    "score_table",
    "write_table",
]

Array = NDArray[np.float64]

SCORE_COLUMNS = {
    "agent": "name of the agent",
    "candidates": "the candidate set C",
    "rule": "the decision rule, or single, the best policy of C in hindsight",
    "training_set": "M",
    "policies": "D_z, with its σ where it has one",
    "seed": "of the training run",
    "snapshot": "time of the snapshot, in the unit of the training budget",
    "episodes": "of training so far",
    "frames": "environment steps of training so far",
    "task_set": "set of test tasks that contains the task",
    "task": "w'",
    "score": "return",
    "optimal": "the best possible return, if it is known",
}


def score_table(
    scores: Array,
    tasks: Array,
    optimal: Array,
    labels: dict[str, str],
    runs: dict[str, NDArray[np.int64]],
) -> pd.DataFrame:
    """Long-form table of scores [R, K].

    Args:
        scores: [R, K].
        tasks: [K, D].
        optimal: [K], NaN where it is not known.
        labels: columns that are the same in every row.
        runs: columns with a value per run, each [R]: seed, snapshot, episodes, frames.
    """
    size = len(tasks)
    columns = {
        **{name: [text] * scores.size for name, text in labels.items()},
        **{name: np.repeat(values, size) for name, values in runs.items()},
        "task": [format_task(w) for w in tasks] * len(scores),
        "score": scores.reshape(-1),
        "optimal": np.tile(optimal, len(scores)),
    }
    return pd.DataFrame(columns)[list(SCORE_COLUMNS)]


def csv_bytes(table: pd.DataFrame) -> bytes:
    """A CSV that reads back to the same floats."""
    text = io.StringIO()
    table.to_csv(text, index=False, lineterminator="\n")
    return text.getvalue().encode()


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a CSV that reads back to the same floats."""
    write_atomically(path, csv_bytes(table))


def read_scores(path: Path) -> pd.DataFrame:
    """Read a table of scores from :func:`write_table`."""
    texts = dict.fromkeys(("agent", "candidates", "rule", "training_set", "policies", "task_set", "task"), str)
    counts = dict.fromkeys(("seed", "snapshot", "episodes", "frames"), _count)
    numbers = {**counts, "score": _float, "optimal": _float}
    if path.exists() and not path.is_file():  # a pipe would block
        raise InputError(f"{path} is not a regular file; expected a table of scores.")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if b"\0" in content:  # in pandas, a text of one zero byte does not equal itself
            raise ValueError("it has a zero byte")
        scores = pd.read_csv(io.BytesIO(content), dtype=texts, converters=numbers, keep_default_na=False)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise InputError(f"File {path} is not a table of scores: {told(error)}.") from error
    if list(scores.columns) == [name for name in SCORE_COLUMNS if name != "rule"]:  # written when gpi was the only rule
        scores.insert(list(SCORE_COLUMNS).index("rule"), "rule", PAPER_RULE)
    if list(scores.columns) != list(SCORE_COLUMNS):
        raise InputError(f"File {path} has the columns {list(scores.columns)}; expected {list(SCORE_COLUMNS)}.")
    return scores


def _float(text: str) -> float:
    """Parse a float exactly, in every version of pandas; an empty cell is NaN."""
    return float(text or "nan")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 2**63):
        raise ValueError(f"a count is {shown(text)}; expected a whole number from 0")
    return int(text)

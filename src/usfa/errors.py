"""Errors that the command line shows without a traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Diverged", "InputError", "Interrupted", "counted", "similar_name", "told", "unknown_name"]


class InputError(Exception):
    """Invalid input. The message is one sentence with the name, the value and the expected value.

    The command line prints the message without a traceback and exits with code 2.
    """


class Interrupted(Exception):
    """The user pressed Ctrl-C. The work so far is saved; the message explains how to continue."""


class Diverged(InputError):
    """Training diverged: the loss exploded or is NaN. Earlier checkpoints are valid."""


def counted(number: int, one: str, many: str) -> str:
    """A number with its noun: "1 entry", "2,000 entries"."""
    return f"{number:,} {one if number == 1 else many}"


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InputError:
    """An error for an unknown name, with the most similar known name."""
    choices = sorted(known)
    similar = similar_name(str(name), choices)
    shown = ", ".join(choices[:12]) + (f" and {len(choices) - 12} more" if len(choices) > 12 else "")
    hint = f"did you mean {similar!r}?" if similar else f"known are {shown}."
    return InputError(f"Unknown {kind} {name!r}: {hint}")


def similar_name(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to a mistyped one: at most a third of it is wrong, or its end is missing."""
    plain = name.lower()
    distances = {choice: _typing_errors(plain, choice.lower()) for choice in known}
    near = {choice: distance for choice, distance in distances.items() if distance <= (len(name) + 1) // 3}
    if near:
        # Break ties by a common beginning, then by the newest version.
        return max(near, key=lambda choice: (-near[choice], choice.lower().startswith(plain), choice))
    begun = [choice for choice in distances if len(name) > 2 and choice.lower().startswith(plain)]
    return min(begun, key=len, default=None)


def _typing_errors(a: str, b: str) -> int:
    """Edit distance of two words: the number of letters to insert, delete, replace or swap with a neighbour."""
    above: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, last, row = row, above, [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
            if i > 1 and j > 1 and (x, y) == (b[j - 2], a[i - 2]):
                row[j] = min(row[j], last[j - 2] + 1)
    return row[-1]


def told(error: BaseException) -> str:
    """Describe an exception of user code in one line, with its file and line number if the file is the user's."""
    if isinstance(error, InputError):
        return str(error).removesuffix(".")
    message = _message(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames and _is_users(frames[-1]) else ""
    return f"{type(error).__name__}{': ' if message else ''}{message}{place}"


def _message(error: BaseException) -> str:
    try:
        return " ".join(str(error).split()).removesuffix(".")
    except Exception:  # the class may be the user's, and its __str__ may fail too
        return ""


def _is_users(frame: traceback.FrameSummary) -> bool:
    path = Path(frame.filename)
    installed = "site-packages" in path.parts or not path.is_file()  # compiled modules name files that are not there
    return not installed and Path(__file__).parent not in path.parents

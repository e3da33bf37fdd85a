"""Errors that the command line shows without a traceback."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Diverged", "InputError", "Interrupted", "told", "unknown_name"]


class InputError(Exception):
    """Invalid input. The message is one sentence with the name, the value and the expected value.

    The command line prints the message without a traceback and exits with code 2.
    """


class Interrupted(Exception):
    """The user pressed Ctrl-C. The work so far is saved; the message explains how to continue."""


class Diverged(InputError):
    """Training diverged: the loss exploded or is NaN. Earlier checkpoints are valid."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InputError:
    """An error for an unknown name, with the most similar known name."""
    choices = sorted(known)
    nearest = difflib.get_close_matches(str(name), choices, n=1, cutoff=0.6)
    shown = ", ".join(choices[:12]) + (", …" if len(choices) > 12 else "")
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"known are {shown}."
    return InputError(f"Unknown {kind} {name!r}: {hint}")


def told(error: BaseException) -> str:
    """Describe an exception of user code in one line, with its file and line if it is in a file of the user."""
    if isinstance(error, InputError):
        return str(error).removesuffix(".")
    message = " ".join(str(error).split()).removesuffix(".")
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames and _is_users(frames[-1]) else ""
    return f"{type(error).__name__}{': ' if message else ''}{message}{place}"


def _is_users(frame: traceback.FrameSummary) -> bool:
    path = Path(frame.filename)
    installed = "site-packages" in path.parts or not path.is_file()  # compiled modules name files that are not there
    return not installed and Path(__file__).parent not in path.parents

"""What is told to a person without a traceback: mistakes in what they gave us, and that they stopped us."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Diverged", "InputError", "Interrupted", "told", "unknown_name"]


class InputError(Exception):
    """Bad input, told in one sentence that names the thing, the value and what was expected.

    The command line prints the sentence without a traceback and exits with code 2.
    """


class Interrupted(Exception):
    """The user pressed Ctrl-C; what was done is saved, and the message says how to go on."""


class Diverged(InputError):
    """Training went wrong: the loss exploded or is not a number. What was saved before is good."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not in a registry, with the nearest known one."""
    choices = sorted(known)
    nearest = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    shown = ", ".join(choices[:12]) + (", …" if len(choices) > 12 else "")
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"known are {shown}."
    return InputError(f"Unknown {kind} {name!r}: {hint}")


def told(error: BaseException) -> str:
    """An error of other people's code in one line, with its place if that is in a file of the user."""
    if isinstance(error, InputError):
        return str(error).removesuffix(".")
    message = " ".join(str(error).split()).removesuffix(".")
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames and _is_users(frames[-1]) else ""
    return f"{type(error).__name__}{': ' if message else ''}{message}{place}"


def _is_users(frame: traceback.FrameSummary) -> bool:
    path = Path(frame.filename)
    return "site-packages" not in path.parts and Path(__file__).parent not in path.parents

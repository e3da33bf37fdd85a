"""What is told to a person without a traceback: mistakes in what they gave us, and that they stopped us."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["Diverged", "InputError", "Interrupted", "unknown_name"]


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

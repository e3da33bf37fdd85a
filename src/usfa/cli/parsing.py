"""Parse the options of the command line, and explain wrong ones in one sentence."""

from __future__ import annotations

import inspect
import io
import re
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from itertools import takewhile
from typing import Any

import tyro

from usfa.errors import InputError, similar_name

__all__ = ["is_help", "parse", "parse_some"]

_KINDS = {"INT": "a whole number", "FLOAT": "a number", "PATH": "a path", "STR": "a text"}
_KINDS |= {f"[{kind} [{kind} ...]]": f"{what.removeprefix('a ')}s" for kind, what in _KINDS.items()}


def is_help(words: list[str]) -> bool:
    return words[:1] in (["-h"], ["--help"])


def parse(command: Any, program: str, words: list[str], default: Any = None, about: str | None = None) -> Any:
    """Parse the options of a command; InputError if they cannot be parsed."""
    _check_repeats(words)
    about = inspect.cleandoc(about or command.__doc__)
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            return tyro.cli(command, prog=f"usfa {program}", args=words, default=default, description=about)
    except SystemExit as stop:
        if stop.code in (0, None):  # help
            raise
        reason = _reason(printed.getvalue(), words, lambda: _known_options(command, default))
        raise InputError(f"{reason}; see usfa {program} --help.") from None


def parse_some(command: Any, words: list[str]) -> Any:
    """Parse the options that a command knows, ignoring others and --help; return its defaults if they are wrong."""
    asked = [word for word in words if word not in {"-h", "--help"}]
    with redirect_stderr(io.StringIO()), suppress(SystemExit):
        return tyro.cli(command, args=asked, return_unknown_args=True)[0]
    return command()


def _check_repeats(words: list[str]) -> None:
    """Reject repeated options, because tyro would silently use only one of them."""
    options = [word.partition("=")[0].replace("_", "-") for word in words if word.startswith("--")]
    for option, count in Counter(options).items():
        if count > 1:
            raise InputError(f"{option} was given {count} times; expected it once, with all its values.")


def _known_options(command: Any, default: Any) -> list[str]:
    printed = io.StringIO()
    with suppress(SystemExit), redirect_stdout(printed):
        tyro.cli(command, args=["--help"], default=default)
    return sorted(set(re.findall(r"(?<=[ │])--[a-z][\w.-]*", printed.getvalue())))


def _reason(printed: str, words: list[str], known: Callable[[], list[str]]) -> str:
    """Explain why words cannot be parsed, from the box that tyro prints: unknown words first, else its first part."""
    inside = "\n".join(line.strip("│|╭╮╰╯+ ") for line in printed.splitlines())
    parts = [" ".join(part.split()) for part in re.split(r"[─-]{10,}", inside)]
    unknown = next((part for part in parts if part.startswith("Unrecognized options:")), None)
    if unknown is not None:
        return _unknown(unknown.partition(": ")[2].replace(",", " ").split()[0], words, known())
    for part in parts:
        if part.startswith("Missing from"):
            return f"Missing: {', '.join(_names(part)) or 'an option'}"
        if found := re.search(r"Missing value for argument '(--[\w.-]+)'", part):
            return f"{found.group(1)} has no value"
        if found := re.search(r"invalid choice '(.*)' for argument '(--[\w.-]+)'. Expected one of \((.*)\)", part):
            value, option, choices = found.groups()
            return f"{option} is {value!r}, not one of {choices.replace(chr(39), '').strip(', ')}"
        if found := re.match(r"Error parsing (--[\w.-]+)", part):
            return _wrong_value(found.group(1), words, parts)
    return next((part.removesuffix(".") for part in parts if ":" in part), "The options cannot be parsed")


def _unknown(word: str, words: list[str], known: list[str]) -> str:
    """Explain why a word is not expected: it is an unknown option, or one value too many."""
    flag = next((whole for whole in words if whole.startswith("--") and whole.partition("=")[2] == word), None)
    if flag is not None:  # tyro names only the value of --csv=1
        return f"{flag.partition('=')[0]} takes no value, but is {word!r}"
    word = next((whole for whole in words if whole.startswith(word)), word)  # tyro separates words by commas
    if not word.startswith("--"):
        before = [option for option in words[: words.index(word)] if option.startswith("--")]
        where = f" after {before[-1]}, which takes no more values" if before else ""
        return f"Unexpected {word!r}{where}"
    name = word.partition("=")[0]
    meant = [option for option in known if re.search(rf"[.-]{re.escape(name[2:])}$", option)]  # --learner.gamma
    if not meant and (similar := similar_name(name, known)):
        meant = [similar]
    return f"Unknown option {name}" + (f" (did you mean {' or '.join(meant[:3])}?)" if meant else "")


def _wrong_value(option: str, words: list[str], parts: list[str]) -> str:
    given = words[words.index(option) + 1 :] if option in words else []
    values = " ".join(takewhile(lambda word: not word.startswith("--"), given))
    helped = next((part for part in parts if part.startswith("Argument helptext:")), "")
    kind = re.search(r"--[\w.-]+ (?:\{None\}\|)?(\[.*?\]\]|\{.*?\}|\w+)", helped)
    wanted = _KINDS.get(kind.group(1), "pairs of a name and a value") if kind else "a valid value"
    return f"{option} is {values!r}, not {wanted}"


def _names(missing: str) -> list[str]:
    """The options and positional words that tyro names as missing."""
    names = re.findall(r"(?<!\S)(?:--[\w.-]+|[A-Z]{3,})(?= )", missing)
    return [name for name in names if name not in _KINDS]

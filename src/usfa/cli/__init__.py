"""The command line.

The module of a command is imported when its options have been parsed, so that help and wrong options do not wait for
torch. Only the options of `train PRESET` and `reproduce WHAT` need it, because they are settings of training.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import warnings
from collections.abc import Sequence

from usfa.errors import InputError, Interrupted, unknown_name
from usfa.registry import search_working_directory
from usfa.version import __version__

__all__ = ["main"]

COMMANDS = (
    *("train", "learn-features", "evaluate", "diagnose", "front", "plot", "reproduce", "watch", "play", "export"),
    *("check-env", "plan-cluster", "list"),
)

USAGE = """usfa: one agent for every task r = φ·w, by universal successor features.

  usfa train PRESET         train an agent, all seeds at once
  usfa learn-features ENV   learn φ from scalar rewards, for environments without φ
  usfa evaluate RUN         score a trained agent on any task, without learning
  usfa diagnose RUN         explain its score on a task: values, returns, idle steps
  usfa front RUN            score it over many preferences: front, utility, hypervolume, figures
  usfa plot RUN ...         compare the learning curves of runs
  usfa reproduce WHAT       reproduce an experiment of the paper: trip, one-state, room
  usfa watch ENVIRONMENT    record a policy as film and contact sheet
  usfa play                 open the playground in the browser, with sliders for the task
  usfa export RUN           write an agent for ONNX Runtime and the Hugging Face hub
  usfa check-env ENV        find the errors of an environment, and how to fix them
  usfa plan-cluster PRESET  predict the training speed on a cluster of any size
  usfa list                 list presets, environments, task sets, decision rules, shipped agents

Examples:
  usfa reproduce trip
  usfa train trip-usfa --seeds 0 1 2 --learner.epsilon 0.3
  usfa learn-features own_environment:Own --rewards own_environment:speed,own_environment:comfort
  usfa evaluate trip --task 0.7,0.7 1,-0.5 --candidates task train sample:5
  usfa front trip --preferences simplex:100 --reference 0,0
  usfa watch room --agent room --task 1,1,-1,0
  usfa diagnose room --task -1100
  usfa export room --onnx
  usfa check-env own_environment:Garden
  usfa train room-laptop --cluster local --actors 2

Each command has --help. Invalid input gives a one-line error and exit code 2.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    warnings.formatwarning = lambda message, *_: f"usfa: {message}\n"  # without file and line
    _escape_unprintable()
    try:
        search_working_directory()
        _let_threads_sleep()
        return _dispatch(words)
    except InputError as error:
        print(f"usfa: {error}", file=sys.stderr)
        return 2
    except Interrupted as stopped:
        print(f"\nusfa: {stopped}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = "A file" if error.filename is None else error.filename
        print(f"usfa: {where} cannot be used: {error.strerror or error}.", file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"usfa: there is not enough memory ({error}); expected smaller settings.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        resumable = words[:1] in (["train"], ["learn-features"], ["reproduce"])
        kept = "; continue an unfinished run with --resume" if resumable else ""
        print(f"\nusfa: interrupted{kept}.", file=sys.stderr)
        return 130


def _escape_unprintable() -> None:
    """Print characters that the terminal's encoding lacks, such as φ in Latin-1, as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


def _let_threads_sleep() -> None:
    """Let waiting threads of torch sleep, unless the user has set OMP_WAIT_POLICY.

    By default they spin, which takes a core from other processes: acting in the room beside two trainings on two cores
    took a hundred times as long. This has to be set before torch is imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _dispatch(words: list[str]) -> int:
    from usfa.cli.options import HELP, OPTIONS
    from usfa.cli.parsing import is_help, parse

    if not words or words[0] in {"-h", "--help", "help"}:
        print(USAGE, end="")
        return 0
    if words[0] == "--version":
        print(f"usfa {__version__}")
        return 0
    if words[0] not in COMMANDS:
        raise unknown_name("command", words[0], COMMANDS)
    name, *rest = words
    if name in HELP and is_help(rest):
        print(HELP[name])
        return 0
    command = parse(OPTIONS[name], name, rest) if name in OPTIONS else rest  # before the module, which imports torch
    module = "list_" if name == "list" else name.replace("-", "_")  # a module `list` would shadow the builtin
    code: int | None = importlib.import_module(f"{__name__}.{module}").run(command)
    return code or 0

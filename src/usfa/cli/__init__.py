"""The command line. Each command is a module, imported when it is called: help does not wait for torch."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Sequence

from usfa.errors import InputError, Interrupted, unknown_name
from usfa.version import __version__

__all__ = ["main"]

COMMANDS = {
    "train": "train",
    "evaluate": "evaluate",
    "diagnose": "diagnose",
    "front": "front",
    "reproduce": "reproduce",
    "watch": "watch",
    "play": "play",
    "check-env": "check_env",
    "plan-cluster": "plan_cluster",
    "list": "listing",
}

USAGE = """usfa: one agent for every task r = φ·w, by universal successor features.

  usfa train PRESET         train an agent, all seeds at once
  usfa evaluate RUN         how a trained agent does on any task, without learning
  usfa diagnose RUN         why it does well or badly on a task: values, returns, idle steps
  usfa front RUN            what it reaches over many preferences: front, utility, hypervolume, figures
  usfa reproduce WHAT       an experiment of the paper: trip, one-state, room
  usfa watch ENVIRONMENT    record a policy as film and contact sheet
  usfa play                 the playground in the browser: sliders for the task
  usfa check-env ENV        what is wrong with an environment, with the cure
  usfa plan-cluster PRESET  how fast a cluster of any size would train it
  usfa list                 presets, environments, task sets, decision rules, shipped agents

Examples:
  usfa reproduce trip
  usfa train trip-usfa --seeds 0 1 2 --learner.epsilon 0.3
  usfa evaluate trip --task 0.7,0.7 1,-0.5 --candidates task train sample:5
  usfa front trip --preferences simplex:100 --reference 0,0
  usfa watch room --agent room --task 1,1,-1,0
  usfa diagnose room --task -1100
  usfa check-env own_environment:Garden
  usfa train room-laptop --cluster local --actors 2

Each command has --help. Mistakes in the input end with one sentence and exit code 2.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    warnings.formatwarning = lambda message, *_: f"usfa: {message}\n"  # one sentence, not where it was said
    try:
        _see_working_directory()
        _share_the_cores()
        return _dispatch(words)
    except InputError as error:
        print(f"usfa: {error}", file=sys.stderr)
        return 2
    except Interrupted as stopped:
        print(f"\nusfa: {stopped}", file=sys.stderr)
        return 130
    except (FileNotFoundError, NotADirectoryError, PermissionError, IsADirectoryError) as error:
        print(f"usfa: {error.filename} cannot be used: {error.strerror}.", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        kept = "; a run that was begun goes on with --resume" if {"train", "reproduce"}.intersection(words[:1]) else ""
        print(f"\nusfa: interrupted{kept}.", file=sys.stderr)
        return 130


def _see_working_directory() -> None:
    """Environments "module:Class" may be files of the working directory, as for `python -m`."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)


def _share_the_cores() -> None:
    """Threads of torch sleep while they wait for each other, unless the user says otherwise.

    By default they spin, which takes a core from whatever else runs: acting in the room beside two trainings on two
    cores took a hundred times as long. It has to be said before torch is imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in {"-h", "--help", "help"}:
        print(USAGE, end="")
        return 0
    if words[0] == "--version":
        print(f"usfa {__version__}")
        return 0
    if words[0] not in COMMANDS:
        raise unknown_name("command", words[0], COMMANDS)
    code: int | None = importlib.import_module(f"{__name__}.{COMMANDS[words[0]]}").run(words[1:])
    return code or 0

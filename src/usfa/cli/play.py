"""`usfa play`."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import tyro

from usfa.cli.terminal import parse
from usfa.errors import InputError
from usfa.runs import SHIPPED_AGENTS

__all__ = ["Play", "run"]


@dataclass(frozen=True)
class Play:
    """The playground: change the task with sliders in the browser, and watch how the agent's behaviour changes.

    Examples:
      usfa play
      usfa play trip
      usfa play runs/mine --agent runs/other room-uvfa   (to compare them)
      usfa play room --environment room-doom             (the same agent in another engine)
      usfa play --host 0.0.0.0 --allow-remote            (for other machines; prints an address with a token)
    """

    first: tyro.conf.Positional[str] = "room"
    """The first agent: a shipped one, a run directory or an agent directory."""
    agent: tuple[str, ...] = ()
    """More agents to choose from, besides the shipped ones."""
    environment: str | None = None
    """Environment to act in, instead of the one in training; with the same observations, actions and features."""
    host: str = "127.0.0.1"
    """Address to listen on; any other than localhost needs --allow-remote."""
    port: int = 8642
    """Port to listen on; 0 chooses a free one."""
    allow_remote: bool = False
    """Accept connections from other machines that have a token."""
    sessions: int = 16
    """Maximal number of visitors at the same time."""
    browser: bool = True
    """Open the page in the browser."""
    trust: bool = False
    """Allow agents' files to name a module to import their environment from."""


def run(words: list[str]) -> None:
    command = parse(Play, "play", words)
    for module in ("starlette", "uvicorn", "websockets"):
        if importlib.util.find_spec(module) is None:
            raise InputError(f"The playground needs {module}; install it with pip install 'usfa[web]'.")
    from usfa.playground import Address, Catalogue, Limits, serve

    address, limits = Address(command.host, command.port, command.allow_remote), Limits(sessions=command.sessions)
    others = () if command.environment is not None else tuple(SHIPPED_AGENTS)
    catalogue = Catalogue((command.first, *command.agent, *others), command.environment, command.trust)
    serve(catalogue, address, limits, command.browser)

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
    """The playground: change the task with sliders in the browser, and watch the agent change its mind.

    Examples:
      usfa play
      usfa play trip
      usfa play runs/mine --agent runs/other room-uvfa   (to compare them)
      usfa play room --environment room-doom             (the same agent in another engine)
      usfa play --host 0.0.0.0 --allow-remote            (for other machines; prints an address with a token)
    """

    first: tyro.conf.Positional[str] = "room"
    """The agent to begin with: a shipped one, a run directory or an agent directory."""
    agent: tuple[str, ...] = ()
    """More agents to choose from; the shipped ones are always there."""
    environment: str | None = None
    """Where the agents act, in place of where they were trained; it must look the same to them."""
    host: str = "127.0.0.1"
    """The address to listen on; any but localhost needs --allow-remote."""
    port: int = 8642
    """0 takes a free one."""
    allow_remote: bool = False
    """Let other machines in, with a token."""
    sessions: int = 16
    """Visitors at the same time."""
    browser: bool = True
    """Open the page."""
    trust: bool = False
    """Allow agents' files to name a module that their environment is imported from."""


def run(words: list[str]) -> None:
    command = parse(Play, "play", words)
    for module in ("starlette", "uvicorn", "websockets"):
        if importlib.util.find_spec(module) is None:
            raise InputError(f"The playground needs {module}; install it with pip install 'usfa[web]'.")
    from usfa.playground import Address, Limits, Repertoire, serve

    address = Address(command.host, command.port, command.allow_remote)
    others = () if command.environment is not None else tuple(SHIPPED_AGENTS)
    repertoire = Repertoire((command.first, *command.agent, *others), command.environment, command.trust)
    serve(repertoire, address, Limits(sessions=command.sessions), command.browser)

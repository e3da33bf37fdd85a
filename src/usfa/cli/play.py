"""`usfa play`."""

from __future__ import annotations

import importlib.util

from usfa.cli.options import Play
from usfa.errors import InputError
from usfa.runs import SHIPPED_AGENTS

__all__ = ["run"]


def run(command: Play) -> None:
    for module in ("starlette", "uvicorn", "websockets"):
        if importlib.util.find_spec(module) is None:
            raise InputError(f"The playground needs {module}; install it with pip install 'usfa[web]'.")
    from usfa.playground import Address, Catalogue, Limits, serve

    address, limits = Address(command.host, command.port, command.allow_remote), Limits(sessions=command.sessions)
    others = () if command.environment is not None else tuple(SHIPPED_AGENTS)
    catalogue = Catalogue((command.first, *command.agent, *others), command.environment, command.trust)
    serve(catalogue, address, limits, command.browser)

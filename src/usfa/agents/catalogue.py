"""Agents by name, for configurations and saved files."""

from __future__ import annotations

from typing import Literal

from usfa.agents.agent import Agent, AgentSpec
from usfa.agents.usfa import UsfaAgent
from usfa.agents.uvfa import UvfaAgent
from usfa.networks import NetworkConfig

__all__ = ["AGENTS", "AgentKind", "make_agent"]

AgentKind = Literal["usfa", "uvfa"]

AGENTS: dict[AgentKind, type[Agent]] = {"usfa": UsfaAgent, "uvfa": UvfaAgent}


def make_agent(kind: AgentKind, spec: AgentSpec, network: NetworkConfig) -> Agent:
    return AGENTS[kind](spec, network)

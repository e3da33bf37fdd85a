"""Agents: three verbs over parameters that live outside of them (`initial_state`, `act`, `loss`)."""

from usfa.agents.agent import Actor, Agent, AgentSpec
from usfa.agents.catalogue import AGENTS, AgentKind, make_agent
from usfa.agents.tables import SfGpiTables, exact_sf_gpi
from usfa.agents.trained import AgentFile, Policy, TrainedAgent, load_agent, save_accuracy, save_agent
from usfa.agents.usfa import UsfaAgent
from usfa.agents.uvfa import UvfaAgent

__all__ = [
    "AGENTS",
    "Actor",
    "Agent",
    "AgentFile",
    "AgentKind",
    "AgentSpec",
    "Policy",
    "SfGpiTables",
    "TrainedAgent",
    "UsfaAgent",
    "UvfaAgent",
    "exact_sf_gpi",
    "load_agent",
    "make_agent",
    "save_accuracy",
    "save_agent",
]

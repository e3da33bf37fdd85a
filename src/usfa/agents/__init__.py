"""Agents: network, loss and values; trained agents and their files."""

from usfa.agents.agent import Agent, AgentSpec, prepared, values_and_targets
from usfa.agents.agent_files import (
    AGENT_FILES,
    AGENTS,
    AgentFile,
    check_weights,
    keep_phi,
    load_kept_phi,
    part_texts,
    read_agent,
    save_accuracy,
    save_agent,
    updated_settings,
)
from usfa.agents.onnx_model import NO_RULE, onnx_model
from usfa.agents.tables import SfGpiTables, exact_sf_gpi
from usfa.agents.trained import Policy, TrainedAgent, check_candidates, load_agent
from usfa.agents.usfa import UsfaAgent
from usfa.agents.uvfa import UvfaAgent

__all__ = [
    "AGENTS",
    "AGENT_FILES",
    "NO_RULE",
    "Agent",
    "AgentFile",
    "AgentSpec",
    "Policy",
    "SfGpiTables",
    "TrainedAgent",
    "UsfaAgent",
    "UvfaAgent",
    "check_candidates",
    "check_weights",
    "exact_sf_gpi",
    "keep_phi",
    "load_agent",
    "load_kept_phi",
    "onnx_model",
    "part_texts",
    "prepared",
    "read_agent",
    "save_accuracy",
    "save_agent",
    "updated_settings",
    "values_and_targets",
]

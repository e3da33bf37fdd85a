"""Agents that have learned nothing: what they do is arbitrary, and the same every time."""

import torch

from usfa.agents import AgentFile, AgentSpec, TrainedAgent, make_agent
from usfa.environments import ObservationSpec
from usfa.networks import NetworkConfig


def untrained(kind="usfa", environment="trip", spec=None, tasks=((1.0, 0.0), (0.0, 1.0))):
    spec = spec or AgentSpec(ObservationSpec((2,), 2), 8, 2)
    network = NetworkConfig(trunk=(8,), embedding=(8,), head=(8,))
    file = AgentFile(
        kind=kind,
        spec=spec,
        network=network,
        environment=environment,
        environment_arguments={},
        gamma=1.0,
        training_tasks=tasks,
        policies="box:0,1",
        seeds=(0,),
    )
    parameters = make_agent(kind, spec, network).initial_parameters(torch.Generator().manual_seed(0))
    return TrainedAgent(file, parameters, 0)

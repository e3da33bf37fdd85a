"""Agents that have learned nothing: what they do is arbitrary, and the same every time."""

from usfa.agents import AgentFile, AgentSpec, TrainedAgent
from usfa.environments import ObservationSpec
from usfa.networks import NetworkConfig


def untrained(kind="usfa", environment="trip", spec=None, tasks=((1.0, 0.0), (0.0, 1.0)), memory=0):
    spec = spec or AgentSpec(ObservationSpec((2,), 2), 8, 2)
    network = NetworkConfig(memory=memory, trunk=(8,), embedding=(8,), head=(8,))
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
    return TrainedAgent(file, file.agent().make_network(seed=0).state_dict(), 0)

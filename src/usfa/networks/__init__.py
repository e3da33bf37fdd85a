"""Networks as descriptions: layers say how to compute, parameters travel beside them as a dict of tensors."""

from usfa.networks.config import MNIH_2015, NetworkConfig
from usfa.networks.layers import Parameters, initial_parameters
from usfa.networks.runs import over_runs, select_run, stack_runs
from usfa.networks.universal import UniversalNetwork

__all__ = [
    "MNIH_2015",
    "NetworkConfig",
    "Parameters",
    "UniversalNetwork",
    "initial_parameters",
    "over_runs",
    "select_run",
    "stack_runs",
]

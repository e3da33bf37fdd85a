"""Networks as `torch.nn.Module`s, for one training run or several at once."""

from usfa.networks.config import MNIH_2015, NetworkConfig, convolutions_for
from usfa.networks.layers import Convolutions, mlp
from usfa.networks.parallel_runs import Parameters, Runs, over_runs
from usfa.networks.precision import Precision, autocast
from usfa.networks.universal import (
    NETWORKS,
    TRUNKS,
    Ensemble,
    Network,
    Sizes,
    StandardTrunk,
    Trunk,
    UniversalNetwork,
    make_network,
)
from usfa.networks.weights import read_weights

__all__ = [
    "MNIH_2015",
    "NETWORKS",
    "TRUNKS",
    "Convolutions",
    "Ensemble",
    "Network",
    "NetworkConfig",
    "Parameters",
    "Precision",
    "Runs",
    "Sizes",
    "StandardTrunk",
    "Trunk",
    "UniversalNetwork",
    "autocast",
    "convolutions_for",
    "make_network",
    "mlp",
    "over_runs",
    "read_weights",
]

"""Your own trunk, loss, D_z and decision rule: trained, saved, loaded and evaluated. Docs: docs/own-algorithm.md."""

import sys
import tempfile
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import usfa
from usfa.agents import UsfaAgent
from usfa.decisions import Decision, Situation
from usfa.functional import choose
from usfa.networks import Network, NetworkConfig, Sizes, Trunk
from usfa.samplers import PolicySampler
from usfa.tasks import Array
from usfa.trajectory import CoreState, Inputs


class SineTrunk(Trunk):
    def __init__(self, sizes: Sizes, config: NetworkConfig) -> None:
        super().__init__()
        self.features, self.batches_runs = 32, True
        self.layer = torch.nn.Linear(sizes.observation[0], self.features)

    def forward(self, inputs: Inputs, core_state: CoreState) -> tuple[torch.Tensor, CoreState]:
        return torch.sin(self.layer(inputs.observation)), core_state


class SmallWeightsAgent(UsfaAgent):
    def loss(self, network: Network, *arguments: Any) -> torch.Tensor:
        return super().loss(network, *arguments) + 1e-5 * sum(x.square().sum() for x in network.parameters())


class QuarterCircle(PolicySampler):
    def sample(self, w: Array, n: int, rng: np.random.Generator) -> Array:
        angle = rng.uniform(0, np.pi / 2, (*w.shape[:-1], n))
        return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


@dataclass(frozen=True)
class FixedMargin:
    margin: float

    def decide(self, situation: Situation) -> Decision:
        return Decision(*choose(situation.psi, situation.w, situation.z, situation.legal, margin=self.margin))


if __name__ == "__main__":
    directory = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    trip = usfa.preset("trip-usfa")
    network = replace(trip.network, trunk_class=SineTrunk)
    learner = replace(trip.learner, policies=QuarterCircle(), budget=100)
    evaluation = replace(trip.evaluation, final_rules=(FixedMargin(0.02),), snapshots=2)
    own = replace(trip, agent=SmallWeightsAgent, network=network, learner=learner, evaluation=evaluation, seeds=(0, 1))
    usfa.train(own, directory, existing="resume")
    agent = usfa.load(directory)  # in another process: import this module first, or load(directory, trust=True)
    print(usfa.evaluate(agent, "trip-directions", "sample:5", ["gpi", FixedMargin(0.02)]).groupby("rule").gap.mean())

"""A USFA whose ψ is exact: tables instead of a network, for any z; and small MDPs in which everything can be said."""

import torch
from torch import nn

from usfa.agents import AgentSpec, UsfaAgent
from usfa.environments import EnvironmentSource, ObservationSpec, TabularEnv
from usfa.functional import TabularMDP, optimal_policy, successor_features
from usfa.networks import Network, NetworkConfig

PARAMETERS = {"none": torch.zeros(1)}
"""The weights of :class:`ExactNetwork`, of one run: networks have at least one tensor."""


class ExactNetwork(Network):
    """ψ(s,a,z) of the optimal policy of z, times `promise`: z [K, D] -> a factor for each, [K]."""

    def __init__(self, mdp, promise):
        super().__init__()
        self.mdp, self.promise = mdp, promise
        self.known = {}
        self.none = nn.Parameter(torch.zeros(1))

    def forward(self, inputs, core_state, z):
        return torch.einsum("tbs,bnsad->tbnad", inputs.observation, self.tables(z)), core_state

    def tables(self, z):
        """[..., D] -> [..., S, A, D]."""
        rows = z.flatten(0, -2)
        for row in rows:
            if tuple(row.tolist()) not in self.known:
                exact = successor_features(self.mdp, optimal_policy(self.mdp, row.double()))
                self.known[tuple(row.tolist())] = (exact * self.promise(row[None])[0]).float()
        return torch.stack([self.known[tuple(row.tolist())] for row in rows]).unflatten(0, z.shape[:-1])


class ExactUsfa(UsfaAgent):
    """A USFA whose network is exact, but for the factor `promise`."""

    def __init__(self, mdp, promise=lambda z: torch.ones(len(z))):
        self.mdp, self.promise = mdp, promise
        spec = AgentSpec(ObservationSpec((mdp.states,), mdp.states), mdp.actions, mdp.features)
        super().__init__(spec, NetworkConfig())

    def build_network(self):
        return ExactNetwork(self.mdp, self.promise)


def deterministic(successors, phi, discount):
    """An MDP from tables: successors [S][A], φ [S][A][D] and the discount of every transition; it starts in state 0."""
    states, actions = len(successors), len(successors[0])
    transition = torch.zeros(states, actions, states, dtype=torch.float64)
    features = torch.zeros(states, actions, states, len(phi[0][0]), dtype=torch.float64)
    for state in range(states):
        for action in range(actions):
            transition[state, action, successors[state][action]] = 1
            features[state, action, successors[state][action]] = torch.tensor(phi[state][action], dtype=torch.float64)
    legal = torch.ones(states, actions, dtype=torch.bool)
    start = torch.eye(states, dtype=torch.float64)[0]
    return TabularMDP(transition, features, discount * torch.ones_like(transition), legal, start)


def plus_or_minus(gamma):
    """One state and one feature: φ is 1 or -1 at every step, for ever. A policy z has ψ = sign(z) / (1 - γ)."""
    return deterministic([[0, 0]], [[[1.0], [-1.0]]], gamma)


def ring(gamma, size=10):
    """Steps to the right (0), to the left (1), or none (2), around; φ counts steps to the right and to the left."""
    successors = [[(place + 1) % size, (place - 1) % size, place] for place in range(size)]
    return deterministic(successors, [[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]] * size, gamma)


def env_of(mdp):
    return TabularEnv(mdp, tuple(map(str, range(mdp.states))), tuple(map(str, range(mdp.actions))))


def source_of(mdp, wrap=lambda env: env):
    return EnvironmentSource(lambda: wrap(env_of(mdp)))

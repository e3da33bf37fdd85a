"""Hypothesis strategies for small random MDPs, made to catch leaks.

What must not count, φ of transitions that cannot happen and of illegal actions, holds large numbers.
"""

import numpy as np
import torch
from hypothesis import strategies as st

from usfa.functional import TabularMDP

LOUD = 1000.0

generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def tabular_mdps(draw, max_states=5, max_actions=4):
    """1-5 states, 1-4 actions, D = 1-3, γ < 0.95, random transitions, terminations and legal actions."""
    states, actions = draw(st.integers(1, max_states)), draw(st.integers(1, max_actions))
    features, gamma = draw(st.integers(1, 3)), draw(st.floats(0, 0.94))
    return random_mdp(draw(generators), states, actions, features, gamma)


def random_mdp(rng, states, actions, features, gamma):
    table = (states, actions, states)
    transition = rng.exponential(size=table) * (rng.random(table) < 0.6)
    transition += np.eye(states)[rng.integers(states, size=(states, actions))]
    transition /= transition.sum(axis=-1, keepdims=True)
    legal = rng.random((states, actions)) < 0.7
    legal[np.arange(states), rng.integers(actions, size=states)] = True
    phi = rng.standard_normal((*table, features))
    phi[transition == 0] = LOUD
    phi[~legal] = LOUD
    discount = gamma * (rng.random(table) > 0.2)
    start = rng.dirichlet(np.ones(states))
    return TabularMDP(*map(torch.from_numpy, (transition, phi, discount, legal, start)))


def random_tasks(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape))


def random_policies(rng, mdp, *shape):
    """Legal deterministic policies [*shape, S]."""
    preference = torch.from_numpy(rng.random((*shape, mdp.states, mdp.actions)))
    return preference.masked_fill(~mdp.legal, -1).argmax(dim=-1)

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call

from random_mdps import generators
from usfa.networks import (
    NetworkConfig,
    UniversalNetwork,
    initial_parameters,
    over_runs,
    select_run,
    stack_runs,
)
from usfa.trajectory import Trajectory

CONFIGS = [
    NetworkConfig(trunk=(6,), embedding=(4, 3), head=(5,)),
    NetworkConfig(trunk=(6, 7), embedding=(4,), head=(5, 4)),
]
OBSERVATION, D, A = 3, 2, 4


def generator(seed):
    return torch.Generator().manual_seed(seed)


def network_of(config, features=D):
    return UniversalNetwork(config, OBSERVATION, D, (A, features))


def slow_forward(config, parameters, state, z):
    """One observation and one policy, written as the paper draws it: concatenate, then the layers one by one."""

    def linear(name, x):
        return parameters[f"{name}.weight"] @ x + parameters[f"{name}.bias"]

    for layer in range(len(config.trunk)):
        state = linear(f"trunk.{2 * layer}", state).clamp(min=0)
    for layer in range(len(config.embedding)):
        z = linear(f"embedding.{2 * layer}", z).clamp(min=0)
    hidden = linear("join", torch.cat([state, z])).clamp(min=0)
    for layer in range(len(config.head) - 1):
        hidden = linear(f"head.{2 * layer}", hidden).clamp(min=0)
    return linear("output", hidden)


@given(generators, st.sampled_from(CONFIGS), st.sampled_from([D, 1]))
def test_network_is_the_literal_one_for_each_state_and_policy(rng, config, features):
    steps, batch, policies = 2, 3, 4
    network = network_of(config, features)
    parameters = {
        name: x.double() for name, x in initial_parameters(network, generator(int(rng.integers(1000)))).items()
    }
    observation = torch.from_numpy(rng.standard_normal((steps, batch, OBSERVATION)))
    z = torch.from_numpy(rng.standard_normal((batch, policies, D)))
    first = torch.zeros(steps, batch, dtype=torch.bool)
    psi, memory = functional_call(network, parameters, (observation, first, (), z))
    assert psi.shape == (steps, batch, policies, A, features)
    assert memory == ()
    for t, b, n in np.ndindex(steps, batch, policies):
        expected = slow_forward(config, parameters, observation[t, b], z[b, n])
        for a in range(A):  # all features of an action lie together
            torch.testing.assert_close(psi[t, b, n, a], expected[a * features : (a + 1) * features])


def test_same_generator_same_parameters():
    network = network_of(CONFIGS[0])
    one, two, other = (initial_parameters(network, generator(seed)) for seed in (0, 0, 1))
    assert one.keys() == two.keys() == {name for name, _ in network.named_parameters()}
    for name, x in one.items():
        assert torch.equal(x, two[name])
        assert not torch.equal(x, other[name])


def test_initialisation_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    initial_parameters(network_of(CONFIGS[1]), generator(0))
    assert torch.equal(torch.get_rng_state(), before)


def test_initialisation_is_torchs_own():
    """nn.Linear draws weights and biases from U(±1/√fan_in)."""
    network = UniversalNetwork(NetworkConfig((400,), (300,), (500,)), 25, D, (A, D))
    parameters = initial_parameters(network, generator(0))
    for name, fan_in in {"trunk.0": 25, "embedding.0": 2, "join": 700, "output": 500}.items():
        for x in (parameters[f"{name}.weight"], parameters[f"{name}.bias"]):
            assert x.abs().max() <= fan_in**-0.5
        weight = parameters[f"{name}.weight"]
        assert weight.abs().max() > 0.95 * fan_in**-0.5
        assert abs(float(weight.mean())) < 4 * fan_in**-0.5 / (3 * weight.numel()) ** 0.5


def test_layers_that_nobody_can_initialise_are_refused():
    with pytest.raises(NotImplementedError, match=r"No initialisation is defined for \['0.bias', '0.weight'\]"):
        initial_parameters(nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 2)), generator(0))


# --- runs side by side ---


def scalar_case(runs):
    """A function with every kind of argument that the library passes: parameters, a record, a tuple, a tensor."""
    rng = np.random.default_rng(runs)
    network = network_of(CONFIGS[0])
    parameters = stack_runs([initial_parameters(network, generator(seed)) for seed in range(runs)])

    def drawn(*shape):
        return torch.from_numpy(rng.standard_normal((runs, *shape))).float()

    trajectory = Trajectory(
        observation=drawn(2, 3, OBSERVATION),
        legal=drawn(2, 3, A) > 0,
        first=drawn(2, 3) > 0,
        action=drawn(1, 3).long(),
        phi=drawn(1, 3, D),
        discount=drawn(1, 3),
        w=drawn(3, D),
        core_state=(drawn(3, 2),),
    )

    def function(parameters, trajectory, z):
        psi, _ = functional_call(network, parameters, (trajectory.observation, trajectory.first, (), z))
        masked = psi.sum(dim=(2, 4)) * trajectory.legal
        return masked, (trajectory.core_state[0] * trajectory.discount[0, :, None], trajectory.phi.sum())

    return function, (parameters, trajectory, drawn(3, 5, D))


@pytest.mark.parametrize("runs", [1, 2, 5])
def test_over_runs_is_a_loop_over_runs(runs):
    function, (parameters, trajectory, z) = scalar_case(runs)
    found = over_runs(function, runs)(parameters, trajectory, z)
    for run in range(runs):
        mine = Trajectory(*(x[run] for x in trajectory[:-1]), core_state=(trajectory.core_state[0][run],))
        masked, (product, total) = function(select_run(parameters, run), mine, z[run])
        torch.testing.assert_close(found[0][run], masked)
        torch.testing.assert_close(found[1][0][run], product)
        torch.testing.assert_close(found[1][1][run], total)


@pytest.mark.parametrize("runs", [1, 3])
def test_gradients_of_a_run_are_its_own(runs):
    function, (parameters, trajectory, z) = scalar_case(runs)
    for x in parameters.values():
        x.requires_grad_()
    loss = over_runs(function, runs)(parameters, trajectory, z)[0].square().sum()
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    for run in range(runs):
        mine = {name: x[run].detach().requires_grad_() for name, x in parameters.items()}
        record = Trajectory(*(x[run] for x in trajectory[:-1]), core_state=(trajectory.core_state[0][run],))
        alone = torch.autograd.grad(function(mine, record, z[run])[0].square().sum(), list(mine.values()))
        for expected, found in zip(alone, gradients, strict=True):
            torch.testing.assert_close(found[run], expected)


def test_stack_and_select_are_inverse():
    network = network_of(CONFIGS[0])
    runs = [initial_parameters(network, generator(seed)) for seed in range(3)]
    stacked = stack_runs(runs)
    assert all(x.shape[0] == 3 for x in stacked.values())
    for index, run in enumerate(runs):
        assert all(torch.equal(x, run[name]) for name, x in select_run(stacked, index).items())

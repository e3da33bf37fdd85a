import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from random_mdps import generators
from usfa.errors import InputError
from usfa.networks import (
    NetworkConfig,
    UniversalNetwork,
    initial_parameters,
    over_runs,
    select_run,
    stack_runs,
)
from usfa.networks.layers import Dense
from usfa.networks.memory import FORGET_BIAS
from usfa.trajectory import Inputs, Trajectory

SMALL = NetworkConfig(trunk=(6,), embedding=(4, 3), head=(5,))
CONFIGS = [
    SMALL,
    NetworkConfig(trunk=(6, 7), embedding=(4,), head=(5, 4)),
    NetworkConfig(trunk=(6,), embedding=(4, 3), head=(5,), normalise=True),
    NetworkConfig(trunk=(6, 7), embedding=(4,), head=(5,), conditioning="inner-product"),
    NetworkConfig(trunk=(6,), embedding=(4,), head=(5,), conditioning="inner-product", normalise=True),
]
OBSERVATION, D, A = 3, 2, 4


def generator(seed):
    return torch.Generator().manual_seed(seed)


def network_of(config, features=D):
    return UniversalNetwork(config, (OBSERVATION,), D, (A, features))


def drawn(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape)).float()


def drawn_parameters(network, rng):
    """Initial parameters, but for the norms: those would scale by 1 and shift by 0, which hides them."""
    parameters = initial_parameters(network.layers(), generator(int(rng.integers(1000))))
    return {name: x + drawn(rng, *x.shape) / 2 if "norm" in name else x for name, x in parameters.items()}


def inputs_of(observation):
    """T steps in the middle of B episodes, for networks without memory."""
    shape = observation.shape[:2]
    return Inputs(observation, torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.bool))


def slow_forward(config, parameters, state, z):
    """One observation and one policy, written as the paper draws it: the layers one by one."""

    def linear(name, x):
        return parameters[f"{name}.weight"] @ x + parameters[f"{name}.bias"]

    for layer in range(len(config.trunk)):
        state = linear(f"trunk.{layer}", state).clamp(min=0)
    if config.normalise:
        centred = state - state.mean()
        scaled = centred / (centred.square().mean() + 1e-5).sqrt()
        state = parameters["state_norm.weight"] * scaled + parameters["state_norm.bias"]
    for layer in range(len(config.embedding)):
        z = linear(f"embedding.{layer}", z).clamp(min=0)
    if config.conditioning == "inner-product":
        return inner_product(parameters, state, z)
    hidden = linear("join", torch.cat([state, z])).clamp(min=0)
    for layer in range(len(config.head) - 1):
        hidden = linear(f"head.{layer}", hidden).clamp(min=0)
    return linear("output", hidden)


def inner_product(parameters, state, z):
    """Σ_k o_k (Σ_i F_ki f_i + b_k)⁺ (Σ_j G_kj g_j) + c for every output, number by number."""
    weight, bias, last = (parameters[name].tolist() for name in ("join.weight", "join.bias", "output.weight"))
    f, g = state.tolist(), z.tolist()
    outputs = parameters["output.bias"].clone()
    for output, k in np.ndindex(len(last), len(weight)):
        of_state = sum(weight[k][i] * f[i] for i in range(len(f))) + bias[k]
        of_policy = sum(weight[k][len(f) + j] * g[j] for j in range(len(g)))
        outputs[output] += last[output][k] * max(of_state, 0) * of_policy
    return outputs


@given(generators, st.sampled_from(CONFIGS), st.sampled_from([D, 1]))
def test_network_is_the_literal_one_for_each_state_and_policy(rng, config, features):
    steps, batch, policies = 2, 3, 4
    network = network_of(config, features)
    parameters = drawn_parameters(network, rng)
    observation, z = drawn(rng, steps, batch, OBSERVATION), drawn(rng, batch, policies, D)
    psi, memory = network(parameters, inputs_of(observation), (), z)
    assert psi.shape == (steps, batch, policies, A, features)
    assert memory == ()
    for t, b, n in np.ndindex(steps, batch, policies):
        expected = slow_forward(config, parameters, observation[t, b], z[b, n])
        for a in range(A):  # all features of an action lie together
            torch.testing.assert_close(psi[t, b, n, a], expected[a * features : (a + 1) * features])


@pytest.mark.parametrize("config", CONFIGS)
def test_the_trunk_sees_every_state_once_whatever_the_number_of_policies(monkeypatch, config):
    """And the embedding every policy once, whatever the number of steps."""
    rng, (steps, batch) = np.random.default_rng(0), (5, 3)
    network = network_of(config)
    parameters = drawn_parameters(network, rng)
    compute, seen = Dense.__call__, []

    def watched(self, parameters, x):
        seen.append((self.name, tuple(x.shape)))
        return compute(self, parameters, x)

    monkeypatch.setattr(Dense, "__call__", watched)
    for policies in (1, 30):
        seen.clear()
        network(parameters, inputs_of(drawn(rng, steps, batch, OBSERVATION)), (), drawn(rng, batch, policies, D))
        assert [shape for name, shape in seen if name == "trunk.0"] == [(steps, batch, OBSERVATION)]
        assert [shape for name, shape in seen if name == "embedding.0"] == [(batch, policies, D)]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"trunk": ()}, "network.trunk is (); expected one or more widths of at least 1."),
        ({"embedding": (4, 0)}, "network.embedding is (4, 0); expected one or more widths of at least 1."),
        ({"head": ()}, "network.head is (); expected one or more widths of at least 1."),
        ({"memory": -1}, "network.memory is -1; expected 0 or more units."),
        ({"scale": 0.0}, "network.scale is 0.0; expected a positive number."),
        ({"centre": (1.0, 2.0), "spread": (1.0,)}, "network.spread is (1.0,); expected 2 positive numbers."),
        ({"centre": (1.0,), "spread": (0.0,)}, "network.spread is (0.0,); expected 1 positive numbers."),
        (
            {"convolutions": ((8, 3, 0),)},
            "network.convolutions has (8, 3, 0); expected channels, kernel and stride from 1.",
        ),
        (
            {"conditioning": "inner-product", "head": (5, 4)},
            "network.head is (5, 4); an inner product has one width.",
        ),
    ],
)
def test_networks_that_cannot_be(settings, sentence):
    with pytest.raises(InputError) as error:
        NetworkConfig(**settings)
    assert str(error.value) == sentence


def test_outputs_are_scaled_and_inputs_centred_and_spread():
    rng = np.random.default_rng(0)
    parameters = drawn_parameters(network_of(SMALL), rng)
    observation, z = drawn(rng, 2, 3, OBSERVATION), drawn(rng, 3, 4, D)
    changed = network_of(replace(SMALL, centre=(1.0, 2.0, 3.0), spread=(0.5, 1.0, 2.0), scale=20.0))
    there = observation * torch.tensor([0.5, 1.0, 2.0]) + torch.tensor([1.0, 2.0, 3.0])
    expected = 20 * network_of(SMALL)(parameters, inputs_of(observation), (), z)[0]
    torch.testing.assert_close(changed(parameters, inputs_of(there), (), z)[0], expected)


def test_the_centre_has_to_fit_the_observation():
    with pytest.raises(InputError, match=r"^network\.centre has 1 entries; the observation has \(3,\)\.$"):
        network_of(replace(SMALL, centre=(1.0,), spread=(1.0,)))


# --- initialisation ---

EVERYTHING = NetworkConfig(
    convolutions=((16, 4, 2), (32, 3, 1)),
    memory=64,
    trunk=(48, 40),
    embedding=(32, 24),
    head=(56, 36),
    normalise=True,
)
FAN_IN = {
    "convolutions.0": 3 * 4 * 4,
    "convolutions.1": 16 * 3 * 3,
    "memory.input": 32 * 5 * 5 + A,
    "memory.recurrent": 64,
    "trunk.0": 64,
    "trunk.1": 48,
    "embedding.0": D,
    "embedding.1": 32,
    "join": 40 + 24,
    "head.0": 56,
    "output": 36,
}


def network_with_everything():
    return UniversalNetwork(EVERYTHING, (16, 16, 3), D, (A, D))


def test_initialisation_is_torchs_own():
    """As in nn.Linear and nn.Conv2d, which draw weights and biases from U(±1/√fan_in); norms start as the identity.

    Only the forget gates of the memory have more: they begin open.
    """
    parameters = initial_parameters(network_with_everything().layers(), generator(0))
    parameters["memory.input.bias"].chunk(4)[1].sub_(FORGET_BIAS)
    weights = {f"{name}.weight" for name in FAN_IN}
    biases = {f"{name}.bias" for name in FAN_IN if name != "memory.recurrent"}
    norms = {f"{name}.{part}" for name in ("image_norm", "state_norm") for part in ("weight", "bias")}
    assert parameters.keys() == weights | biases | norms
    for name in weights | biases:
        x, fan_in = parameters[name], FAN_IN[name.rpartition(".")[0]]
        assert x.abs().max() <= fan_in**-0.5
        if x.numel() > 200:
            assert x.abs().max() > 0.95 * fan_in**-0.5
            assert abs(float(x.mean())) < 4 * fan_in**-0.5 / (3 * x.numel()) ** 0.5
    for name in norms:
        assert (parameters[name] == (1 if name.endswith("weight") else 0)).all()


@pytest.mark.parametrize("create", [lambda: network_of(SMALL), network_with_everything])
def test_same_generator_same_parameters(create):
    network = create()
    one, two, other = (initial_parameters(network.layers(), generator(seed)) for seed in (0, 0, 1))
    assert one.keys() == two.keys() == other.keys()
    for name, x in one.items():
        assert torch.equal(x, two[name])
        assert torch.equal(x, other[name]) == ("norm" in name)


def test_shapes_are_those_of_the_parameters():
    network = network_with_everything()
    shapes = {name: shape for layer in network.layers() for name, shape in layer.shapes().items()}
    parameters = initial_parameters(network.layers(), generator(0))
    assert {name: tuple(x.shape) for name, x in parameters.items()} == shapes
    assert shapes["convolutions.1.weight"] == (32, 16, 3, 3)
    assert shapes["memory.input.weight"] == (4 * 64, 32 * 5 * 5 + A)
    assert shapes["output.weight"] == (A * D, 36)


def test_initialisation_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    initial_parameters(network_with_everything().layers(), generator(0))
    assert torch.equal(torch.get_rng_state(), before)


# --- runs side by side ---


def scalar_case(runs):
    """A function with every kind of argument that the library passes: parameters, a record, a tuple, a tensor."""
    rng = np.random.default_rng(runs)
    network = network_of(SMALL)
    parameters = stack_runs([initial_parameters(network.layers(), generator(seed)) for seed in range(runs)])
    trajectory = Trajectory(
        observation=drawn(rng, runs, 2, 3, OBSERVATION),
        previous_action=drawn(rng, runs, 2, 3).long(),
        legal=drawn(rng, runs, 2, 3, A) > 0,
        first=drawn(rng, runs, 2, 3) > 0,
        action=drawn(rng, runs, 1, 3).long(),
        phi=drawn(rng, runs, 1, 3, D),
        discount=drawn(rng, runs, 1, 3),
        w=drawn(rng, runs, 3, D),
        core_state=(drawn(rng, runs, 3, 2),),
    )

    def function(parameters, trajectory, z):
        psi, _ = network(parameters, trajectory.inputs, (), z)
        masked = psi.sum(dim=(2, 4)) * trajectory.legal
        return masked, (trajectory.core_state[0] * trajectory.discount[0, :, None], trajectory.phi.sum())

    return function, (parameters, trajectory, drawn(rng, runs, 3, 5, D))


RUNS = pytest.mark.parametrize(("runs", "batched"), [*itertools.product([1, 2, 5], [True, False])])


@RUNS
def test_over_runs_is_a_loop_over_runs(runs, batched):
    function, (parameters, trajectory, z) = scalar_case(runs)
    found = over_runs(function, parameters, batched)(trajectory, z)
    for run in range(runs):
        mine = Trajectory(*(x[run] for x in trajectory[:-1]), core_state=(trajectory.core_state[0][run],))
        masked, (product, total) = function(select_run(parameters, run), mine, z[run])
        torch.testing.assert_close(found[0][run], masked)
        torch.testing.assert_close(found[1][0][run], product)
        torch.testing.assert_close(found[1][1][run], total)


@pytest.mark.parametrize("batched", [True, False])
def test_several_runs_are_one_call_only_when_batched(batched):
    calls = []

    def function(parameters, x):
        calls.append(x)
        return parameters["scale"] * x

    assert over_runs(function, {"scale": torch.tensor([2, 3, 4])}, batched)(torch.arange(3)).tolist() == [0, 3, 8]
    assert len(calls) == (1 if batched else 3)


@RUNS
def test_gradients_of_a_run_are_its_own(runs, batched):
    function, (parameters, trajectory, z) = scalar_case(runs)
    for x in parameters.values():
        x.requires_grad_()
    loss = over_runs(function, parameters, batched)(trajectory, z)[0].square().sum()
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    for run in range(runs):
        mine = {name: x[run].detach().requires_grad_() for name, x in parameters.items()}
        record = Trajectory(*(x[run] for x in trajectory[:-1]), core_state=(trajectory.core_state[0][run],))
        alone = torch.autograd.grad(function(mine, record, z[run])[0].square().sum(), list(mine.values()))
        for expected, found in zip(alone, gradients, strict=True):
            torch.testing.assert_close(found[run], expected)


@given(generators)
def test_vector_networks_are_the_same_batched_and_one_by_one(rng):
    runs = int(rng.integers(2, 4))
    network = network_of(SMALL)
    parameters = stack_runs([drawn_parameters(network, rng) for _ in range(runs)])
    observation, z = drawn(rng, runs, 2, 3, OBSERVATION), drawn(rng, runs, 3, 4, D)

    def psi(parameters, observation, z):
        return network(parameters, inputs_of(observation), (), z)

    found, expected = (over_runs(psi, parameters, batched)(observation, z) for batched in (True, False))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("config", "observation", "expected"),
    [
        (SMALL, (OBSERVATION,), True),
        (NetworkConfig(memory=4), (OBSERVATION,), False),
        (NetworkConfig(convolutions=((4, 3, 2),)), (12, 12, 3), False),
    ],
)
def test_only_plain_networks_batch_their_runs(config, observation, expected):
    assert UniversalNetwork(config, observation, D, (A, D)).batches_runs is expected


def test_stack_and_select_are_inverse():
    network = network_of(SMALL)
    runs = [initial_parameters(network.layers(), generator(seed)) for seed in range(3)]
    stacked = stack_runs(runs)
    assert all(x.shape[0] == 3 for x in stacked.values())
    for index, run in enumerate(runs):
        assert all(torch.equal(x, run[name]) for name, x in select_run(stacked, index).items())

import copy
import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from random_mdps import generators
from usfa.agents import AgentSpec, UsfaAgent, values_and_targets
from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.networks import Network, NetworkConfig, Runs, Sizes, Trunk, UniversalNetwork, make_network, over_runs
from usfa.networks.layers import FORGET_BIAS
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


def network_of(config, features=D, seed=0, observation=(OBSERVATION,)):
    """A network with random weights from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return UniversalNetwork(Sizes(observation, A, D, features), config)


def drawn(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape)).float()


def drawn_network(config, rng, features=D):
    """Initial weights, but for the norms: those would scale by 1 and shift by 0, which hides them."""
    network = network_of(config, features, int(rng.integers(1000))).requires_grad_(False)
    for name, x in network.named_parameters():
        if "norm" in name:
            x += drawn(rng, *x.shape) / 2
    return network


def inputs_of(observation):
    """T steps in the middle of B episodes, for networks without memory."""
    shape = observation.shape[:2]
    return Inputs(observation, torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.bool))


def slow_forward(config, parameters, state, z):
    """One observation and one policy, written as the paper draws it: the layers one by one."""

    def linear(name, x):
        return parameters[f"{name}.weight"] @ x + parameters[f"{name}.bias"]

    for layer in range(len(config.trunk)):
        state = linear(f"trunk.layers.{layer}", state).clamp(min=0)
    if config.normalise:
        centred = state - state.mean()
        scaled = centred / (centred.square().mean() + 1e-5).sqrt()
        state = parameters["trunk.norm.weight"] * scaled + parameters["trunk.norm.bias"]
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
    network = drawn_network(config, rng, features)
    observation, z = drawn(rng, steps, batch, OBSERVATION), drawn(rng, batch, policies, D)
    psi, memory = network(inputs_of(observation), (), z)
    assert psi.shape == (steps, batch, policies, A, features)
    assert memory == ()
    for t, b, n in np.ndindex(steps, batch, policies):
        expected = slow_forward(config, network.state_dict(), observation[t, b], z[b, n])
        for a in range(A):  # all features of an action lie together
            torch.testing.assert_close(psi[t, b, n, a], expected[a * features : (a + 1) * features])


@pytest.mark.parametrize("config", CONFIGS)
def test_the_trunk_sees_every_state_once_whatever_the_number_of_policies(config):
    """And the embedding every policy once, whatever the number of steps."""
    rng, (steps, batch) = np.random.default_rng(0), (5, 3)
    network = drawn_network(config, rng)
    seen = {"trunk.layers.0": [], "embedding.0": []}
    for name, shapes in seen.items():
        layer = network.get_submodule(name)
        layer.register_forward_pre_hook(lambda _, x, shapes=shapes: shapes.append(tuple(x[0].shape)))
    for policies in (1, 30):
        for shapes in seen.values():
            shapes.clear()
        network(inputs_of(drawn(rng, steps, batch, OBSERVATION)), (), drawn(rng, batch, policies, D))
        assert seen == {"trunk.layers.0": [(steps, batch, OBSERVATION)], "embedding.0": [(batch, policies, D)]}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"trunk": ()}, "network.trunk is (); expected one or more widths of at least 1."),
        ({"embedding": (4, 0)}, "network.embedding is (4, 0); expected one or more widths of at least 1."),
        ({"head": ()}, "network.head is (); expected one or more widths of at least 1."),
        ({"memory": -1}, "network.memory is -1; expected 0 to 65,536 units."),
        ({"output_scale": 0.0}, "network.output_scale is 0.0; expected a positive number."),
        ({"obs_centre": (1.0, 2.0), "obs_scale": (1.0,)}, "network.obs_scale is (1.0,); expected 2 positive numbers."),
        ({"obs_centre": (1.0,), "obs_scale": (0.0,)}, "network.obs_scale is (0.0,); expected 1 positive numbers."),
        (
            {"convolutions": ((8, 3, 0),)},
            "network.convolutions has (8, 3, 0); expected channels, kernel and stride from 1 to 65,536.",
        ),
        (
            {"conditioning": "inner-product", "head": (5, 4)},
            "network.head is (5, 4); expected one width for an inner product.",
        ),
    ],
)
def test_networks_that_cannot_be(settings, sentence):
    with pytest.raises(InputError) as error:
        NetworkConfig(**settings)
    assert str(error.value) == sentence


def test_outputs_are_scaled_and_inputs_centred_and_spread():
    rng = np.random.default_rng(0)
    plain = drawn_network(SMALL, rng)
    observation, z = drawn(rng, 2, 3, OBSERVATION), drawn(rng, 3, 4, D)
    changed = network_of(replace(SMALL, obs_centre=(1.0, 2.0, 3.0), obs_scale=(0.5, 1.0, 2.0), output_scale=20.0))
    changed.load_state_dict(plain.state_dict())
    there = observation * torch.tensor([0.5, 1.0, 2.0]) + torch.tensor([1.0, 2.0, 3.0])
    expected = 20 * plain(inputs_of(observation), (), z)[0]
    torch.testing.assert_close(changed(inputs_of(there), (), z)[0], expected)


def test_the_centre_has_to_fit_the_observation():
    with pytest.raises(
        InputError, match=r"^network\.obs_centre has 1 entry; expected the shape of an observation, \(3,\)\.$"
    ):
        network_of(replace(SMALL, obs_centre=(1.0,), obs_scale=(1.0,)))


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
    "trunk.convolutions.0": 3 * 4 * 4,
    "trunk.convolutions.1": 16 * 3 * 3,
    "trunk.memory.input": 32 * 5 * 5 + A,
    "trunk.memory.recurrent": 64,
    "trunk.layers.0": 64,
    "trunk.layers.1": 48,
    "embedding.0": D,
    "embedding.1": 32,
    "join": 40 + 24,
    "head.0": 56,
    "output": 36,
}


def network_with_everything(seed=0):
    return network_of(EVERYTHING, seed=seed, observation=(16, 16, 3))


def test_initialisation_is_torchs_own():
    """As in nn.Linear and nn.Conv2d, which draw weights and biases from U(±1/√fan_in); norms start as the identity.

    Only the forget gates of the memory have more: they begin open.
    """
    parameters = network_with_everything().state_dict()
    parameters["trunk.memory.input.bias"].chunk(4)[1].sub_(FORGET_BIAS)
    weights = {f"{name}.weight" for name in FAN_IN}
    biases = {f"{name}.bias" for name in FAN_IN if name != "trunk.memory.recurrent"}
    norms = {f"{name}.{part}" for name in ("trunk.image_norm", "trunk.norm") for part in ("weight", "bias")}
    assert parameters.keys() == weights | biases | norms
    for name in weights | biases:
        x, fan_in = parameters[name], FAN_IN[name.rpartition(".")[0]]
        assert x.abs().max() <= fan_in**-0.5
        if x.numel() > 200:
            assert x.abs().max() > 0.95 * fan_in**-0.5
            assert abs(float(x.mean())) < 4 * fan_in**-0.5 / (3 * x.numel()) ** 0.5
    for name in norms:
        assert (parameters[name] == (1 if name.endswith("weight") else 0)).all()


@pytest.mark.parametrize("create", [lambda seed: network_of(SMALL, seed=seed), network_with_everything])
def test_same_seed_same_weights(create):
    one, two, other = (create(seed).state_dict() for seed in (0, 0, 1))
    assert one.keys() == two.keys() == other.keys()
    for name, x in one.items():
        assert torch.equal(x, two[name])
        assert torch.equal(x, other[name]) == ("norm" in name)


def test_shapes_follow_from_the_settings():
    shapes = {name: tuple(x.shape) for name, x in network_with_everything().state_dict().items()}
    assert shapes["trunk.convolutions.1.weight"] == (32, 16, 3, 3)
    assert shapes["trunk.memory.input.weight"] == (4 * 64, 32 * 5 * 5 + A)
    assert shapes["trunk.norm.weight"] == (40,)
    assert shapes["join.weight"] == (56, 40 + 24)
    assert shapes["output.weight"] == (A * D, 36)


def test_the_scale_of_observations_is_no_weight():
    """It comes from the configuration, so that files of weights do not change with it."""
    scaled = network_of(replace(SMALL, obs_centre=(1.0, 2.0, 3.0), obs_scale=(0.5, 1.0, 2.0)))
    assert scaled.state_dict().keys() == network_of(SMALL).state_dict().keys()


# --- runs side by side ---


def networks_of(runs, batched, rng):
    networks = [drawn_network(SMALL, rng).requires_grad_() for _ in range(runs)]
    for network in networks:
        network.trunk.batches_runs = batched
    return networks


def scalar_case(runs, batched):
    """A function with every kind of argument that the library passes: a network, a record, a tuple, a tensor."""
    rng = np.random.default_rng(runs)
    trajectory = Trajectory(
        observation=drawn(rng, runs, 2, 3, OBSERVATION),
        previous_action=drawn(rng, runs, 2, 3).long(),
        legal=drawn(rng, runs, 2, 3, A) > 0,
        first=drawn(rng, runs, 2, 3) > 0,
        action=drawn(rng, runs, 1, 3).long(),
        phi=drawn(rng, runs, 1, 3, D),
        discount=drawn(rng, runs, 1, 3),
        reward=drawn(rng, runs, 1, 3),
        w=drawn(rng, runs, 3, D),
        core_state=(drawn(rng, runs, 3, 2),),
    )

    def function(network, trajectory, z):
        psi, _ = network(trajectory.inputs, (), z)
        masked = psi.sum(dim=(2, 4)) * trajectory.legal
        return masked, (trajectory.core_state[0] * trajectory.discount[0, :, None], trajectory.phi.sum())

    return function, networks_of(runs, batched, rng), trajectory, drawn(rng, runs, 3, 5, D)


def of_run(trajectory, run):
    return Trajectory(*(x[run] for x in trajectory[:-1]), core_state=(trajectory.core_state[0][run],))


RUNS = pytest.mark.parametrize(("runs", "batched"), [*itertools.product([1, 2, 5], [True, False])])


@RUNS
def test_over_runs_is_a_loop_over_runs(runs, batched):
    function, networks, trajectory, z = scalar_case(runs, batched)
    alone = copy.deepcopy(networks)
    found = over_runs(function, Runs(networks))(trajectory, z)
    for run in range(runs):
        masked, (product, total) = function(alone[run], of_run(trajectory, run), z[run])
        torch.testing.assert_close(found[0][run], masked)
        torch.testing.assert_close(found[1][0][run], product)
        torch.testing.assert_close(found[1][1][run], total)


@RUNS
def test_functions_of_two_networks_get_those_of_the_same_run(runs, batched):
    rng = np.random.default_rng(runs)
    one, two = (Runs(networks_of(runs, batched, rng)) for _ in range(2))
    observation, z = drawn(rng, runs, 2, 3, OBSERVATION), drawn(rng, runs, 3, 4, D)

    def difference(network, target, observation, z):
        return network(inputs_of(observation), (), z)[0] - target(inputs_of(observation), (), z)[0]

    found = over_runs(difference, one, two)(observation, z)
    for run in range(runs):
        expected = difference(one.network(run), two.network(run), observation[run], z[run])
        torch.testing.assert_close(found[run], expected)


class Scaling(Network):
    """scale · x + shift; the shift is not trained."""

    def __init__(self, scale, batches_runs, shift=0.0):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))
        self.register_buffer("shift", torch.tensor(shift))
        self.batches_runs = batches_runs

    def forward(self, x):
        return self.scale * x + self.shift


@pytest.mark.parametrize("batched", [True, False])
def test_several_runs_are_one_call_only_when_batched(batched):
    calls = []

    def function(network, x):
        calls.append(x)
        return network(x)

    runs = Runs([Scaling(scale, batched) for scale in (2.0, 3.0, 4.0)])
    assert over_runs(function, runs)(torch.arange(3)).tolist() == [0, 3, 8]
    assert len(calls) == (1 if batched else 3)


@pytest.mark.parametrize("batched", [True, False])
def test_buffers_are_those_of_each_run(batched):
    """Also after other weights were loaded."""
    runs = Runs([Scaling(1.0, batched, shift) for shift in (10.0, 20.0)])
    function = over_runs(lambda network, x: network(x), runs)
    assert function(torch.arange(2)).tolist() == [10, 21]
    runs.load({"scale": torch.tensor([2.0, 3.0]), "shift": torch.tensor([30.0, 40.0])})
    assert function(torch.arange(2)).tolist() == [30, 43]
    assert [float(runs.network(run).shift) for run in range(2)] == [30, 40]


@pytest.mark.parametrize("batched", [True, False])
def test_frozen_parameters_have_no_gradient(batched):
    networks = [Scaling(scale, batched) for scale in (1.0, 2.0)]
    for network in networks:
        network.frozen = nn.Parameter(network.scale.detach() * 10, requires_grad=False)
    runs = Runs(networks)
    over_runs(lambda network, x: network(x) + network.frozen, runs)(torch.ones(2)).sum().backward()
    assert [gradient.flatten().tolist() for group in runs.gradients() for gradient in group] == (
        [[1, 1]] if batched else [[1], [1]]
    )
    assert over_runs(lambda network: network.frozen * 1, runs)().tolist() == [10, 20]


@RUNS
def test_gradients_of_a_run_are_its_own(runs, batched):
    function, networks, trajectory, z = scalar_case(runs, batched)
    alone, together = copy.deepcopy(networks), Runs(networks)
    over_runs(function, together)(trajectory, z)[0].square().sum().backward()
    groups = together.gradients()
    assert len(groups) == (1 if batched and runs > 1 else runs)
    for run in range(runs):
        function(alone[run], of_run(trajectory, run), z[run])[0].square().sum().backward()
        group, index = (groups[0], run) if len(groups) == 1 else (groups[run], 0)
        for x, found in zip(alone[run].parameters(), group, strict=True):
            torch.testing.assert_close(found[index], x.grad)


@given(generators)
def test_vector_networks_are_the_same_batched_and_one_by_one(rng):
    count = int(rng.integers(2, 4))
    networks = networks_of(count, True, rng)
    others = copy.deepcopy(networks)
    for network in others:
        network.trunk.batches_runs = False
    observation, z = drawn(rng, count, 2, 3, OBSERVATION), drawn(rng, count, 3, 4, D)

    def psi(network, observation, z):
        return network(inputs_of(observation), (), z)

    found, expected = (over_runs(psi, Runs(members))(observation, z) for members in (networks, others))
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
    networks = [network_of(config, observation=observation) for _ in range(2)]
    assert networks[0].batches_runs is expected
    assert Runs(networks).batched is expected
    assert not Runs(networks[:1]).batched


@pytest.mark.parametrize("batched", [True, False])
def test_weights_are_stored_together_and_each_run_has_its_own(batched):
    networks = networks_of(3, batched, np.random.default_rng(0))
    before = copy.deepcopy([network.state_dict() for network in networks])
    runs = Runs(networks)
    assert all(x.shape[0] == 3 for x in runs.state.values())
    for run in range(3):
        found = runs.network(run).state_dict()
        assert found.keys() == before[run].keys()
        assert all(torch.equal(x, before[run][name]) for name, x in found.items())


@pytest.mark.parametrize("batched", [True, False])
def test_an_optimiser_changes_the_stored_weights(batched):
    rng = np.random.default_rng(0)
    runs = Runs(networks_of(2, batched, rng))
    other = runs.copy()
    before = {name: x.clone() for name, x in runs.state.items()}
    optimizer = torch.optim.SGD(runs.trained, lr=0.5)
    for x in runs.trained:
        x.grad = torch.ones_like(x)
    optimizer.step()
    for name, x in before.items():
        torch.testing.assert_close(runs.state[name], x - 0.5)
        torch.testing.assert_close(runs.network(1).state_dict()[name], x[1] - 0.5)
        assert torch.equal(other.state[name], x)  # memory of its own


@pytest.mark.parametrize("batched", [True, False])
def test_weights_move_by_the_share_of_each_run(batched):
    rng = np.random.default_rng(0)
    runs, other = (Runs(networks_of(3, batched, rng)) for _ in range(2))
    before = {name: x.clone() for name, x in runs.state.items()}
    runs.lerp(other.state, torch.tensor([0.0, 0.25, 1.0]))
    for name, x in runs.state.items():
        assert torch.equal(x[0], before[name][0])
        torch.testing.assert_close(x[1], 0.75 * before[name][1] + 0.25 * other.state[name][1])
        assert torch.equal(x[2], other.state[name][2])
    runs.load(before)
    assert all(torch.equal(x, before[name]) for name, x in runs.state.items())


@RUNS
def test_held_policies_have_the_same_values_until_weights_change(runs, batched):
    """One of several networks is computed once per context, unless batched, and calls outside have gradients."""
    rng = np.random.default_rng(runs)
    networks = Runs(networks_of(runs, batched, rng))
    calls = []
    for network in networks.networks:
        network.embedding[0].register_forward_hook(lambda *_: calls.append(1))

    def values(network, observation, z):
        return network(inputs_of(observation), (), z)[0]

    call = over_runs(values, networks)
    observation, z = drawn(rng, runs, 2, 3, OBSERVATION), drawn(rng, runs, 3, 4, D)
    expected = call(observation, z)
    calls.clear()
    with networks.holding(z) as held:
        for _ in range(3):
            assert torch.equal(call(observation, held), expected)
        assert len(calls) == (3 if networks.batched else runs)
        assert not torch.equal(call(observation, z + 1), expected)
    with torch.no_grad():
        for x in networks.state.values():
            x *= 0.5
    changed = call(observation, z)
    assert not torch.allclose(changed, expected)
    changed.sum().backward()
    assert sum(map(len, networks.gradients())) == len(networks.trained)  # those of the embeddings, too


# --- networks and trunks of the user's own ---


class PlainTrunk(Trunk):
    """One layer of a width that is a setting of its own."""

    def __init__(self, sizes, config, width=5):
        super().__init__()
        self.features = width
        self.layer = nn.Linear(sizes.observation[0], width)

    def forward(self, inputs, core_state):
        return self.layer(inputs.observation), core_state


class PlainNetwork(Network):
    def __init__(self, sizes, config):
        super().__init__()
        self.psi = nn.Parameter(torch.ones(sizes.actions, sizes.outputs))

    def forward(self, inputs, core_state, z):
        shape = (*inputs.first.shape, z.shape[1])
        return self.psi.expand(*shape, *self.psi.shape), core_state


def test_own_trunks_are_used_by_our_network():
    for trunk, width in ((PlainTrunk, 5), (partial(PlainTrunk, width=7), 7)):
        config = replace(SMALL, trunk_class=trunk)
        assert config.trunk_class.startswith(f"{__name__}:PlainTrunk")
        network = make_network(Sizes((OBSERVATION,), A, D, D), config)
        assert isinstance(network, UniversalNetwork)
        assert network.join.weight.shape == (5, width + 3)
        psi, memory = network(inputs_of(torch.zeros(2, 3, OBSERVATION)), (), torch.zeros(3, 4, D))
        assert psi.shape == (2, 3, 4, A, D)
        assert memory == network.initial_state(3) == ()
        assert not network.batches_runs


class DoublingTrunk(PlainTrunk):
    def prepare(self, observation):
        return 2 * observation


def test_observations_are_prepared_for_acting_and_for_learning():
    spec = AgentSpec(ObservationSpec((OBSERVATION,)), A, D)
    plain, doubling = (UsfaAgent(spec, replace(SMALL, trunk_class=kind)) for kind in (PlainTrunk, DoublingTrunk))
    network, own = plain.make_network(seed=3), doubling.make_network(seed=3)
    rng = np.random.default_rng(0)
    _, _, trajectory, z = scalar_case(1, batched=False)
    one, z = of_run(trajectory, 0)._replace(core_state=()), z[0]
    twice = one._replace(observation=2 * one.observation)
    (expected,), targets = values_and_targets(network, twice, z, network)
    (found,), own_targets = values_and_targets(own, one, z, own)
    assert torch.equal(found, expected)
    assert torch.equal(own_targets, targets)
    seen = drawn(rng, 3, OBSERVATION)
    acted, _ = doubling.step(own, doubling.at_start(seen), z)
    assert torch.equal(acted, plain.step(network, plain.at_start(2 * seen), z)[0])
    assert not torch.equal(acted, plain.step(network, plain.at_start(seen), z)[0])


def test_own_networks_are_made_from_their_text():
    config = replace(SMALL, network_class=PlainNetwork)
    assert config.network_class == f"{__name__}:PlainNetwork"
    network = make_network(Sizes((OBSERVATION,), A, D, D), config)
    assert isinstance(network, PlainNetwork)
    psi, _ = network(inputs_of(torch.zeros(2, 3, OBSERVATION)), (), torch.zeros(3, 4, D))
    assert psi.shape == (2, 3, 4, A, D)

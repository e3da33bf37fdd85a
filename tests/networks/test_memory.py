import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call

from random_mdps import generators
from usfa.networks import NetworkConfig, Sizes, UniversalNetwork
from usfa.networks.layers import Memory
from usfa.trajectory import Inputs

B, SEEN, H = 3, 4, 5


def drawn(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape)).float()


def drawn_flags(rng, share, *shape):
    return torch.from_numpy(rng.random(shape) < share)


def drawn_memory(rng):
    """An LSTM, and a memory to begin with."""
    memory = Memory(SEEN, H)
    memory.load_state_dict({name: 2 * drawn(rng, *x.shape) for name, x in memory.state_dict().items()})
    return memory, (drawn(rng, B, H), drawn(rng, B, H))


def cell_of(memory):
    """PyTorch's own cell; it has a second bias, which adds nothing here."""
    cell = nn.LSTMCell(SEEN, H)
    own = {
        "weight_ih": memory.input.weight,
        "weight_hh": memory.recurrent.weight,
        "bias_ih": memory.input.bias,
        "bias_hh": torch.zeros(4 * H),
    }
    return lambda x, state: functional_call(cell, own, (x, state))


def slow_unroll(memory, x, first, core_state):
    """One environment after the other, one step after the other, from zero where an episode starts."""
    cell = cell_of(memory)
    outputs, last = [], []
    for b in range(x.shape[1]):
        h, c = core_state[0][b], core_state[1][b]
        of_b = []
        for t in range(len(x)):
            if first[t, b]:
                h, c = torch.zeros(H), torch.zeros(H)
            h, c = cell(x[t, b], (h, c))
            of_b.append(h)
        outputs.append(torch.stack(of_b))
        last.append((h, c))
    h, c = zip(*last, strict=True)
    return torch.stack(outputs, dim=1), (torch.stack(h), torch.stack(c))


CASES = given(generators, st.sampled_from([1, 2, 3, 8]), st.sampled_from([0.0, 0.2, 0.5, 1.0]))


@CASES
def test_memory_is_a_loop_of_cells_that_starts_anew_with_episodes(rng, steps, share):
    memory, core_state = drawn_memory(rng)
    x, first = drawn(rng, steps, B, SEEN), drawn_flags(rng, share, steps, B)
    output, last = memory(x, first, core_state)
    expected, expected_last = slow_unroll(memory, x, first, core_state)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(last, expected_last)


@CASES
def test_gradients_are_those_of_the_loop(rng, steps, share):
    """Through time, and not across the start of an episode."""
    memory, core_state = drawn_memory(rng)
    x, first = drawn(rng, steps, B, SEEN), drawn_flags(rng, share, steps, B)
    weights = drawn(rng, steps, B, H)
    leaves = [*memory.parameters(), *core_state, x]
    for leaf in (*core_state, x):
        leaf.requires_grad_()
    found, expected = (
        torch.autograd.grad((output * weights).sum() + last[1].sum(), leaves, materialize_grads=True)
        for output, last in (
            memory(x, first, core_state),
            slow_unroll(memory, x, first, core_state),
        )
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@CASES
def test_two_halves_are_the_whole(rng, steps, share):
    memory, core_state = drawn_memory(rng)
    x, first = drawn(rng, steps + 1, B, SEEN), drawn_flags(rng, share, steps + 1, B)
    whole, last = memory(x, first, core_state)
    cut = int(rng.integers(1, steps + 1))
    one, between = memory(x[:cut], first[:cut], core_state)
    two, end = memory(x[cut:], first[cut:], between)
    torch.testing.assert_close(torch.cat([one, two]), whole)
    torch.testing.assert_close(end, last)


def test_memory_starts_empty():
    h, c = Memory(SEEN, H).initial_state(B)
    assert h.shape == c.shape == (B, H)
    assert not h.any()
    assert not c.any()


# --- in the whole network ---

A, D, N = 3, 2, 4
CONFIGS = {
    "vectors": (NetworkConfig(memory=H, trunk=(32,), embedding=(8,), head=(32,)), (SEEN,)),
    "images": (
        NetworkConfig(((4, 4, 2), (6, 3, 2)), memory=H, trunk=(32,), embedding=(8,), head=(32,), normalise=True),
        (12, 12, 3),
    ),
}
NETWORKS = pytest.mark.parametrize(("config", "shape"), CONFIGS.values(), ids=CONFIGS)
T = 7


def case(config, shape, seed):
    """A recurrent network, T steps of inputs, a memory to begin with, and policies."""
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = UniversalNetwork(Sizes(shape, A, D, D), config).requires_grad_(False)
    for x in network.parameters():
        x *= 2
    seen = torch.from_numpy(rng.integers(256, size=(T, B, *shape), dtype=np.uint8))
    inputs = Inputs(
        seen if len(shape) == 3 else seen / 128 - 1,
        torch.from_numpy(rng.integers(A, size=(T, B))),
        drawn_flags(rng, 0.3, T, B),
    )
    core_state = (drawn(rng, B, H), drawn(rng, B, H))
    return network, inputs, core_state, drawn(rng, B, N, D)


def at(inputs, steps):
    return Inputs(*(x[steps] for x in inputs))


@NETWORKS
@pytest.mark.parametrize("seed", range(3))
def test_an_unroll_is_as_many_single_steps(config, shape, seed):
    network, inputs, core_state, z = case(config, shape, seed)
    psi, last = network(inputs, core_state, z)
    for t in range(T):
        one, core_state = network(at(inputs, slice(t, t + 1)), core_state, z)
        torch.testing.assert_close(one[0], psi[t])
    torch.testing.assert_close(core_state, last)


@NETWORKS
@pytest.mark.parametrize("seed", range(3))
def test_what_was_done_counts_until_the_episode_ends(config, shape, seed):
    """Another previous action changes its own step and those after it; none where it opens an episode."""
    network, inputs, core_state, z = case(config, shape, seed)
    psi, _ = network(inputs, core_state, z)
    for t, b in np.ndindex(T, B):
        other = inputs.previous_action.clone()
        other[t, b] = (other[t, b] + 1) % A
        changed, _ = network(inputs._replace(previous_action=other), core_state, z)
        expected = torch.zeros(T, B, dtype=torch.bool)
        for later in range(t, T):
            if inputs.first[later, b]:
                break
            expected[later, b] = True
        differs = ((changed - psi).abs() > 1e-6).flatten(2).any(dim=2)
        assert torch.equal(differs, expected)


@NETWORKS
def test_memory_matters_until_the_episode_ends(config, shape):
    network, inputs, core_state, z = case(config, shape, 0)
    inputs = inputs._replace(first=torch.zeros(T, B, dtype=torch.bool))
    inputs.first[3, 1] = True
    psi, _ = network(inputs, core_state, z)
    forgotten = network.initial_state(B)
    changed, _ = network(inputs, forgotten, z)
    differs = ((changed - psi).abs() > 1e-6).flatten(2).any(dim=2)
    assert differs[:3].all()
    assert differs.T.tolist()[1][3:] == [False] * (T - 3)
    assert differs[3:, [0, 2]].any()


@NETWORKS
def test_networks_look_once_whatever_the_number_of_policies(config, shape):
    network, inputs, core_state, z = case(config, shape, 0)
    parts, looks = [network.trunk.memory, network.trunk.convolutions], []
    for part in filter(None, parts):
        part.register_forward_pre_hook(lambda _, arguments: looks.append(tuple(arguments[0].shape[:2])))
    for policies in (1, 30):
        looks.clear()
        network(inputs, core_state, z[:, :1].expand(B, policies, D))
        assert looks == [(T, B)] * (1 if network.trunk.convolutions is None else 2)


def test_networks_without_memory_have_nothing_to_keep():
    network = UniversalNetwork(Sizes((SEEN,), A, D, D), NetworkConfig())
    assert network.initial_state(B) == ()

"""Agents with memory: what they learn from a trajectory, and how they act through an episode."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from usfa.agents import AGENTS, AgentFile, AgentSpec, TrainedAgent
from usfa.environments import ObservationSpec
from usfa.losses import LossSettings
from usfa.networks import NetworkConfig
from usfa.trajectory import Inputs, Trajectory, is_seam

T, B, N, A, D, S = 6, 4, 3, 3, 2, 5
GAMMA, LAMBDA = 0.9, 0.7
SPEC = AgentSpec(ObservationSpec((S,)), A, D)
NETWORK = NetworkConfig(memory=8, trunk=(16,), embedding=(8,), head=(16,), normalise=True)
IMAGES = AgentSpec(ObservationSpec((12, 12, 3)), A, D)
FROM_PIXELS = NetworkConfig(((4, 4, 2),), memory=8, trunk=(16,), embedding=(8,), head=(16,), normalise=True)
CASES = [
    ("usfa", SPEC, NETWORK),
    ("uvfa", SPEC, NETWORK),
    ("usfa", IMAGES, FROM_PIXELS),
    ("uvfa", IMAGES, FROM_PIXELS),
]
EVERY_AGENT = pytest.mark.parametrize(
    ("kind", "spec", "config"), CASES, ids=["usfa", "uvfa", "usfa from pixels", "uvfa from pixels"]
)


def drawn(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape)).float()


def drawn_observations(rng, spec, *shape):
    seen = torch.from_numpy(rng.integers(256, size=(*shape, *spec.observation.shape), dtype=np.uint8))
    return seen if len(spec.observation.shape) == 3 else seen / 128 - 1


def agent_and_network(kind, spec, config):
    agent = AGENTS.make(kind, spec, config)
    network = agent.make_network(seed=0)
    with torch.no_grad():
        for x in network.parameters():
            x *= 2
    return agent, network


def drawn_trajectory(rng, spec):
    """Terminations, seams, illegal actions and a memory from before."""
    terminates, seam = rng.random((2, T, B)) < 0.2
    first = np.concatenate([rng.random((1, B)) < 0.5, terminates | seam])
    legal = rng.random((T + 1, B, A)) < 0.8
    legal[..., 0] |= ~legal.any(axis=-1)
    action = np.where(legal, rng.random(legal.shape), -1).argmax(axis=-1)
    return Trajectory(
        observation=drawn_observations(rng, spec, T + 1, B),
        previous_action=torch.from_numpy(np.concatenate([rng.integers(A, size=(1, B)), action[:-1]])),
        legal=torch.from_numpy(legal),
        first=torch.from_numpy(first),
        action=torch.from_numpy(action[:-1]),
        phi=drawn(rng, T, B, D),
        discount=torch.from_numpy(np.where(terminates, 0, GAMMA)).float(),
        reward=torch.full((T, B), torch.nan),
        w=drawn(rng, B, D),
        core_state=(drawn(rng, B, 8), drawn(rng, B, 8)),
    )


def slow_values(network, trajectory, b, z):
    """ψ(s_t, ·, z), or Q(s_t, ·, z), of one environment and one policy, step by step: T+1 times [A, D]."""
    core_state = tuple(x[b : b + 1] for x in trajectory.core_state)
    values = []
    for t in range(T + 1):
        inputs = Inputs(*(x[t : t + 1, b : b + 1] for x in trajectory.inputs))
        found, core_state = network(inputs, core_state, z[None, None])
        values.append(found[0, 0, 0])
    return values


def slow_loss(network, trajectory, z, kind, target):
    """½ Σ (G - ψ)² for every t, b and z: Watkins' Q(λ), bootstrapped at the end, nothing across seams.

    The target network, where there is one, gives the actions of the policies and their values.
    """
    total = 0.0
    for b, n in np.ndindex(B, N):
        policy = z[b, n]
        values = slow_values(network, trajectory, b, policy)
        targets = [x.detach() for x in slow_values(target or network, trajectory, b, policy)]
        greedy = []
        for t in range(T + 1):
            q = (targets[t] @ policy if kind == "usfa" else targets[t][:, 0]).tolist()
            greedy.append(max(np.flatnonzero(trajectory.legal[t, b]), key=q.__getitem__))
        g = targets[T][greedy[T]]
        for t in reversed(range(T)):
            seam = bool(trajectory.first[t + 1, b]) and float(trajectory.discount[t, b]) > 0
            v = targets[t + 1][greedy[t + 1]]
            followed = t + 1 < T and int(trajectory.action[t + 1, b]) == greedy[t + 1]
            crosses = t + 1 < T and bool(trajectory.first[t + 2, b]) and float(trajectory.discount[t + 1, b]) > 0
            trace = LAMBDA if followed and not crosses else 0.0
            phi = trajectory.phi[t, b]
            cumulant = phi if kind == "usfa" else (phi @ policy)[None]
            g = cumulant + trajectory.discount[t, b] * ((1 - trace) * v + trace * g)
            if not seam:
                error = g - values[t][int(trajectory.action[t, b])]
                total = total + 0.5 * (error @ error)
    return total / (T * B * N)


@EVERY_AGENT
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("with_target", [False, True])
def test_loss_and_its_gradient_are_the_literal_ones(kind, spec, config, seed, with_target):
    rng = np.random.default_rng(seed)
    agent, network = agent_and_network(kind, spec, config)
    target = copy.deepcopy(network).requires_grad_(False) if with_target else None
    for x in target.parameters() if target is not None else ():
        x += drawn(rng, *x.shape) / 4
    trajectory, z = drawn_trajectory(rng, spec), drawn(rng, B, N, D)
    assert is_seam(trajectory).any()
    assert (trajectory.discount == 0).any()
    loss = agent.loss(network, trajectory, z, LossSettings(LAMBDA), target)
    expected = slow_loss(network, trajectory, z, kind, target)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    names, leaves = zip(*network.named_parameters(), strict=True)
    found, wanted = (torch.autograd.grad(x, leaves) for x in (loss, expected))
    for name, one, two in zip(names, found, wanted, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")
        assert one.abs().max() > 0, name


@EVERY_AGENT
def test_gradients_reach_the_values_of_what_was_done_only(kind, spec, config):
    """ψ(s_{t-1}, a_{t-1}, z) of real steps: not the targets, not the other actions, not the seams, not the end."""
    rng = np.random.default_rng(0)
    agent = AGENTS.make(kind, spec, config)
    trajectory, z = drawn_trajectory(rng, spec), drawn(rng, B, N, D)
    values = drawn(rng, T + 1, B, N, A, D if kind == "usfa" else 1).requires_grad_()
    network = SimpleNamespace(prepare=lambda seen: seen, each=lambda *_: (values,))
    (gradient,) = torch.autograd.grad(agent.loss(network, trajectory, z, LossSettings(LAMBDA)), values)
    expected = torch.zeros(T + 1, B, N, A, dtype=torch.bool)
    for t, b in np.ndindex(T, B):
        expected[t, b, :, trajectory.action[t, b]] = not is_seam(trajectory)[t, b]
    assert torch.equal((gradient != 0).all(dim=-1), expected)
    assert torch.equal((gradient != 0).any(dim=-1), expected)


def test_memory_learns_through_time():
    """What was seen early changes the loss of late steps, as far back as the episode goes."""
    rng = np.random.default_rng(0)
    _, network = agent_and_network("usfa", SPEC, NETWORK)
    trajectory, z = drawn_trajectory(rng, SPEC), drawn(rng, B, N, D)
    first = torch.zeros(T + 1, B, dtype=torch.bool)
    first[3, 0] = True
    trajectory = trajectory._replace(first=first, discount=torch.full((T, B), GAMMA))
    trajectory.observation.requires_grad_()
    psi, _ = network(trajectory.inputs, trajectory.core_state, z)
    (gradient,) = torch.autograd.grad(psi[5].square().sum(), trajectory.observation)
    reached = (gradient != 0).flatten(2).any(dim=2)
    assert reached.T.tolist() == [[3 <= t <= 5 if b == 0 else t <= 5 for t in range(T + 1)] for b in range(B)]


# --- acting ---


def trained(kind, spec, config):
    agent, network = agent_and_network(kind, spec, config)
    tasks = ((1.0, 0.0), (0.0, 1.0))
    file = AgentFile(kind, spec, "room", {}, GAMMA, tasks, "gaussian:0.1", (0,), network=config)
    return agent, TrainedAgent(file, network.state_dict(), 0)


@EVERY_AGENT
def test_a_policy_remembers_its_episode_and_forgets_it(kind, spec, config):
    """The actions are those of one unroll over the episode, fed with what was done; after a reset they come again."""
    rng = np.random.default_rng(1)
    agent, loaded = trained(kind, spec, config)
    policy = loaded.policy([0.5, -1.0], "task")
    z = torch.tensor([[[0.5, -1.0]]])
    episodes = [drawn_observations(rng, spec, T) for _ in range(3)]
    for episode in episodes:
        policy.reset()
        actions = [policy(observation.numpy()) for observation in episode]
        first = torch.arange(T)[:, None] == 0
        inputs = Inputs(episode[:, None], torch.tensor([0, *actions[:-1]])[:, None], first)
        values, _ = loaded.network(inputs, agent.initial_state(1), z)
        q = values[:, 0, 0] @ z[0, 0] if kind == "usfa" else values[:, 0, 0, :, 0]
        assert actions == q.argmax(dim=-1).tolist()


def test_without_a_reset_the_last_episode_is_remembered():
    rng = np.random.default_rng(0)
    _, loaded = trained("usfa", SPEC, NETWORK)
    observations = drawn_observations(rng, SPEC, 200).numpy()
    reset, kept = [], []
    remembering = loaded.policy([0.5, -1.0])
    for observation in observations:
        reset.append(loaded.policy([0.5, -1.0])(observation))
        kept.append(remembering(observation))
    assert reset != kept


@EVERY_AGENT
def test_values_are_those_at_the_start_of_an_episode(kind, spec, config):
    rng = np.random.default_rng(0)
    _, loaded = trained(kind, spec, config)
    observations = drawn_observations(rng, spec, 5).numpy()
    q = loaded.q_values(observations, [0.5, -1.0], "task")
    for index, observation in enumerate(observations):
        policy = loaded.policy([0.5, -1.0], "task")
        assert policy(observation) == q[index].argmax()
        np.testing.assert_allclose(loaded.q_values(observation, [0.5, -1.0], "task"), q[index], rtol=1e-4, atol=1e-5)

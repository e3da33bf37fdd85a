from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given

from random_mdps import generators, random_mdp, random_tasks
from usfa.agents import AGENTS, Agent, AgentSpec, SfGpiTables, UsfaAgent, UvfaAgent, exact_sf_gpi
from usfa.decisions import CandidateSet, Cautious, Follow, Gpi
from usfa.environments import ObservationSpec, trip_mdp
from usfa.errors import InputError
from usfa.functional import optimal_policy, successor_features
from usfa.losses import LossSettings
from usfa.networks import NetworkConfig
from usfa.trajectory import Trajectory

S, A, D, B, N = 4, 3, 2, 5, 3
SPEC = AgentSpec(ObservationSpec((S,), S), A, D)
NETWORK = NetworkConfig(trunk=(6,), embedding=(5, 4), head=(6,))


def agent_and_network(kind, seed=0):
    agent = AGENTS.make(kind, SPEC, NETWORK)
    return agent, agent.make_network(seed).requires_grad_(False)


def drawn(rng, *shape):
    return torch.from_numpy(rng.standard_normal(shape)).float()


def at(agent, network, observation, z):
    """The network on one observation [S] and one policy [D]: [A, D]."""
    return agent.step(network, agent.at_start(observation[None]), z[None, None])[0][0, 0]


def gpi_values(actor, network, present, w, z):
    """max_z of what a rule is shown, [B, A], without the legal actions being known."""
    situation, _ = actor.situation(network, present, w, CandidateSet.believed(z))
    return (situation.psi * situation.w[:, None, None]).sum(dim=-1).amax(dim=1)


def one_step(rng):
    """A trajectory of T = 1 with a termination, a seam and illegal actions among its B steps."""
    legal = torch.from_numpy(rng.random((2, B, A)) < 0.6)
    legal[:, :, 0] = True
    discount = torch.full((1, B), 0.9)
    discount[0, 0] = 0
    first = torch.zeros(2, B, dtype=torch.bool)
    first[1, 0] = first[1, 1] = True  # after the termination, and after a seam
    return Trajectory(
        observation=drawn(rng, 2, B, S),
        previous_action=torch.from_numpy(rng.integers(A, size=(2, B))),
        legal=legal,
        first=first,
        action=torch.from_numpy(rng.integers(A, size=(1, B))),
        phi=drawn(rng, 1, B, D),
        discount=discount,
        reward=torch.full_like(discount, torch.nan),
        w=drawn(rng, B, D),
        core_state=(),
    )


@given(generators)
def test_usfa_values_are_gpi_by_hand(rng):
    agent, network = agent_and_network("usfa")
    observation, w, z = drawn(rng, B, S), drawn(rng, B, D), drawn(rng, B, N, D)
    q = gpi_values(agent, network, agent.at_start(observation), w, z)
    decision, _ = agent.act(network, agent.at_start(observation), w, CandidateSet.believed(z), Gpi())
    torch.testing.assert_close(decision.q, q)
    for b in range(B):
        by_policy = [at(agent, network, observation[b], z[b, n]) @ w[b] for n in range(N)]
        torch.testing.assert_close(q[b], torch.stack(by_policy).amax(dim=0))


@given(generators)
def test_rules_are_shown_psi_and_what_is_known_about_it(rng):
    agent, network = agent_and_network("usfa")
    observation, w, z = drawn(rng, B, S), drawn(rng, B, D), drawn(rng, B, N, D)
    legal = torch.from_numpy(rng.random((B, A)) < 0.5)
    errors = (drawn(rng, *shape).abs() for shape in ((B, D), (B, N), (B,), (B,)))
    candidates = CandidateSet(z, *errors)
    present = agent.at_start(observation)._replace(legal=legal)
    situation, memory = agent.situation(network, present, w, candidates)
    assert memory == ()
    assert situation.psi.shape == (B, N, A, D)
    for b in range(B):
        for n in range(N):
            torch.testing.assert_close(situation.psi[b, n], at(agent, network, observation[b], z[b, n]))
    assert situation.w is w
    assert situation.z is z
    assert situation.legal is legal
    assert all(one is other for one, other in zip(situation[4:8], candidates[1:], strict=True))
    assert situation.state is None


def test_a_rule_is_given_back_its_state():
    class Remembering(Gpi):
        def decide(self, situation):
            seen.append(situation.state)
            return super().decide(situation)._replace(state=(torch.ones(1),))

    seen = []
    agent, network = agent_and_network("usfa")
    present, w = agent.at_start(torch.eye(S)[:1]), torch.ones(1, D)
    candidates = CandidateSet.believed(w[:, None])
    first, _ = agent.act(network, present, w, candidates, Remembering())
    agent.act(network, present, w, candidates, Remembering(), first.state)
    assert seen == [None, first.state]


@pytest.mark.parametrize(
    ("kind", "rule"), [("usfa", Gpi()), ("uvfa", Gpi()), ("uvfa", Follow()), ("uvfa", Cautious(2))]
)
def test_acting_is_greedy_among_the_legal(kind, rule):
    rng = np.random.default_rng(0)
    agent, network = agent_and_network(kind)
    observation, w, z = drawn(rng, 50, S), drawn(rng, 50, D), drawn(rng, 50, N, D)
    legal = torch.from_numpy(rng.random((50, A)) < 0.5)
    legal[:, 1] |= ~legal.any(dim=-1)
    present = agent.at_start(observation)._replace(legal=legal)
    # GPI does not care, and a UVFA has no policies.
    doubted = CandidateSet(z, torch.ones(50, D), torch.ones(50, N), torch.ones(50), torch.ones(50))
    (action, *_), memory = agent.act(network, present, w, doubted, rule)
    q = gpi_values(agent, network, present, w, z)
    assert memory == ()
    assert len(set(action.tolist())) == A
    for b in range(50):
        assert action[b] == max(np.flatnonzero(legal[b]), key=lambda a: q[b, a])


@given(generators)
def test_usfa_loss_is_algorithm_1_line_by_line(rng):
    agent, network = agent_and_network("usfa")
    step, z = one_step(rng), drawn(rng, B, N, D)
    total = 0.0
    for b in range(B):
        seam = bool(step.first[1, b]) and float(step.discount[0, b]) > 0
        for n in range(N):
            source = at(agent, network, step.observation[0, b], z[b, n])
            target = at(agent, network, step.observation[1, b], z[b, n])
            choices = np.flatnonzero(step.legal[1, b])
            best = max(choices, key=lambda a: float(target[a] @ z[b, n]))
            error = step.phi[0, b] + step.discount[0, b] * target[best] - source[step.action[0, b]]
            total = total + 0.5 * (error @ error) * (not seam)
    for lambda_ in (0.0, 0.9):  # one step leaves λ no choice
        torch.testing.assert_close(agent.loss(network, step, z, LossSettings(lambda_)), total / (B * N))


@given(generators)
def test_uvfa_loss_is_q_learning_for_every_task(rng):
    agent, network = agent_and_network("uvfa")
    step, z = one_step(rng), drawn(rng, B, N, D)
    total = 0.0
    for b in range(B):
        seam = bool(step.first[1, b]) and float(step.discount[0, b]) > 0
        for n in range(N):
            source = at(agent, network, step.observation[0, b], z[b, n])[:, 0]
            target = at(agent, network, step.observation[1, b], z[b, n])[:, 0]
            best = target[step.legal[1, b]].max()
            error = step.phi[0, b] @ z[b, n] + step.discount[0, b] * best - source[step.action[0, b]]
            total = total + 0.5 * error**2 * (not seam)
    torch.testing.assert_close(agent.loss(network, step, z, LossSettings(0.9)), total / (B * N))


@pytest.mark.parametrize("kind", ["usfa", "uvfa"])
def test_targets_carry_no_gradient(kind):
    rng = np.random.default_rng(1)
    agent, network = agent_and_network(kind)
    step, z = one_step(rng), drawn(rng, B, N, D)
    step.observation.requires_grad_()
    (gradient,) = torch.autograd.grad(agent.loss(network, step, z, LossSettings(0.9)), step.observation)
    assert gradient[0].abs().sum() > 0
    assert gradient[1].abs().sum() == 0


def test_uvfa_asks_its_task_only():
    rng = np.random.default_rng(2)
    agent, network = agent_and_network("uvfa")
    observation, w = drawn(rng, B, S), drawn(rng, B, D)
    present = agent.at_start(observation)
    one = gpi_values(agent, network, present, w, torch.cat([w[:, None], drawn(rng, B, N, D)], dim=1))
    two = gpi_values(agent, network, present, w, w[:, None])
    other = gpi_values(agent, network, present, w + 1, (w + 1)[:, None])
    assert torch.equal(one, two)
    assert not torch.allclose(one, other)
    for b in range(B):
        torch.testing.assert_close(one[b], at(agent, network, observation[b], w[b])[:, 0])


# --- making agents and networks ---


def test_agents_have_their_names():
    assert {name: AGENTS.find(name) for name in AGENTS} == {
        "usfa": UsfaAgent,
        "uvfa": UvfaAgent,
        "sf-gpi-tables": SfGpiTables,
    }


@pytest.mark.parametrize("kind", ["usfa", "uvfa"])
def test_a_seed_makes_the_network_whatever_the_global_generator(kind):
    torch.manual_seed(0)
    one = agent_and_network(kind, 5)[1].state_dict()
    torch.manual_seed(1)
    two, other = (agent_and_network(kind, seed)[1].state_dict() for seed in (5, 6))
    for name, x in one.items():
        assert torch.equal(x, two[name])
        assert not torch.equal(x, other[name])


def test_making_a_network_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    agent_and_network("usfa", 3)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("kind", "outputs"), [("usfa", A * D), ("uvfa", A)])
def test_shapes_are_known_before_there_is_a_network(kind, outputs):
    agent, network = agent_and_network(kind)
    shapes = agent.parameter_shapes()
    assert shapes == {name: tuple(x.shape) for name, x in network.state_dict().items()}
    assert shapes["output.weight"] == (outputs, 6)
    assert not agent.remembers


def test_networks_of_several_runs_from_their_weights():
    agent, _ = agent_and_network("usfa")
    members = [agent.make_network(seed).state_dict() for seed in (3, 4)]
    runs = agent.networks({name: torch.stack([member[name] for member in members]) for name in members[0]})
    for run, member in enumerate(members):
        assert all(torch.equal(x, member[name]) for name, x in runs.network(run).state_dict().items())


class HalfLoss(UsfaAgent):
    """An agent of the user's own: another loss, and a setting."""

    def __init__(self, spec, network, share=0.5):
        self.share = share
        super().__init__(spec, network)

    def loss(self, *arguments):
        return self.share * super().loss(*arguments)


@pytest.mark.parametrize(
    ("text", "share"), [(f"{__name__}:HalfLoss", 0.5), (f'{__name__}:HalfLoss{{"share": 0.25}}', 0.25)]
)
def test_own_agents_change_what_they_want_to(text, share):
    rng = np.random.default_rng(0)
    agent, network = agent_and_network(text)
    assert isinstance(agent, HalfLoss)
    step, z = one_step(rng), drawn(rng, B, N, D)
    expected = agent_and_network("usfa")[0].loss(network, step, z, LossSettings(0.9))
    torch.testing.assert_close(agent.loss(network, step, z, LossSettings(0.9)), share * expected)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("usfaa", r"^Unknown agent 'usfaa': did you mean 'usfa'\?"),
        (
            f'{__name__}:HalfLoss{{"shar": 1}}',
            r"^The agent '.*' cannot be made: .*unexpected keyword argument 'shar'\..*$",
        ),
        ("usfa.agents:Agent", r"^The agent 'usfa\.agents:Agent' cannot be made: .*abstract"),
        (
            "usfa.agents:AgentSpec",
            r"^The agent '.*' is <class '.*AgentSpec'>; expected a class derived from .*Agent\.$",
        ),
    ],
)
def test_agents_that_cannot_be_made(text, sentence):
    with pytest.raises(InputError, match=sentence):
        AGENTS.make(text, SPEC, NETWORK)


def test_agents_hold_no_weights():
    """They are made before any network, and sent to other processes."""
    agent, _ = agent_and_network("usfa")
    assert isinstance(agent, Agent)
    assert {x.device.type for x in agent._outline.parameters()} == {"meta"}


# --- SF&GPI from tables ---


@given(generators)
def test_tables_do_gpi_over_the_policies_asked_for(rng):
    mdp = random_mdp(rng, S, A, D, 0.8)
    tasks = random_tasks(rng, 4, D)
    actor, tables = exact_sf_gpi(mdp, tasks)
    assert actor.spec == replace(SPEC, masked=not bool(mdp.legal.all()))
    chosen = [3, 1]
    w = random_tasks(rng, S, D)
    states = torch.eye(S, dtype=torch.float64)
    q = gpi_values(actor, tables, actor.at_start(states), w, tasks[chosen].expand(S, -1, -1))
    psi = successor_features(mdp, optimal_policy(mdp, tasks[chosen]))
    for s in range(S):
        expected = torch.stack([psi[n, s] @ w[s] for n in range(2)]).amax(dim=0)
        torch.testing.assert_close(q[s], expected)


def test_tables_refuse_a_policy_they_do_not_have():
    actor, tables = exact_sf_gpi(trip_mdp(), torch.eye(2))
    z = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    with pytest.raises(InputError) as error:
        actor.situation(tables, actor.at_start(torch.eye(2)[:1]), torch.ones(1, 2), CandidateSet.believed(z))
    expected = "There is no table for policy z = [0.5, 0.5]; expected one of [[1.0, 0.0], [0.0, 1.0]]."
    assert str(error.value) == expected

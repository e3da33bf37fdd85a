"""Policies within an episode: changes of the task, batches, exploration, and threads."""

import numpy as np
import pytest
import torch

from usfa.agents import AgentFile, AgentSpec, TrainedAgent
from usfa.decisions import Decision, Follow, Gpi
from usfa.environments import ObservationSpec
from usfa.errors import InputError
from usfa.networks import NetworkConfig
from usfa.threads import threads

A, D, S = 5, 2, 4
VECTORS = AgentSpec(ObservationSpec((S,)), A, D)
IMAGES = AgentSpec(ObservationSpec((12, 12, 3)), A, D)
CONFIGS = {
    "vectors": (VECTORS, NetworkConfig(trunk=(8,), embedding=(6,), head=(8,))),
    "memory": (VECTORS, NetworkConfig(memory=8, trunk=(16,), embedding=(8, 8), head=(16, 8))),
    "inner product": (VECTORS, NetworkConfig(trunk=(8,), embedding=(6,), head=(8,), conditioning="inner-product")),
    "images": (IMAGES, NetworkConfig(((4, 4, 2), (6, 3, 1)), memory=8, trunk=(16,), head=(16,), normalise=True)),
}


def agent_of(name, kind="usfa"):
    spec, network = CONFIGS[name]
    file = AgentFile(kind, spec, "room", {}, 0.9, ((1.0, 0.0), (0.0, 1.0)), "gaussian:0.1", (0,), network=network)
    weights = {name: 2 * x for name, x in file.agent().make_network(seed=0).state_dict().items()}
    return TrainedAgent(file, weights, 0)


def observations(agent, *shape, seed=0):
    rng, spec = np.random.default_rng(seed), agent.file.spec.observation
    if spec.is_image:
        return rng.integers(256, size=(*shape, *spec.shape), dtype=np.uint8)
    return rng.standard_normal((*shape, *spec.shape)).astype(np.float32)


@pytest.fixture
def agent():
    return agent_of("memory")


# --- speed without a difference ---


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kind", ["usfa", "uvfa"])
def test_frozen_networks_give_the_same_values_to_the_bit(name, kind):
    frozen = agent_of(name, kind)
    plain = frozen.actor.make_network()
    plain.load_state_dict(frozen.network.state_dict())
    state = frozen.actor.initial_state(3)
    z = torch.from_numpy(np.random.default_rng(1).standard_normal((3, 4, D))).float()
    frozen.network.hold(z)
    for t in range(3):
        start = torch.from_numpy(observations(frozen, 3, seed=t))
        inputs = frozen.actor.at_start(start).inputs._replace(first=torch.tensor([[t == 0, False, t == 2]]))
        with torch.no_grad():
            expected, expected_state = plain(inputs, state, z)
        with torch.inference_mode():
            values, state = frozen.network(inputs, state, z)
            others, _ = frozen.network(inputs, state, z + 1)
        assert torch.equal(values, expected)
        assert not torch.equal(values, others)  # what is held for one z is not used for another
        assert all(map(torch.equal, state, expected_state))


def test_held_policies_are_used(agent):
    policy = agent.policy([1, 0])
    policy(observations(agent))
    network, calls = agent.network, []
    network.embedding[0].register_forward_hook(lambda *_: calls.append(1))
    policy(observations(agent))
    assert not calls
    policy.task = [0, 1]
    policy(observations(agent))
    policy(observations(agent))
    assert len(calls) == 1


@pytest.mark.parametrize("before", [1, 2])
def test_one_thread_while_the_library_computes_and_the_callers_afterwards(agent, before):
    seen = []

    class Watching(Gpi):
        def decide(self, situation):
            seen.append((torch.get_num_threads(), torch.is_inference_mode_enabled()))
            return Gpi.decide(self, situation)

    with threads(before):
        policy = agent.policy([1, 0], rule=Watching())
        policy(observations(agent))
        assert torch.get_num_threads() == before
        with pytest.raises(InputError):
            policy(np.zeros(S + 1, np.float32))
        assert torch.get_num_threads() == before
    assert seen == [(1, True)]


# --- changes within an episode ---


def test_the_task_can_change_within_an_episode_and_the_memory_stays(agent):
    seen = observations(agent, 6)
    policy, other = agent.policy([1, 0], "task"), agent.policy([1, 0], "task")
    for observation in seen[:3]:
        policy(observation), other(observation)
    policy.task = "0,1"
    assert policy.task.tolist() == policy.w.tolist() == [0, 1]
    assert policy.z.tolist() == [[0, 1]]  # C follows the task
    assert all(map(torch.equal, policy._now.memory, other._now.memory))
    fresh = agent.policy([0, 1], "task")
    policy(seen[3]), fresh(seen[3])
    assert not torch.equal(policy.decision.q, fresh.decision.q)  # which remembers nothing
    policy.task = [1, 0]
    other(seen[3])
    policy._now.last_action = other._now.last_action
    assert policy(seen[4]) == other(seen[4])
    assert torch.equal(policy.decision.q, other.decision.q)


def test_candidates_and_rule_can_change_within_an_episode(agent):
    policy = agent.policy([1, -1])
    policy(observations(agent))
    memory = policy._now.memory
    policy.candidates = "train+task"
    assert policy.candidates == "train+task"
    assert len(policy.z) == 3
    policy.candidates = [[1, 0], [0.5, 0.5]]
    assert policy.z.tolist() == [[1, 0], [0.5, 0.5]]
    policy.candidates = None
    assert policy.candidates == agent.default_candidates
    policy.rule = "follow"
    assert policy.rule == Follow()
    policy.rule = None
    assert policy.rule.name == agent.default_rule
    assert policy._now.memory is memory


def test_another_rule_starts_without_the_state_of_the_last(agent):
    class Clock:
        def decide(self, situation):
            time = torch.zeros(1) if situation.state is None else situation.state[0]
            nothing = torch.zeros(1, dtype=torch.int64)
            return Decision(time.long() % A, nothing, nothing > 0, torch.zeros(1, A), (time + 1,))

    policy, seen = agent.policy([1, 0], rule=Clock()), observations(agent)
    assert [policy(seen) for _ in range(3)] == [0, 1, 2]
    policy.task = [0, 1]
    assert policy(seen) == 3
    policy.rule = Clock()
    assert policy(seen) == 0


def test_what_is_given_and_what_is_shown_are_copies(agent):
    task = np.array([1.0, 0.0])
    policy = agent.policy(task)
    task[:] = policy.task[:] = policy.z[:] = 7
    assert policy.task.tolist() == [1, 0]
    assert policy.z.max() <= 1


@pytest.mark.parametrize("name", ["tsak", "memory", "w", "z", "decision", "agent"])
def test_unknown_and_fixed_attributes_are_refused(agent, name):
    with pytest.raises(InputError, match=rf"^Unknown attribute of a policy to set '{name}': "):
        setattr(agent.policy([1, 0]), name, 3)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"task": [1, 0, 0]}, "has 3 entries; expected 2"),
        ({"task": None}, "Task None"),
        ({"candidates": "trian"}, "did you mean 'train'"),
        ({"rule": "gpy"}, "did you mean 'gpi'"),
        ({"epsilon": 1.5}, r"epsilon is 1\.5; expected a number from 0 to 1"),
        ({"epsilon": "0.1"}, r"epsilon is '0\.1'; expected a number from 0 to 1"),
    ],
)
def test_wrong_settings_change_nothing(agent, change, sentence):
    policy = agent.policy([1, 0])
    ((name, value),) = change.items()
    before = policy(observations(agent)), str(policy), policy.z.tolist()
    with pytest.raises(InputError, match=sentence):
        setattr(policy, name, value)
    policy.reset()
    assert (policy(observations(agent)), str(policy), policy.z.tolist()) == before


# --- batches ---


@pytest.mark.parametrize("name", CONFIGS)
def test_a_batch_acts_as_its_environments_would_alone(name):
    agent = agent_of(name)
    together = agent.policy([1, -0.5])
    alone = [agent.policy([1, -0.5]) for _ in range(3)]
    for t, seen in enumerate(observations(agent, 8, 3)):
        if t == 4:  # the episode of one environment ends
            together.reset(np.array([False, True, False]))
            alone[1].reset()
        actions = together(seen)
        assert actions.dtype == np.int64
        assert actions.tolist() == [policy(one) for policy, one in zip(alone, seen, strict=True)]
        q = torch.cat([policy.decision.q for policy in alone])
        torch.testing.assert_close(together.decision.q, q, rtol=1e-4, atol=1e-5)
    together.reset()
    assert together(observations(agent, 5)).shape == (5,)


def test_a_batch_has_its_masks(agent):
    policy, seen = agent.policy([1, 0]), observations(agent, 2)
    assert policy(seen, np.eye(A)[[3, 1]]).tolist() == [3, 1]
    assert policy(seen, np.eye(A)[2]).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        (lambda policy, seen: policy(seen[:2]), "^The batch has 2 observations; expected 3, as since the last reset"),
        (lambda policy, seen: policy(seen[0]), "^The batch has 1 observations; expected 3"),
        (lambda policy, seen: policy(seen[:0]), r"^The observations have shape \(0, 4\)"),
        (lambda policy, seen: policy(seen[None]), r"^The observations have shape \(1, 3, 4\)"),
        (lambda policy, seen: policy(seen, np.ones((2, A))), "^legal is "),
        (lambda policy, seen: policy.reset([True, False]), r"^ended is \[True, False\]; expected 3 truth values"),
        (lambda policy, seen: policy.reset(1), "^ended is 1; expected 3 truth values"),
    ],
)
def test_batches_that_do_not_fit(agent, use, sentence):
    policy, seen = agent.policy([1, 0]), observations(agent, 3)
    policy(seen)
    with pytest.raises(InputError, match=sentence):
        use(policy, seen)


# --- exploration ---


def test_epsilon_takes_random_legal_actions_and_remembers_them(agent):
    seen, legal = observations(agent), [1, 0, 1, 1, 0]
    policy = agent.policy([1, 0], epsilon=1.0, seed=3)
    actions = [policy(seen, legal) for _ in range(200)]
    assert set(actions) == {0, 2, 3}
    assert min(actions.count(action) for action in (0, 2, 3)) > 40
    assert policy._now.last_action.tolist() == actions[-1:]
    again = agent.policy([1, 0], epsilon=1.0, seed=3)
    assert [again(seen, legal) for _ in range(200)] == actions


def test_epsilon_can_be_set_and_is_a_share_of_the_steps():
    agent = agent_of("vectors")  # without memory, so that the greedy action is always the same
    policy, seen = agent.policy([1, 0]), observations(agent)
    greedy = policy(seen)
    policy.epsilon = 0.5
    share = np.mean([policy(seen) != greedy for _ in range(1000)])
    assert 0.33 < share < 0.47  # half of the steps, of which one in five is greedy too
    policy.epsilon = 0
    assert {policy(seen) for _ in range(20)} == {greedy}

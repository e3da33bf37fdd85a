import numpy as np
import pytest
import torch
from torch import nn

from fake_environments import Scripted
from usfa.agents import Agent, AgentSpec
from usfa.decisions import CandidateSet, Situation
from usfa.environments import EnvironmentBatch, ObservationSpec
from usfa.learning.exploration import epsilon_greedy
from usfa.learning.rollout import Rollout
from usfa.networks import Network, NetworkConfig, Runs
from usfa.trajectory import is_seam

GAMMA = 0.9


def rngs(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


# --- ε-greedy ---


def random_case(runs=2, batch=4000, actions=4):
    rng = np.random.default_rng(0)
    legal = rng.random((runs, batch, actions)) < 0.5
    legal[..., 0] |= ~legal.any(axis=-1)
    greedy = np.where(legal, rng.random(legal.shape), -1).argmax(axis=-1)
    return greedy, legal


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_no_illegal_action_is_ever_taken(epsilon):
    greedy, legal = random_case()
    action = epsilon_greedy(greedy, legal, epsilon, rngs(1, 2))
    assert np.take_along_axis(legal, action[..., None], axis=-1).all()


def test_without_exploration_it_is_greedy():
    greedy, legal = random_case()
    assert np.array_equal(epsilon_greedy(greedy, legal, 0.0, rngs(1, 2)), greedy)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_frequencies(epsilon):
    """The greedy action with 1 - ε + ε/3, each of two others with ε/3, within 5 standard deviations."""
    draws = 20_000
    legal = np.broadcast_to([True, False, True, True], (1, draws, 4))
    action = epsilon_greedy(np.full((1, draws), 2), legal, epsilon, rngs(3))
    counts = np.bincount(action[0], minlength=4)
    p = np.array([epsilon / 3, 0, 1 - epsilon + epsilon / 3, epsilon / 3])
    assert (np.abs(counts - draws * p) <= 5 * np.sqrt(draws * p * (1 - p))).all()


def test_a_run_explores_by_its_own_generator():
    greedy, legal = random_case()
    one = epsilon_greedy(greedy, legal, 0.5, rngs(1, 2))
    two = epsilon_greedy(greedy, legal, 0.5, rngs(7, 2))
    alone = epsilon_greedy(greedy[1:], legal[1:], 0.5, rngs(2))
    assert np.array_equal(one[1], two[1])
    assert np.array_equal(one[1], alone[0])
    assert not np.array_equal(one[0], two[0])


# --- trajectories ---


class Scale(Network):
    """A weight by which all values are multiplied."""

    def __init__(self, batches_runs):
        super().__init__()
        self.batches_runs = batches_runs
        self.scale = nn.Parameter(torch.ones(()))

    def initial_state(self, batch):
        return (torch.zeros(batch, 1),)

    def forward(self, inputs, core_state, z):
        raise AssertionError("situation() does everything")


class Counter(Agent):
    """Takes action (step of the episode + first entry of w) mod 3, and counts its steps in a memory."""

    batches_runs = True

    def __init__(self):
        super().__init__(AgentSpec(ObservationSpec((2,)), 3, 2), NetworkConfig())

    def build_network(self):
        return Scale(self.batches_runs)

    def situation(self, network, present, w, candidates):
        wanted = (present.observation[:, 1] + w[:, 0]) % 3
        q = -(torch.arange(3) - wanted[:, None]).abs() * network.scale
        memory = torch.where(present.first[:, None], 0.0, present.core_state[0]) + 1
        one = torch.ones_like(w[:, :1])  # [B, 1]: one policy and one feature, which is the value
        errors = CandidateSet.believed(one[:, None])[1:]
        return Situation(q[:, None, :, None], one, one[:, None], present.legal, *errors), (memory,)

    def loss(self, *arguments):
        raise NotImplementedError


def rollout_of(agent, envs, runs, length):
    networks = Runs([agent.make_network() for _ in range(runs)])
    return Rollout(agent, networks, EnvironmentBatch(envs, GAMMA, range(len(envs))), length)


FIRST = [([1, 0], ""), ([0, 1], "terminated")]
SECOND = [([3, 0], ""), ([0, 3], "truncated")]


def scripted_rollout(length=3):
    """R = 2 runs of B = 2 environments: one terminates every 2 steps, the other is cut off and needs a seam."""
    envs = [Scripted([FIRST]), Scripted([SECOND]), Scripted([SECOND]), Scripted([FIRST, SECOND])]
    return rollout_of(Counter(), envs, 2, length), envs


W = torch.tensor([[[0.0, 1], [1, 1]], [[2, 1], [0, 0]]])  # [R, B, D]


def collect(rollout, epsilon=0.0):
    """Everything copied, because the buffers are reused."""
    found = rollout.collect(W, W[:, :, None], epsilon, rngs(0, 1))
    copied = [x.clone() for x in found.trajectory[:-1]]
    core = tuple(x.clone() for x in found.trajectory.core_state)
    return found._replace(trajectory=type(found.trajectory)(*copied, core_state=core))


def test_every_field_lines_up_with_what_the_environments_did():
    rollout, envs = scripted_rollout()
    found = collect(rollout)
    trajectory = found.trajectory
    assert trajectory.observation.shape == (2, 4, 2, 2)
    terminating = [[0, 0], [0, 1], [1, 0], [1, 1]]  # [episode, clock], the reset is at once
    truncating = [[0, 0], [0, 1], [0, 2], [1, 0]]  # the last observation, then the seam
    assert trajectory.observation[0, :, 0].tolist() == terminating
    assert trajectory.observation[0, :, 1].tolist() == truncating
    assert trajectory.observation[1, :, 0].tolist() == truncating
    assert trajectory.first[0].T.tolist() == [[True, False, True, False], [True, False, False, True]]
    assert trajectory.phi[0, :, 0].tolist() == [[1, 0], [0, 1], [1, 0]]
    assert trajectory.phi[0, :, 1].tolist() == [[3, 0], [0, 3], [0, 0]]
    gamma = np.float32(GAMMA)
    assert trajectory.discount[0].T.tolist() == [[gamma, 0, gamma], [gamma, gamma, gamma]]
    assert is_seam(trajectory._replace(**{k: getattr(trajectory, k)[0] for k in ("first", "discount")})).T.tolist() == [
        [False, False, False],
        [False, False, True],
    ]
    assert torch.equal(trajectory.w, W)
    assert trajectory.legal.all()
    for index, env in enumerate(envs):
        run, column = divmod(index, 2)
        clocks = trajectory.observation[run, :-1, column, 1]
        expected = ((clocks + W[run, column, 0]) % 3).long()
        assert trajectory.action[run, :, column].tolist() == expected.tolist()
        assert trajectory.previous_action[run, 1:, column].tolist() == expected.tolist()
        real = [a for t, a in enumerate(expected.tolist()) if not (trajectory.phi[run, t, column] == 0).all()]
        assert env.taken == real  # a seam has an action in the record, and none in the environment


def test_trajectories_overlap_in_one_observation():
    rollout, _ = scripted_rollout()
    before, after = collect(rollout).trajectory, collect(rollout).trajectory
    for name in ("observation", "previous_action", "first", "legal"):
        assert torch.equal(getattr(before, name)[:, -1], getattr(after, name)[:, 0])


def test_agents_are_told_what_they_did_before():
    """Also in the first step of the next trajectory."""
    told = []

    class Attentive(Counter):
        batches_runs = False

        def situation(self, network, present, w, candidates):
            told.append(present.previous_action.tolist())
            return super().situation(network, present, w, candidates)

    envs = [Scripted([FIRST]), Scripted([SECOND]), Scripted([SECOND]), Scripted([FIRST, SECOND])]
    rollout = rollout_of(Attentive(), envs, 2, 3)
    trajectories = [collect(rollout, epsilon=0.5).trajectory for _ in range(2)]
    taken = torch.cat([trajectory.action for trajectory in trajectories], dim=1)  # [R, 2 T, B]
    assert told[:2] == [[0, 0], [0, 0]]
    assert told[2:] == [taken[run, t].tolist() for t in range(5) for run in range(2)]


def test_memory_at_the_start_is_recorded_and_carried_on():
    rollout, _ = scripted_rollout()
    before, after = collect(rollout).trajectory, collect(rollout).trajectory
    assert before.core_state[0].flatten().tolist() == [0, 0, 0, 0]
    # Episodes of two steps: the first environment is in its second episode, the second at the seam after two steps.
    assert after.core_state[0][0].flatten().tolist() == [1, 3]


def test_frames_and_episodes_leave_out_seams():
    rollout, envs = scripted_rollout()
    frames, episodes, sums, where = np.zeros(2, int), np.zeros(2, int), [], []
    for _ in range(4):
        found = collect(rollout)
        frames += found.frames
        episodes += found.episodes
        sums += found.episode_phi.tolist()
        where += found.episode_environment.tolist()
    assert frames.tolist() == [len(envs[0].taken) + len(envs[1].taken), len(envs[2].taken) + len(envs[3].taken)]
    assert frames[0] == 12 + 8  # every third step of a cut-off episode is a seam
    assert episodes[0] == 6 + 4
    assert len(sums) == episodes.sum()
    assert sorted(map(tuple, sums)) == sorted([(1.0, 1.0)] * sums.count([1, 1]) + [(3.0, 3.0)] * sums.count([3, 3]))
    assert sums.count([3, 3]) >= 8
    by_environment = [[phi for phi, at in zip(sums, where, strict=True) if at == index] for index in range(4)]
    assert by_environment[:3] == [[[1, 1]] * 6, [[3, 3]] * 4, [[3, 3]] * 4]
    assert len(by_environment[2]) + len(by_environment[3]) == episodes[1]


def test_training_acts_by_eq_3_over_policies_that_are_believed():
    """z is [R, B, N, D]; whatever is known about errors of ψ is not for exploring."""
    asked = []

    class Asked(Counter):
        batches_runs = False

        def situation(self, network, present, w, candidates):
            asked.append(candidates)
            situation, memory = super().situation(network, present, w, candidates)
            # Two policies: the first one's own action is 0, and the second promises most for action 2.
            psi = torch.tensor([[[0.5], [0.0], [0.4]], [[0.9], [0.3], [1.0]]]).expand(len(w), -1, -1, -1)
            z = torch.tensor([[1.0], [-1.0]]).expand(len(w), -1, -1)
            return Situation(psi, situation.w, z, present.legal, *CandidateSet.believed(z)[1:]), memory

    envs = [Scripted([FIRST]), Scripted([SECOND])]
    rollout = rollout_of(Asked(), envs, 1, 1)
    z = torch.arange(8.0).reshape(1, 2, 2, 2)
    found = rollout.collect(W[:1], z, 0.0, rngs(0))
    assert found.trajectory.action.flatten().tolist() == [2, 2]
    (candidates,) = asked
    assert torch.equal(candidates.z, z[0])
    assert candidates.step_error.tolist() == [[0, 0], [0, 0]]
    assert candidates.optimism.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("batched", [True, False])
def test_actions_are_those_of_the_present_weights(batched, monkeypatch):
    """Each run by its own, also after they were changed in place."""
    monkeypatch.setattr(Counter, "batches_runs", batched)
    agent, envs = Counter(), [Scripted([FIRST]) for _ in range(2)]
    networks = Runs([agent.make_network() for _ in range(2)])
    rollout = Rollout(agent, networks, EnvironmentBatch(envs, GAMMA, range(2)), 1)
    w = torch.tensor([[[0.0, 1]], [[0.0, 1]]])
    for scale, expected in (([1.0, -1.0], [0, 2]), ([-1.0, 1.0], [0, 1])):
        networks.state["scale"].copy_(torch.tensor(scale))
        found = rollout.collect(w, w[:, :, None], 0.0, rngs(0, 1))
        assert found.trajectory.action.flatten().tolist() == expected


def test_no_episode_no_sums():
    rollout, _ = scripted_rollout(1)
    found = collect(rollout)
    assert found.episodes.tolist() == [0, 0]
    assert found.episode_phi.shape == (0, 2)
    assert found.episode_environment.shape == (0,)


def test_length_one_is_the_same_walk_in_slices():
    long, _ = scripted_rollout(6)
    short, _ = scripted_rollout(1)
    whole = collect(long).trajectory
    pieces = [collect(short).trajectory for _ in range(6)]
    for name in ("action", "phi", "discount"):
        assert torch.equal(getattr(whole, name), torch.cat([getattr(piece, name) for piece in pieces], dim=1))
    assert torch.equal(whole.observation[:, 1:], torch.cat([piece.observation[:, 1:] for piece in pieces], dim=1))


class Paid(Scripted):
    """Also has a scalar reward of its own, ten times its first feature."""

    def step(self, action):
        observation, phi, terminated, truncated, info = super().step(action)
        return observation, phi, terminated, truncated, {**info, "scalar_reward": 10 * phi[0]}


def test_scalar_rewards_travel_where_environments_have_them():
    envs = [Paid([FIRST]), Scripted([SECOND]), Scripted([SECOND]), Paid([SECOND])]
    reward = collect(rollout_of(Counter(), envs, 2, 3)).trajectory.reward
    assert reward[0, :, 0].tolist() == [10, 0, 10]
    assert reward[1, :, 0].isnan().all()
    assert reward[0, :, 1].isnan().all()
    assert reward[1, :2, 1].tolist() == [30, 0]
    assert reward[1, 2, 1].isnan()  # a seam

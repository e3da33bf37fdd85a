"""How wrong ψ is, measured: against exact tables, known over-promising, and the literal formulas."""

import gymnasium as gym
import numpy as np
import pytest
import torch

import usfa
from exact_agents import ExactNetwork, ExactUsfa, deterministic, plus_or_minus, ring, source_of
from fake_agents import untrained
from usfa.agents import save_agent
from usfa.environments import trip_mdp
from usfa.errors import InputError
from usfa.evaluation import accuracy_of, measured_accuracy
from usfa.evaluation.accuracy import _around, _envelope, _Followed, _optimism, _step_errors
from usfa.runs import measure_and_save
from usfa.samplers import LearnedPolicies, parse_sampler

GAMMA = 0.9375
STEPS = 64  # 4 / (1 - γ), of which the first half is judged


def learned(tasks, policies="train", acted_on="resampled"):
    tasks = np.array(tasks, np.float64)
    return LearnedPolicies(tasks, parse_sampler(policies, tasks), acted_on)


def measured(agent, tasks, policies="train", gamma=GAMMA, frames=0, seed=0, wrap=lambda env: env):
    rng = np.random.default_rng(seed)
    return measured_accuracy(
        agent, agent.make_network(), source_of(agent.mdp, wrap), learned(tasks, policies), gamma, frames, rng
    )


# --- whole ---


@pytest.mark.parametrize(
    ("mdp", "gamma", "wrap"),
    [
        (ring(GAMMA), GAMMA, lambda env: env),
        (ring(GAMMA), GAMMA, lambda env: gym.wrappers.TimeLimit(env, 7)),  # what was cut off is not over
        (trip_mdp(), 1.0, lambda env: env),
    ],
    ids=["without end", "cut off", "in episodes"],
)
def test_an_exact_psi_is_not_wrong(mdp, gamma, wrap):
    accuracy = measured(ExactUsfa(mdp), np.eye(2), gamma=gamma, wrap=wrap)
    assert max(accuracy.step_error) < 1e-5
    distances, shares = zip(*accuracy.optimism, strict=True)
    assert max(shares) < 1e-5
    assert distances[0] == 0
    assert distances[-1] > 0.5


@pytest.mark.parametrize("factor", [1.25, 0.8])
def test_a_psi_that_is_too_long_contradicts_itself_from_step_to_step(factor):
    """ψ' = cψ, and φ = (1-γ)ψ: then |φ + γψ' - ψ'| = |1-c| (1-γ) |ψ|."""
    agent = ExactUsfa(plus_or_minus(GAMMA), lambda z: torch.full((len(z),), factor))
    accuracy = measured(agent, [[1.0], [-1.0]])
    assert accuracy.step_error == pytest.approx([abs(1 - factor) * (1 - GAMMA) / factor], abs=2e-5)


@pytest.mark.parametrize(("factor", "frames"), [(1.5, 0), (3.0, 0), (1.5, 100_000)])
def test_what_far_policies_promise_in_vain(factor, frames, monkeypatch):
    """ψ' = cψ beyond a distance of 0.5 from M. Of T steps the first half is judged, with what is left of T discounted
    by γ^(T-t) and promised, so that a share (c-1)/c · (1-γ^(T-t)) of every promise is seen to be in vain.
    """
    agent = ExactUsfa(plus_or_minus(GAMMA), lambda z: torch.where((z[:, 0] - 1).abs() > 0.5, factor, 1.0))
    careful = dict(measured(agent, [[1.0]], frames=frames).optimism)
    monkeypatch.setattr("usfa.evaluation.accuracy._DEVIATIONS", 0)  # the mean alone
    accuracy = measured(agent, [[1.0]], frames=frames)
    expected = (factor - 1) / factor * np.mean([1 - GAMMA ** (STEPS - t) for t in range(STEPS // 2)])
    assert accuracy.step_error == (0.0,)
    optimism = dict(accuracy.optimism)
    assert list(optimism) == pytest.approx(np.linspace(0, 1.5, 9).tolist())
    assert [optimism[d] for d in (0.0, 0.1875)] == [0, 0]
    assert [optimism[d] for d in (0.9375, 1.125, 1.3125, 1.5)] == pytest.approx([expected] * 4, abs=2e-5)
    assert careful[0.0] == 0
    assert careful[1.5] >= expected - 2e-5


def test_a_psi_that_promises_too_little_is_no_optimist():
    agent = ExactUsfa(plus_or_minus(GAMMA), lambda z: torch.full((len(z),), 0.5))
    assert {share for _, share in measured(agent, [[1.0]]).optimism} == {0.0}


def test_rewards_that_never_come_are_no_accuracy():
    """ψ is 0 everywhere: nothing is promised, nothing is at stake, and nothing is divided by."""
    idle = deterministic([[0, 0]], [[[0.0, 0.0], [0.0, 0.0]]], GAMMA)
    accuracy = measured(ExactUsfa(idle), np.eye(2))
    assert accuracy.step_error == (0, 0)
    assert {share for _, share in accuracy.optimism} == {0.0}


def test_measuring_repeats_with_its_generator():
    agent = usfa.load("trip")
    environments = usfa.evaluation.environments_of(agent, trust=False)
    settings = (agent.actor, agent.network, environments, agent.learned, 1.0, 3000)
    found = [measured_accuracy(*settings, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]


def test_measuring_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    accuracy_of(usfa.load("trip"))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("gamma", "frames", "steps", "size"),
    [
        (GAMMA, 0, 64, 24),
        (0.5, 0, 32, 24),  # not fewer steps
        (0.999, 0, 400, 24),  # not more
        (1.0, 0, 32, 24),
        (GAMMA, 64 * 60, 64, 58),  # 10 along M, and four for each of 12 policies around
        (GAMMA, 10**9, 64, 192),
    ],
)
def test_how_much_is_acted(gamma, frames, steps, size):
    asked = []

    class Counting(ExactNetwork):
        def forward(self, inputs, core_state, z):
            asked.append(tuple(inputs.observation.shape[:2]))
            return super().forward(inputs, core_state, z)

    class Counted(ExactUsfa):
        def build_network(self):
            return Counting(self.mdp, self.promise)

    measured(Counted(plus_or_minus(0.9)), [[1.0]], gamma=gamma, frames=frames)
    assert asked[-1] == (steps + 1, size)
    assert asked[:-1] == [(1, size)] * steps


# --- parts ---


def followed(psi, step_error=None, return_error=None, real=None):
    psi = torch.tensor(psi)
    none = torch.zeros_like(psi)
    return _Followed(
        psi,
        none if step_error is None else torch.tensor(step_error),
        none if return_error is None else torch.tensor(return_error),
        torch.ones(psi.shape[:2], dtype=torch.bool) if real is None else torch.tensor(real),
    )


def test_a_feature_is_judged_along_policies_that_do_not_care_about_it():
    """[T = 3, B = 2, D = 2]. Policy 0 wants feature 0, policy 1 wants feature 1; seams do not count."""
    psi = [[[9.0, 2.0], [4.0, 9.0]], [[9.0, -4.0], [1.0, 9.0]], [[9.0, 99.0], [1.0, 9.0]]]
    errors = [[[7.0, 0.3], [-1.0, 7.0]], [[7.0, -0.9], [0.2, 7.0]], [[7.0, 77.0], [0.4, 7.0]]]
    real = [[True, True], [True, True], [False, True]]
    found = _step_errors(followed(psi, errors, real=real), np.eye(2), slice(0, 2))
    assert found == pytest.approx([0.4 / 2, 0.3 / 3])  # of two, the lower is the median


def test_a_feature_that_everyone_cares_about_is_judged_along_everyone():
    psi, errors = [[[1.0, 1.0], [3.0, 1.0]]], [[[0.5, 0.1], [0.5, 0.1]]]
    found = _step_errors(followed(psi, errors), np.array([[1.0, 0.9], [-1.0, 0.4]]), slice(0, 2))
    assert found == pytest.approx([0.5 / 2, 0.1])


def test_policies_away_from_m_do_not_judge_steps():
    psi, errors = [[[1.0], [1.0]]], [[[0.1], [50.0]]]
    assert _step_errors(followed(psi, errors), np.array([[1.0], [0.1]]), slice(0, 1)) == pytest.approx([0.1])


def test_optimism_is_a_share_of_all_that_was_at_stake():
    """Two environments of one policy are one; wishes and dislikes both count to the stake. [T = 2, B = 3, D = 2]."""
    z = np.array([[1.0, 0.0], [1.0, -2.0], [1.0, -2.0]])
    psi = [[[5.0, 1.0], [4.0, 1.0], [2.0, 3.0]], [[5.0, 1.0], [4.0, 1.0], [99.0, 99.0]]]
    less = [[[0.0, 0.0], [-1.0, 0.5], [0.0, 1.0]], [[0.0, 0.0], [-1.0, 0.0], [99.0, 99.0]]]
    real = [[True, True, True], [True, True, False]]
    found = _optimism(followed(psi, return_error=less, real=real), z, np.array([0.0, 1.0, 1.0]))
    vain = (1 + 2 * 0.5) + (2 * 1.0) + 1
    staked = (4 + 2) + (2 + 6) + (4 + 2)
    assert dict(found)[0.0] == 0
    assert dict(found)[1.0] == pytest.approx(vain / staked, abs=1e-5)


def test_the_envelope_is_what_hardly_any_policy_exceeds():
    """At 9 distances, mean and three standard deviations of those within a grid cell, and never falling."""
    rng = np.random.default_rng(0)
    distance, shares = rng.uniform(0, 4, 200), rng.uniform(-0.2, 0.4, 200)
    distance[0] = 4.0
    shares += 0.1 * distance
    found = _envelope(distance, shares)
    grid, levels = np.linspace(0, 4, 9), []
    for place in grid:
        near = [share for share, at in zip(shares, distance, strict=True) if abs(at - place) <= 0.5]
        levels.append(np.mean(near) + 3 * np.std(near))
    expected = [max(0.0, *levels[: index + 1]) for index in range(9)]
    assert [at for at, _ in found] == pytest.approx(grid)
    assert [share for _, share in found] == pytest.approx(expected, abs=1e-5)
    assert expected[-1] > expected[0]


@pytest.mark.parametrize("seed", range(5))
def test_the_envelope_rises_and_has_no_limit(seed):
    """A policy that promises much may have a negative return: more than its promise is then in vain."""
    rng = np.random.default_rng(seed)
    _, shares = zip(*_envelope(rng.uniform(0, 3, 15), rng.normal(0, 2, 15)), strict=True)
    assert min(shares) >= 0
    assert (np.diff(shares) >= 0).all()
    assert shares[-1] > 1


def test_an_envelope_of_pessimists_is_nothing():
    assert {share for _, share in _envelope(np.linspace(0, 2, 20), np.full(20, -0.3))} == {0.0}


def test_an_envelope_of_learned_policies_only_is_one_point():
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    assert _envelope(np.zeros(4), shares) == [(0.0, round(0.25 + 3 * shares.std(), 5))]


@pytest.mark.parametrize("farthest", [1e-16, 1e-6, 1.0])
def test_distances_grow_however_small_they_are(farthest):
    """An accuracy refuses distances that do not grow; of D_z on the simplex, rounding leaves some of 1e-16."""
    found = _envelope(np.linspace(0, farthest, 20), np.full(20, 0.1))
    assert usfa.decisions.Accuracy((0.1,), tuple(found)).optimism[-1] == (farthest, 0.1)


def test_distances_at_which_there_is_nobody_do_not_fall():
    shares = [share for _, share in _envelope(np.array([0.0, 0.0, 3.0, 8.0]), np.array([0.0, 0.0, 0.5, 0.1]))]
    assert shares == [0, 0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("policies", "acted_on"), [("train", "fixed"), ("box:0,1", "fixed"), ("gaussian:0.1", "fixed"), ("task", "simplex")]
)
def test_policies_around_go_farther_and_farther(policies, acted_on):
    """In all directions, from learned ones: evenly up to one and a half lengths of the longest task."""
    what = learned([[1.0, 0.0], [0.0, 1.0]], policies, acted_on)
    z = _around(what, 200, np.random.default_rng(0))
    assert what.distance(z[:1]) == pytest.approx([0], abs=1e-9)
    lengths = np.linspace(0, 1.5, 200)
    assert (what.distance(z) <= lengths + 1e-9).all()
    assert (z[50:] < 0).any(axis=0).all()
    assert (z[50:] > 1).any(axis=0).all()
    if policies in {"train", "gaussian:0.1"}:  # they start at M itself
        from_m = np.linalg.norm(z[:, None] - what.training_tasks, axis=-1)
        assert np.isclose(from_m, lengths[:, None]).any(axis=1).all()


def test_many_training_tasks_leave_policies_to_look_at_around_them():
    """30 tasks are more than there are environments for; four policies around them are followed all the same."""
    tasks = np.random.default_rng(0).standard_normal((30, 2))
    accuracy = measured(ExactUsfa(ring(GAMMA)), tasks)
    assert len(accuracy.optimism) == 9
    assert accuracy.optimism[-1][0] > 0


def test_a_uvfa_is_nothing_to_measure(tmp_path):
    agent = untrained("uvfa")
    save_agent(tmp_path / "agent", agent.file, {name: x[None] for name, x in agent.network.state_dict().items()})
    with pytest.raises(InputError, match=r"^A uvfa agent has no learned ψ to measure; expected a USFA\.$"):
        measure_and_save(tmp_path / "agent")


def test_agents_of_the_package_stay_as_they_are():
    with pytest.raises(InputError, match=r"^The agent 'trip' is part of the package; expected a directory of your own"):
        measure_and_save("trip", overwrite=True)

import copy
import itertools
import json
import re
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from fake_environments import SavableWalk, Scripted, Walk
from usfa.agents import AGENTS, AgentSpec, UsfaAgent
from usfa.decisions import CandidateSet, Gpi
from usfa.environments import EnvironmentSource, ObservationSpec, OneState, Trip, action_count, feature_count
from usfa.errors import Diverged, InputError
from usfa.evaluation import exact_scores
from usfa.functional import optimal_return
from usfa.learning import Learner, LearnerConfig
from usfa.networks import NetworkConfig, Trunk
from usfa.samplers import PolicySampler
from usfa.tasks import task_set
from usfa.trajectory import Trajectory

NETWORK = NetworkConfig(trunk=(16,), embedding=(8, 8), head=(16,))
ALGORITHM_1 = LearnerConfig(policies="box:0,1", policies_per_step=5, gamma=1.0, epsilon=0.3, budget=50)
CONFIGS = {
    "algorithm 1": ALGORITHM_1,
    "replay_ratio": replace(ALGORITHM_1, replay_ratio=3, replay_capacity=7),
    "frames": replace(ALGORITHM_1, budget_unit="frames", budget=80),
    "long trajectories": replace(ALGORITHM_1, trajectory_length=3, environments=2, replay_ratio=2, budget=120),
    "fixed tasks": replace(
        ALGORITHM_1, environments=4, tasks="fixed", trajectory_length=2, updates_per_round=2, clip=0.1
    ),
    "a task per episode": replace(
        ALGORITHM_1, tasks="simplex", task_duration="episode", environments=3, trajectory_length=2, gamma=0.9
    ),
    "target network": replace(ALGORITHM_1, target_every=4),
    "prioritised replay": replace(
        ALGORITHM_1,
        environments=4,
        trajectory_length=3,
        updates_per_round=4,
        replay_ratio=3,
        replay_capacity=5,
        priority_exponent=0.6,
        along_z=1.0,
        budget=500,
    ),
    "ema": replace(ALGORITHM_1, ema=0.1, tasks="simplex", policies="task+box:0,1"),
}
RECURRENT = NetworkConfig(memory=8, trunk=(16,), embedding=(8, 8), head=(16,), normalise=True)


def learner_for(make_environment, tasks, config, seeds, kind="usfa", network=NETWORK):
    env = make_environment()
    spec = AgentSpec(ObservationSpec.of(env.observation_space), action_count(env), feature_count(env))
    return Learner(AGENTS.make(kind, spec, network), config, EnvironmentSource(make_environment), tasks, seeds)


def trip_learner(config, seeds=(1, 3, 5), kind="usfa"):
    return learner_for(Trip, task_set("trip-train"), config, seeds, kind)


def walk_learner(make_environment, config, seeds=(0, 1), network=NETWORK):
    return learner_for(make_environment, np.eye(2), config, seeds, network=network)


def steps(learner, count):
    return [learner.step() for _ in range(count)]


def assert_same(one, two):
    assert one.frames.tolist() == two.frames.tolist()
    assert one.episodes.tolist() == two.episodes.tolist()
    for name, x in one.network.state.items():
        assert torch.equal(x, two.network.state[name]), name


def saved(learner):
    """The state as it comes back from disk."""
    tensors, values = learner.state()
    return {name: x.clone() for name, x in tensors.items()}, json.loads(json.dumps(values))


# --- determinism ---


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("kind", ["usfa", "uvfa"])
def test_same_seed_same_parameters(config, kind):
    one, two = trip_learner(config, kind=kind), trip_learner(config, kind=kind)
    torch.manual_seed(123)  # nothing may listen to the global generators
    np.random.seed(123)  # noqa: NPY002
    steps(one, 10)
    torch.manual_seed(321)
    np.random.seed(321)  # noqa: NPY002
    steps(two, 10)
    assert_same(one, two)


def test_other_seeds_give_other_parameters():
    one, two = trip_learner(ALGORITHM_1, (1, 3)), trip_learner(ALGORITHM_1, (1, 4))
    for learner in (one, two):
        steps(learner, 5)
    for name, x in one.network.state.items():
        assert torch.equal(x[0], two.network.state[name][0])
        assert not torch.equal(x[1], two.network.state[name][1])


def test_global_generators_are_left_alone():
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    steps(trip_learner(CONFIGS["replay_ratio"]), 5)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.random.get_state()[1].tolist() == numpy_before  # noqa: NPY002


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_run_does_not_depend_on_its_neighbours(config):
    alone, together = trip_learner(config, (3,)), trip_learner(config, (1, 3, 5))
    for learner in (alone, together):
        steps(learner, 15)
    assert alone.frames[0] == together.frames[1]
    assert alone.episodes[0] == together.episodes[1]
    for name, x in alone.network.state.items():
        torch.testing.assert_close(x[0], together.network.state[name][1], rtol=0, atol=1e-5)


def test_resuming_a_run_does_not_depend_on_its_neighbours():
    """Every run has seeds of its own for the episodes of environments that cannot be saved."""
    config = replace(ALGORITHM_1, gamma=0.9)
    resumed = []
    for seeds in ((3,), (1, 3)):
        begun = walk_learner(Walk, config, seeds)
        steps(begun, 3)
        resumed.append(walk_learner(Walk, config, seeds))
        resumed[-1].load_state(*saved(begun))
        steps(resumed[-1], 10)
    alone, together = resumed
    for name, x in alone.network.state.items():
        torch.testing.assert_close(x[0], together.network.state[name][1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("kind", ["usfa", "uvfa"])
def test_a_resumed_run_goes_on_to_the_bit(config, kind):
    learner = trip_learner(config, kind=kind)
    steps(learner, 8)
    state = saved(learner)
    expected = steps(learner, 6)
    resumed = trip_learner(config, kind=kind)
    resumed.load_state(*state)
    found = steps(resumed, 6)
    assert_same(learner, resumed)
    assert resumed.rounds == 14
    assert resumed.updates == 14 * config.updates_per_round
    for one, two in zip(expected, found, strict=True):
        assert np.array_equal(one.loss, two.loss)
        assert np.array_equal(one.episode_phi, two.episode_phi)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_run_resumes_from_a_state_before_its_first_round(config):
    one, two = trip_learner(config), trip_learner(config)
    two.load_state(*saved(one))
    steps(one, 3)
    steps(two, 3)
    assert_same(one, two)


@pytest.mark.parametrize("make_environment", [Walk, SavableWalk])
@pytest.mark.parametrize("network", [NETWORK, RECURRENT], ids=["without memory", "with memory"])
def test_resume_with_truncation_in_any_environment(make_environment, network):
    config = replace(CONFIGS["long trajectories"], gamma=0.9)
    learner = walk_learner(make_environment, config, network=network)
    steps(learner, 4)
    state = saved(learner)
    steps(learner, 6)
    resumed = walk_learner(make_environment, config, network=network)
    resumed.load_state(*state)
    steps(resumed, 6)
    assert_same(learner, resumed)


def _change(tensors, values, name, change):
    """Change a tensor or a value of a state."""
    (tensors if name in tensors else values)[name] = change((tensors if name in tensors else values)[name])


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("replay/legal", lambda x: x.long(), r"in replay, legal is torch\.int64.* instead of torch\.bool"),
        ("replay/phi", lambda x: torch.cat([x, x]), r"in replay, phi is torch\.float32\[4, "),
        ("replay/phi", lambda x: x[:, 1:], r"in replay, phi is torch\.float32\[2, "),
        ("optimizer/0/exp_avg", lambda x: x[:1], r"in optimizer, 0/exp_avg is torch\.float32\[1, "),
        ("updates", lambda _: "x", r"updates is 'x'; expected a whole number from 0"),
        ("replayed", lambda _: -1, r"replayed is -1; expected a whole number from 0"),
        ("precision", lambda _: "fp8", r"precision is 'fp8'; expected one of \('fp32', 'bf16'\)"),
    ],
)
def test_states_that_would_fail_during_training_are_refused(name, change, sentence):
    """Their checksums fit, so only their layout tells."""
    config = replace(ALGORITHM_1, replay_ratio=1, replay_capacity=4)
    learner = trip_learner(config, (1, 3))
    steps(learner, 3)
    tensors, values = saved(learner)
    _change(tensors, values, name, change)
    with pytest.raises(ValueError, match=sentence):
        trip_learner(config, (1, 3)).load_state(tensors, values)


def test_a_state_without_a_moment_of_the_optimiser_is_refused():
    learner = trip_learner(ALGORITHM_1, (1, 3))
    steps(learner, 3)
    tensors, values = saved(learner)
    tensors["optimizer/0/later"] = torch.zeros(3)  # as of an optimiser that keeps more after some steps
    trip_learner(ALGORITHM_1, (1, 3)).load_state(tensors, values)
    del tensors["optimizer/0/exp_avg"]
    with pytest.raises(ValueError, match=r"in optimizer, fields \['0/exp_avg'\] are missing or unknown"):
        trip_learner(ALGORITHM_1, (1, 3)).load_state(tensors, values)


# --- schedules ---


def test_finished_runs_stand_still():
    learner = trip_learner(replace(ALGORITHM_1, budget=6), (0, 1, 2, 3))
    frozen, arrived = {}, set()
    while not learner.done:
        learner.step()
        for run in np.flatnonzero(learner.progress >= 6):
            now = {name: x[run].detach().clone() for name, x in learner.network.state.items()}
            if run not in frozen:
                arrived.add(learner.updates)
            before = frozen.setdefault(run, now)
            assert all(torch.equal(before[name], x) for name, x in now.items())
    assert len(frozen) == 4
    assert len(arrived) > 1  # some waited for others


@pytest.mark.parametrize(("unit", "count"), [("frames", "frames"), ("episodes", "episodes")])
def test_progress_counts_the_unit_of_the_budget(unit, count):
    learner = trip_learner(replace(ALGORITHM_1, budget_unit=unit, budget=9))
    while not learner.done:
        assert learner.progress is getattr(learner, count)
        assert (learner.progress < 9).any()
        learner.step()
    assert (learner.progress >= 9).all()


def test_steps_of_every_environment_are_counted():
    learner = trip_learner(CONFIGS["long trajectories"])
    found = steps(learner, 4)
    assert learner.frames.tolist() == [4 * 3 * 2] * 3
    assert sum(len(update.episode_phi) for update in found) == learner.episodes.sum()


def test_episodes_are_told_with_their_environment():
    """Each environment pays its own number when its episode of two steps ends."""
    numbers = itertools.count(-1)  # the first is only looked at

    def create():
        return Scripted([[([0, 0], ""), ([next(numbers), 1], "terminated")]])

    config = replace(ALGORITHM_1, environments=3, trajectory_length=5)
    learner = learner_for(create, np.eye(2), config, (0, 1))
    for update in steps(learner, 4):
        assert update.episode_phi[:, 0].tolist() == update.episode_environment.tolist()
        assert set(update.episode_environment.tolist()) == set(range(6))


# --- what goes wrong ---


def test_a_loss_that_is_no_number_is_named_with_its_seed():
    learner = trip_learner(ALGORITHM_1, (1, 3))
    with torch.no_grad():
        learner.network.state["output.bias"][1] = torch.nan
    with pytest.raises(Diverged, match=r"^The loss of seed 3 is nan after 1 updates; try a lower learning_rate"):
        learner.step()


def test_a_loss_that_explodes_is_named_with_its_seed_and_update():
    learner = trip_learner(replace(ALGORITHM_1, learning_rate=10.0), (1, 3))
    with pytest.raises(Diverged) as error:
        steps(learner, 1000)
    seed, loss, updates = re.fullmatch(
        r"The loss of seed (\d) is (\S+) after (\d+) updates; .*", str(error.value)
    ).groups()
    assert seed in "13"
    assert float(loss) > 1e6
    assert int(updates) == learner.updates


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_parameters_that_are_not_finite_are_not_worth_keeping(bad):
    learner = trip_learner(ALGORITHM_1, (1, 3))
    steps(learner, 2)
    learner.check_parameters()
    with torch.no_grad():
        learner.network.state["embedding.0.weight"][1, 0, 0] = bad
    with pytest.raises(Diverged, match=r"^The parameter embedding\.0\.weight is not finite after 2 updates; try "):
        learner.check_parameters()


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"policies_per_step": 0}, "policies_per_step is 0; expected at least 1."),
        ({"environments": 0}, "environments is 0; expected at least 1."),
        ({"trajectory_length": 0}, "trajectory_length is 0; expected at least 1."),
        ({"updates_per_round": 0}, "updates_per_round is 0; expected at least 1."),
        (
            {"environments": 6, "updates_per_round": 4},
            "updates_per_round is 4; expected a divisor of 6, the number of trajectories of a round, new and replayed.",
        ),
        ({"budget": -1}, "budget is -1; expected at least 1."),
        ({"lambda_": 1.5}, "lambda_ is 1.5; expected a number from 0 to 1."),
        ({"epsilon": float("nan")}, "learner.epsilon is nan; expected a finite number."),
        ({"gamma": 0.0}, "gamma is 0.0; expected a number above 0, at most 1."),
        ({"replay_ratio": -1}, "replay_ratio is -1; expected 0 to 1,000."),
        ({"replay_capacity": 0}, "replay_capacity is 0; expected at least 1."),
        ({"priority_exponent": -0.5}, "priority_exponent is -0.5; expected 0 or more."),
        (
            {"priority_exponent": 0.6},
            "priority_exponent is 0.6, but replay_ratio is 0; expected 1 or more, or a priority_exponent of 0.",
        ),
        ({"learning_rate": 0.0}, "learning_rate is 0.0; expected a positive number."),
        ({"learning_rate": float("inf")}, "learner.learning_rate is inf; expected a finite number."),
        ({"clip": 0.0}, "clip is 0.0; expected a positive number, or None."),
        ({"clip": float("nan")}, "learner.clip is nan; expected a finite number or None."),
        ({"target_every": 0}, "target_every is 0; expected at least 1, or None."),
        (
            {"epsilon_max": 0.05},
            "epsilon_max is 0.05; expected at least epsilon, 0.1, which must be above 0, and at most 1.",
        ),
        ({"action_gap": 1.0}, "action_gap is 1.0; expected a number from 0 to below 1."),
        ({"along_z": -1.0}, "along_z is -1.0; expected 0 or more."),
        ({"ema": 0.0}, "ema is 0.0; expected above 0, at most 1, and no target_every beside it."),
        (
            {"ema": 0.1, "target_every": 9},
            "ema is 0.1; expected above 0, at most 1, and no target_every beside it.",
        ),
    ],
)
def test_settings_that_cannot_be(setting, sentence):
    with pytest.raises(InputError) as error:
        LearnerConfig(**setting)
    assert str(error.value) == sentence


# --- tasks and updates ---


def collected(learner, monkeypatch):
    """A list that grows with what every round collects: trajectory and policies, copied."""
    found, collect = [], learner.acting.rollout.collect

    def watched(w, z, epsilon, rngs):
        done = collect(w, z, epsilon, rngs)
        copied = Trajectory(
            *(x.clone() for x in done.trajectory[:-1]), tuple(x.clone() for x in done.trajectory.core_state)
        )
        found.append((copied, z.clone()))
        return done

    monkeypatch.setattr(learner.acting.rollout, "collect", watched)
    return found


def test_fixed_tasks_are_dealt_out_in_turn(monkeypatch):
    tasks = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]])
    config = replace(ALGORITHM_1, tasks="fixed", environments=6, policies="task", policies_per_step=1)
    learner = learner_for(Trip, tasks, config, (0, 1))
    found = collected(learner, monkeypatch)
    steps(learner, 3)
    expected = [[tasks[index % 3].tolist() for index in range(6)]] * 2
    for trajectory, z in found:
        assert trajectory.w.tolist() == expected
        assert z[:, :, 0].tolist() == expected


def test_other_tasks_are_drawn_for_every_trajectory(monkeypatch):
    learner = learner_for(Trip, np.eye(2), replace(ALGORITHM_1, environments=2), (0, 1))
    found = collected(learner, monkeypatch)
    steps(learner, 200)
    first = torch.stack([trajectory.w[..., 0] for trajectory, _ in found])  # [200, R, B], 1 for the first task
    assert set(first.flatten().tolist()) == {0.0, 1.0}
    assert ((first.mean(dim=0) - 0.5).abs() < 5 * 0.5 / 200**0.5).all()
    assert len(np.unique(first.flatten(1).T.numpy(), axis=0)) == 4  # every environment by itself


def test_some_environments_are_bolder_than_others():
    assert LearnerConfig(environments=3, epsilon=0.1).epsilons().tolist() == [0.1] * 3
    bold = LearnerConfig(environments=3, epsilon=0.01, epsilon_max=1.0)
    assert bold.epsilons(0.0).tolist() == pytest.approx([1, 0.1, 0.01])


def test_all_environments_act_at_random_at_first():
    config = LearnerConfig(environments=2, epsilon=0.2, epsilon_max=0.6, epsilon_decay=0.5)
    assert config.epsilons(0.0).tolist() == [1, 1]
    assert config.epsilons(0.25).tolist() == pytest.approx([0.8, 0.6])
    for done in (0.5, 0.9, 1.0):
        assert config.epsilons(done).tolist() == pytest.approx([0.6, 0.2])


def test_epsilon_follows_the_budget(monkeypatch):
    config = replace(ALGORITHM_1, environments=2, epsilon=0.1, epsilon_decay=0.5, budget=40, budget_unit="frames")
    learner = learner_for(Trip, np.eye(2), config, (0,))
    seen = []
    collect = learner.acting.rollout.collect

    def noted(w, z, epsilon, rngs):
        seen.append((float(learner.frames[0]), epsilon.tolist()))
        return collect(w, z, epsilon, rngs)

    monkeypatch.setattr(learner.acting.rollout, "collect", noted)
    while not learner.done:
        learner.step()
    assert seen[0] == (0.0, [[1.0, 1.0]])
    for frames, epsilon in seen:
        assert epsilon[0] == pytest.approx([max(0.1, 1 - 0.9 * frames / 20)] * 2)


def test_epsilon_of_a_run_does_not_depend_on_the_progress_of_others():
    """Runs of different length in episodes: each follows its own budget."""
    config = replace(ALGORITHM_1, epsilon=0.1, epsilon_decay=0.8, budget=20, budget_unit="episodes")
    together, alone = (learner_for(Trip, np.eye(2), config, seeds) for seeds in ((1, 3), (3,)))
    steps(together, 40)
    steps(alone, 40)
    assert together.episodes[0] != together.episodes[1]
    assert together.episodes[1] == alone.episodes[0]
    for name, x in alone.network.state.items():
        torch.testing.assert_close(x[0], together.network.state[name][1], rtol=0, atol=1e-5)


def test_tasks_of_a_distribution_are_drawn_for_every_trajectory(monkeypatch):
    config = replace(ALGORITHM_1, environments=2, tasks="simplex", policies="task+simplex")
    learner = learner_for(Trip, np.eye(2), config, (0, 1))
    found = collected(learner, monkeypatch)
    steps(learner, 20)
    w = torch.stack([trajectory.w for trajectory, _ in found])  # [20, R, B, D]
    torch.testing.assert_close(w.sum(dim=-1), torch.ones(20, 2, 2))
    assert len(torch.unique(w[..., 0])) == 80
    assert all(torch.equal(z[:, :, 0], trajectory.w) for trajectory, z in found)


@pytest.mark.parametrize("environments", [1, 2, 4, 5])
def test_fixed_tasks_want_as_many_environments_each(environments):
    tasks = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]])
    with pytest.raises(InputError) as error:
        learner_for(Trip, tasks, replace(ALGORITHM_1, tasks="fixed", environments=environments), (0,))
    expected = "expected a multiple of 3, so that every training task has the same number."
    assert str(error.value) == f"environments is {environments}; {expected}"


def of_run(trajectory, run, environments):
    """One run and some of its environments."""
    timed = {
        name: x[run][:, environments] for name, x in trajectory._asdict().items() if name not in {"w", "core_state"}
    }
    memory = tuple(x[run][environments] for x in trajectory.core_state)
    return Trajectory(**timed, w=trajectory.w[run][environments], core_state=memory)


@pytest.mark.parametrize("network", [NETWORK, RECURRENT], ids=["without memory", "with memory"])
@pytest.mark.parametrize("clip", [None, 0.05])
def test_a_round_is_an_update_of_adam_on_every_part(monkeypatch, network, clip):
    """The literal loop: torch's Adam on the first two environments, then on the others, for each run by itself."""
    config = LearnerConfig(
        *("box:0,1", 3),
        environments=4,
        trajectory_length=5,
        updates_per_round=2,
        clip=clip,
        budget=100,
        budget_unit="frames",
    )
    learner = walk_learner(SavableWalk, config, network=network)
    runs = [copy.deepcopy(learner.network.network(run)) for run in (0, 1)]
    optimisers = [torch.optim.Adam(run.parameters(), lr=1.0) for run in runs]
    found = collected(learner, monkeypatch)
    for before in (0, 20):
        update = learner.step()
        trajectory, z = found[-1]
        rate = config.learning_rate * (1 - before / 100)  # frames; the first two episodes have no seam yet
        for run, optimiser in enumerate(optimisers):
            losses, lengths = [], []
            for part in (slice(0, 2), slice(2, 4)):
                loss = learner.agent.loss(runs[run], of_run(trajectory, run, part), z[run, part], config.loss)
                optimiser.zero_grad()
                loss.backward()
                longest = float("inf") if clip is None else clip
                length = torch.nn.utils.clip_grad_norm_(runs[run].parameters(), longest)
                optimiser.param_groups[0]["lr"] = rate
                optimiser.step()
                losses.append(float(loss.detach()))
                lengths.append(float(length))
            assert update.loss[run] == pytest.approx(np.mean(losses), rel=1e-4)
            assert update.gradient[run] == pytest.approx(np.mean(lengths), rel=1e-4)
            assert (np.mean(lengths) > 0.05) or clip is None
    assert (learner.updates, learner.rounds) == (4, 2)
    for name, x in learner.network.state.items():
        for run in (0, 1):
            torch.testing.assert_close(x[run], runs[run].state_dict()[name], rtol=1e-4, atol=1e-5)


# --- optimiser ---


@pytest.mark.parametrize("network", [NETWORK, RECURRENT], ids=["batched runs", "one by one"])
@pytest.mark.parametrize("done", [(0, 20, 35), (49, 0, 7)], ids=str)
def test_every_run_has_the_learning_rate_of_its_own_progress(monkeypatch, network, done):
    """The literal loop: torch's Adam for each run by itself, whatever the progress of its neighbours."""
    config = replace(ALGORITHM_1, learning_rate=1e-2, budget=50, budget_unit="frames")
    learner = learner_for(Trip, task_set("trip-train"), config, (1, 3, 5), network=network)
    learner.frames[:] = done
    runs = [copy.deepcopy(learner.network.network(run)) for run in range(3)]
    optimisers = [torch.optim.Adam(run.parameters(), lr=1.0) for run in runs]
    found = collected(learner, monkeypatch)
    for _ in range(10):
        before = learner.frames.copy()
        learner.step()
        trajectory, z = found[-1]
        for run, optimiser in enumerate(optimisers):
            optimiser.param_groups[0]["lr"] = config.learning_rate * max(0, 1 - before[run] / 50)
            optimiser.zero_grad()
            learner.agent.loss(runs[run], of_run(trajectory, run, slice(None)), z[run], config.loss).backward()
            optimiser.step()
    for name, x in learner.network.state.items():
        for run in range(3):
            torch.testing.assert_close(x[run], runs[run].state_dict()[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("network", [NETWORK, RECURRENT], ids=["batched runs", "one by one"])
@pytest.mark.parametrize("change", [{}, {"ema": 0.1}])
def test_a_run_without_budget_stands_still_whatever_its_momentum(network, change):
    config = replace(ALGORITHM_1, **change)
    learner = learner_for(Trip, task_set("trip-train"), config, (1, 3), network=network)
    steps(learner, 3)
    learner.episodes[1] = config.budget
    before = {name: x.clone() for name, x in learner.best.state.items()}
    steps(learner, 2)
    for name, x in learner.best.state.items():
        assert torch.equal(x[1], before[name][1])
        assert not torch.equal(x[0], before[name][0])


@pytest.mark.parametrize("network", [NETWORK, RECURRENT], ids=["batched runs", "one by one"])
@pytest.mark.parametrize("longest", [0.1, 1.0, 3.0, 100.0, None])
def test_clipping_is_torchs_for_each_run(network, longest):
    rng = np.random.default_rng(0)
    config = replace(ALGORITHM_1, clip=longest)
    learner = learner_for(Trip, task_set("trip-train"), config, (0, 1, 2, 3), network=network)
    alone = [[torch.zeros_like(x) for x in learner.network.networks[0].parameters()] for _ in range(4)]
    for run, size in enumerate((0.0, 0.01, 0.1, 10.0)):
        for x in alone[run]:
            x.grad = size * torch.from_numpy(rng.standard_normal(x.shape)).float()
    for index, leaf in enumerate(learner.network.trained):
        run, index = divmod(index, len(alone[0]))
        batched = torch.stack([member[index].grad for member in alone])
        leaf.grad = batched if learner.network.batched else alone[run][index].grad.clone()
    lengths = learner._clip()
    for run, parameters in enumerate(alone):
        expected = torch.nn.utils.clip_grad_norm_(parameters, float("inf") if longest is None else longest)
        torch.testing.assert_close(lengths[run], expected)
    groups = learner.network.gradients()
    for run, parameters in enumerate(alone):
        group, index = (groups[0], run) if learner.network.batched else (groups[run], 0)
        for gradient, x in zip(group, parameters, strict=True):
            torch.testing.assert_close(gradient[index], x.grad, rtol=1e-4, atol=1e-6)
    assert lengths[0] == 0


class Descent(UsfaAgent):
    """An agent with an optimiser of its own."""

    def optimizer(self, parameters, learning_rate):
        return torch.optim.SGD(parameters, learning_rate, momentum=0.9, weight_decay=0.01)


@pytest.mark.parametrize("network", [NETWORK, RECURRENT], ids=["batched runs", "one by one"])
def test_own_optimisers_are_used_saved_and_keep_runs_apart(network):
    def make(seeds):
        return learner_for(Trip, task_set("trip-train"), ALGORITHM_1, seeds, f"{__name__}:Descent", network)

    learner, alone = make((1, 3)), make((3,))
    steps(learner, 7)
    assert type(learner.optimizer) is torch.optim.SGD
    state = saved(learner)
    assert any(name.endswith("momentum_buffer") for name in state[0])
    steps(learner, 7)
    resumed = make((1, 3))
    resumed.load_state(*state)
    steps(resumed, 7)
    assert_same(learner, resumed)
    steps(alone, 14)
    for name, x in alone.network.state.items():
        torch.testing.assert_close(x[0], learner.network.state[name][1], rtol=0, atol=1e-5)


class TwoRates(UsfaAgent):
    """An agent whose first parameter does not learn."""

    def optimizer(self, parameters, learning_rate):
        groups = [{"params": parameters[:1], "lr": 0.0}, {"params": parameters[1:], "lr": learning_rate}]
        return torch.optim.SGD(groups)


@pytest.mark.parametrize("seeds", [(1,), (1, 3)])
def test_parameter_groups_keep_their_own_learning_rates(seeds):
    learner = learner_for(Trip, task_set("trip-train"), ALGORITHM_1, seeds, f"{__name__}:TwoRates", NETWORK)
    before = [x.detach().clone() for x in learner.network.trained]
    steps(learner, 7)
    fixed, *learned = [torch.equal(old, new) for old, new in zip(before, learner.network.trained, strict=True)]
    assert fixed
    assert not any(learned)


# --- networks and samplers of the user's own ---


@dataclass(frozen=True)
class Corners(PolicySampler):
    """Policies with entries of 0 and 1."""

    share: float

    def sample(self, w, n, rng):
        return (rng.random((*w.shape[:-1], n, w.shape[-1])) < self.share).astype(np.float64)


class Averaging(Trunk):
    """Remembers the mean of what it saw, and draws a fixed projection of it."""

    def __init__(self, sizes, config, features=6, batches_runs=False):
        super().__init__()
        self.features, self.seen, self.batches_runs = features, sizes.observation[0], batches_runs
        self.register_buffer("projection", torch.randn(features, self.seen))
        self.layer = nn.Linear(features, features)

    def initial_state(self, batch):
        return torch.zeros(batch, self.seen), torch.zeros(batch, 1)

    def forward(self, inputs, core_state):
        total, count = core_state
        outputs = []
        for observation, first in zip(inputs.observation, inputs.first, strict=True):
            total, count = (torch.where(first[:, None], 0.0, x) for x in (total, count))
            total, count = total + observation, count + 1
            outputs.append(torch.relu(self.layer(linear(total / count, self.projection))))
        return torch.stack(outputs), (total, count)


@pytest.mark.parametrize("batches_runs", [False, True])
def test_own_trunks_and_samplers_are_learned_with_and_resumed(batches_runs, monkeypatch):
    network = replace(NETWORK, trunk_class=partial(Averaging, batches_runs=batches_runs))
    config = replace(CONFIGS["long trajectories"], policies=Corners(0.3))

    def make(seeds=(1, 3)):
        return walk_learner(SavableWalk, config, seeds, network)

    learner, alone = make(), make((3,))
    assert learner.network.batched is batches_runs
    found = collected(learner, monkeypatch)
    steps(learner, 5)
    assert all(set(z.flatten().tolist()) == {0.0, 1.0} for _, z in found)
    state = saved(learner)
    steps(learner, 5)
    resumed = make()
    resumed.load_state(*state)
    steps(resumed, 5)
    assert_same(learner, resumed)
    steps(alone, 10)
    for name, x in alone.network.state.items():
        torch.testing.assert_close(x[0], learner.network.state[name][1], rtol=0, atol=1e-5)


# --- target networks ---


def test_a_target_network_is_renewed_every_few_updates():
    learner = trip_learner(replace(ALGORITHM_1, target_every=3))
    expected = {name: x.detach().clone() for name, x in learner.network.state.items()}
    for updates in range(1, 8):
        learner.step()
        if updates in {3, 6}:
            expected = {name: x.detach().clone() for name, x in learner.network.state.items()}
        assert learner.target.state.keys() == expected.keys()
        assert all(torch.equal(x, expected[name]) for name, x in learner.target.state.items())


def test_the_average_follows_every_update_and_is_what_is_kept():
    learner = trip_learner(replace(ALGORITHM_1, ema=0.25))
    expected = {name: x.detach().clone() for name, x in learner.network.state.items()}
    for _ in range(5):
        learner.step()
        expected = {name: 0.75 * x + 0.25 * learner.network.state[name].detach() for name, x in expected.items()}
    assert learner.best is learner.target
    for name, x in expected.items():
        torch.testing.assert_close(learner.best.state[name], x)
    plain = trip_learner(ALGORITHM_1)
    assert plain.best is plain.network


def test_renewing_after_every_update_is_no_target_network():
    plain, renewed = trip_learner(ALGORITHM_1), trip_learner(replace(ALGORITHM_1, target_every=1))
    for learner in (plain, renewed):
        steps(learner, 15)
    for name, x in plain.network.state.items():
        torch.testing.assert_close(x, renewed.network.state[name])


def test_bf16_is_for_the_products_only():
    """Parameters, losses and what they are made from stay in fp32; the numbers are close, and not the same."""
    config = replace(ALGORITHM_1, environments=2, trajectory_length=3, epsilon=1.0)
    learners = {precision: trip_learner(config) for precision in ("fp32", "bf16")}
    found = {}
    for precision, learner in learners.items():
        learner.precision = precision
        found[precision] = learner.step().loss
        assert {x.dtype for x in learner.network.state.values()} == {torch.float32}
    assert not np.array_equal(found["fp32"], found["bf16"])
    np.testing.assert_allclose(found["fp32"], found["bf16"], rtol=0.05)
    tensors, values = saved(learners["bf16"])
    learners["fp32"].load_state(tensors, values)
    assert learners["fp32"].precision == "bf16"


# --- learning in seconds ---
# The bounds were chosen by trying seeds 0 to 4; what was seen stands beside each.


def gaps(learner, mdp, w):
    """Optimal return minus that of the greedy policy with C = {w}, [R, K]."""
    runs = [learner.network.network(run) for run in range(len(learner.seeds))]
    own = CandidateSet.believed(w[:, None])
    scores = [exact_scores(learner.agent, network, mdp, w, own, Gpi()) for network in runs]
    return optimal_return(mdp, torch.from_numpy(w)).numpy() - np.stack(scores)


def finish(learner):
    while not learner.done:
        learner.step()
    return learner


TRIP = LearnerConfig(
    policies="box:0,1",
    policies_per_step=5,
    gamma=1.0,
    epsilon=0.5,
    replay_ratio=15,
    replay_capacity=2000,
    learning_rate=3e-3,
    budget=200,
)
ONE_STATE = LearnerConfig(policies="train", policies_per_step=3, gamma=0.9, epsilon=0.5, learning_rate=3e-3, budget=300)


def test_usfa_learns_the_trip_in_200_episodes():
    """Mean gap on 100 policies from D_z: 0.009 to 0.017 seen, 0.16 to 0.25 before learning."""
    w = np.random.default_rng(0).uniform(size=(100, 2))
    learner = learner_for(Trip, task_set("trip-train"), TRIP, (0, 1, 2), network=NetworkConfig())
    assert (gaps(learner, Trip().mdp, w).mean(axis=1) > 0.1).all()
    assert (gaps(finish(learner), Trip().mdp, w).mean(axis=1) < 0.03).all()


@pytest.mark.parametrize(("policies", "count"), [("train", 2), ("task", 1)])
def test_uvfa_learns_its_training_tasks(policies, count):
    """Gap on M: 0 seen in all seeds."""
    config = replace(TRIP, policies=policies, policies_per_step=count)
    learner = learner_for(Trip, np.eye(2), config, (0, 1, 2), "uvfa", NetworkConfig())
    assert gaps(learner, Trip().mdp, np.eye(2)).mean() > 0.1
    assert gaps(finish(learner), Trip().mdp, np.eye(2)).max() < 1e-9


def one_state_outputs(learner):
    """ψ(s,·,z) for the training tasks of a USFA, Q(s,·,w) of a UVFA: [R, z, A]."""
    z = torch.from_numpy(learner.training_tasks).float()[None]
    start = learner.agent.at_start(torch.ones(1, 1))
    runs = [learner.network.network(run) for run in range(len(learner.seeds))]
    return torch.stack([learner.agent.step(network, start, z)[0][0, ..., 0].detach() for network in runs])


@pytest.mark.parametrize(
    ("kind", "truth"),
    [
        ("usfa", [[0.9, 1.0], [0.9, 1.0], [0.0, 1.0]]),  # ψ: staying first, then leaving by π_z, or never
        ("uvfa", [[1.8, 2.0], [0.9, 1.0], [0.0, -1.0]]),
    ],
)
def test_values_of_the_one_state_mdp_are_learned(kind, truth):
    """Largest error: 0.024 seen, at least 0.86 before learning."""
    learner = learner_for(OneState, task_set("one-state-train"), ONE_STATE, (0, 1, 2), kind, NetworkConfig())
    assert (one_state_outputs(learner) - torch.tensor(truth)).abs().amax(dim=(1, 2)).min() > 0.5
    finish(learner)
    assert (one_state_outputs(learner) - torch.tensor(truth)).abs().max() < 0.1


@pytest.mark.parametrize(("replay_ratio", "at_once"), [(1, True), (40, False)])
def test_large_updates_of_several_runs_are_computed_one_after_the_other(replay_ratio, at_once):
    config = replace(ALGORITHM_1, replay_ratio=replay_ratio, trajectory_length=4, ema=0.1, budget=8)
    learner, alone = trip_learner(config, seeds=(1, 3)), trip_learner(config, seeds=(3,))
    assert learner.network.batched == learner.target.batched == at_once
    for each in (learner, alone):
        steps(each, 2)
    for name, x in alone.network.state.items():
        torch.testing.assert_close(x[0], learner.network.state[name][1], rtol=1e-4, atol=1e-6)


class OneNumber(UsfaAgent):
    def loss(self, *arguments):
        return super().loss(*arguments).mean()


def test_prioritised_replay_needs_a_loss_for_each_trajectory():
    env = Trip()
    spec = AgentSpec(ObservationSpec.of(env.observation_space), action_count(env), feature_count(env))
    config = CONFIGS["prioritised replay"]
    learner = Learner(OneNumber(spec, NETWORK), config, EnvironmentSource(Trip), task_set("trip-train"), (0,))
    with pytest.raises(InputError) as error:
        learner.step()
    assert str(error.value) == (
        "The loss of OneNumber is one number, but priority_exponent is 0.6; expected a loss for each trajectory, [B], "
        "if settings.per_trajectory is set, or a priority_exponent of 0."
    )


@pytest.mark.parametrize("network", [NETWORK, RECURRENT], ids=["batched runs", "one by one"])
def test_priorities_are_the_roots_of_the_last_losses(network, monkeypatch):
    learner = walk_learner(Walk, CONFIGS["prioritised replay"], network=network)
    steps(learner, 3)
    losses = []

    def noting(*arguments, loss=learner._loss):
        losses.append(loss(*arguments))
        return losses[-1]

    monkeypatch.setattr(learner, "_loss", noting)
    learner.step()
    replay, roots = learner.replay, torch.cat(losses, dim=1).detach().double().sqrt().numpy()
    stored, added = replay.state()
    priority = stored["priority"].numpy()
    for run in range(2):
        last = dict(zip(replay._drawn[run].tolist(), roots[run, 4:].tolist(), strict=True))
        newest = (added - 1) % 5
        last = {4 * newest + index: root for index, root in enumerate(roots[run, :4].tolist())} | last
        for place, root in last.items():
            assert priority[run].reshape(-1)[place] == root

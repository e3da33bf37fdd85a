"""φ of the last H observations: the stack, where it is computed, resume, files, and sentences for bad input."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch

import usfa
from fake_environments import Walk
from usfa.cli import main
from usfa.environments import History, ObservationSpec, make, source
from usfa.environments.learned import LearnedBatch
from usfa.errors import InputError
from usfa.evaluation import exact_mdp
from usfa.phi import (
    LeastSquares,
    LinearPhi,
    NetworkFit,
    NetworkPhi,
    PhiLearner,
    PhiReport,
    PhiSpec,
    RandomActions,
    TaskStream,
    collect,
    concatenated,
    learn_phi,
    load_phi,
    read_transitions,
)
from usfa.phi.learners import _chances
from usfa.runs import FeaturesConfig

ROOM = {"image_size": 12, "side": 4.0, "types": 2, "objects_per_type": 4, "decisions": 10, "clearance": 0.6}


class Echo(gym.Env):
    """Shows a random number at every step; the reward is (the number two steps ago, whether the action before was 1).

    Ends by termination after 9 steps, and without `get_state`.
    """

    def __init__(self):
        self.observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.reward_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown, self.taken = [self._number()], []
        return self.shown[-1], {}

    def step(self, action):
        older = self.shown[-3][0] if len(self.shown) > 2 else self.shown[0][0]
        reward = np.array([older, len(self.taken) > 0 and self.taken[-1] == 1], np.float32)
        self.shown.append(self._number())
        self.taken.append(int(action))
        return self.shown[-1], reward, len(self.taken) == 9, False, {}

    def _number(self):
        return self.np_random.uniform(-1, 1, size=1).astype(np.float32)


ENVIRONMENTS = {
    "terminated": source(Echo),
    "truncated": source("room", **ROOM),
    "both": source(Walk),
}


class Recorded:
    """A φ that keeps what it was given."""

    features, rewards, feature_names, text = 1, (), ("x",), "learned:recorded"

    def __init__(self, history):
        self.history, self.calls = history, []

    def of_batch(self, observation, action, next_observation, rewards):
        self.calls.append((observation.copy(), action.copy(), next_observation.copy()))
        return np.zeros((len(action), 1), np.float32)

    def check_fits(self, observation, actions):
        pass


def literal(seen, acted, history):
    """The last H of lists, the first of which also takes the places of earlier ones."""
    places = range(len(seen) - history, len(seen))
    observation = np.concatenate([seen[max(place, 0)] for place in places], axis=-1)
    return observation, np.array([acted[place] if place >= 0 else -1 for place in places])


# --- the stack ---


@pytest.mark.parametrize("environments", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
@pytest.mark.parametrize("history", [1, 2, 4])
def test_the_stack_is_the_literal_one_across_episodes(environments, history):
    phi, size = Recorded(history), 3
    batch, rng = LearnedBatch(environments.batch([5, 6, 7], 0.9), phi), np.random.default_rng(0)
    seen, acted = [[] for _ in range(size)], [[] for _ in range(size)]
    ends = 0
    for _ in range(40):
        action = rng.integers(batch.actions, size=size)
        for index in range(size):
            if batch.first[index]:
                seen[index], acted[index] = [], []
            seen[index].append(batch.observation[index].copy())
            acted[index].append(action[index])
        step = batch.step(action)
        ends += step.ended.sum()
        observation, actions, after = phi.calls[-1]
        for index in np.flatnonzero(step.real):
            expected, expected_actions = literal(seen[index], acted[index], history)
            np.testing.assert_array_equal(observation[index], expected)
            np.testing.assert_array_equal(actions[index], expected_actions if history > 1 else expected_actions[0])
            np.testing.assert_array_equal(after[index], batch.next_observation[index])
    assert ends >= 3 * size


@pytest.fixture(scope="module")
def room_phi():
    """A network with random weights on three images of the small room."""
    spec = PhiSpec(ObservationSpec((12, 12, 3)), 8, 2, history=3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return usfa.LearnedPhi(NetworkPhi(spec, (8,), ((4, 4, 2),)), PhiReport("room", features=("a", "b")))


def test_single_environments_compute_what_a_batch_does(room_phi):
    env, rng = make("room", phi=room_phi, **ROOM), np.random.default_rng(0)
    phi = Recorded(3)
    inside = make("room", phi=phi, **ROOM)
    for seed in (3, 4):
        (before, _), _ = inside.reset(seed=seed), env.reset(seed=seed)
        seen, acted, done = [], [], False
        while not done:
            action = int(rng.integers(8))
            seen, acted = [*seen, before], [*acted, action]
            (before, _, _, done, _), (after, found, *_) = inside.step(action), env.step(action)
            stack, actions = literal(seen, acted, 3)
            np.testing.assert_array_equal(phi.calls[-1][0][0], stack)
            np.testing.assert_array_equal(phi.calls[-1][1][0], actions)
            frames = np.stack([seen[max(place, 0)] for place in range(len(seen) - 3, len(seen))])
            np.testing.assert_allclose(found, room_phi(frames, actions, after), atol=1e-5)
    assert not np.allclose(room_phi(frames, actions, after), room_phi(frames[::-1], actions, after))


def test_collected_data_is_that_of_a_file_of_all_transitions(tmp_path):
    spec, names = ObservationSpec.of(Echo().observation_space), ("older", "before")

    def collected(history):
        actions = RandomActions(np.random.default_rng(3))
        return collect(source(Echo), names, spec, actions, 400, 1, history=history)

    single, stacked = collected(1), collected(3)
    arrays = {
        "observations": single.observation,
        "actions": single.action,
        "next_observations": single.next_observation,
        "rewards": single.rewards,
        "episodes": single.episode,
        "reward_names": np.array(names),
    }
    np.savez(tmp_path / "all.npz", **arrays)
    found = read_transitions(tmp_path / "all.npz", spec, 2, "echo", 3)
    order = np.argsort(stacked.episode, kind="stable")
    for name in ("observation", "action", "next_observation", "rewards", "episode"):
        np.testing.assert_array_equal(getattr(found, name), getattr(stacked, name)[order])
    np.testing.assert_array_equal(found.last_action, single.action[order])

    stacked.save(tmp_path / "stacked.npz")
    again = read_transitions(tmp_path / "stacked.npz", spec, 2, "echo", 3)
    np.testing.assert_array_equal(again.observation, stacked.observation)
    for history in (1, 2, 5):  # of a file that was saved with another
        other, expected = read_transitions(tmp_path / "stacked.npz", spec, 2, "echo", history), collected(history)
        own = slice(None) if history == 1 else order
        for name in ("observation", "action", "next_observation", "rewards"):
            np.testing.assert_array_equal(getattr(other, name), getattr(expected, name)[own])
    single.rows(np.arange(len(single)) % 5 > 0).save(tmp_path / "thin.npz")
    with pytest.raises(InputError, match=r"^The rows of episode 0 of .* do not follow one another: .* or history 1\.$"):
        read_transitions(tmp_path / "thin.npz", spec, 2, "echo", 3)


# --- observations that are stored once ---


def room_data(steps=6000, frames_path=None):
    spec = ObservationSpec((12, 12, 3))
    actions = RandomActions(np.random.default_rng(3))
    return collect(source("room", **ROOM), ("a", "b"), spec, actions, steps, 1, history=3, frames_path=frames_path)


COLUMNS = ("observation", "next_observation", "action", "rewards", "episode")


def test_every_observation_is_stored_once(tmp_path):
    data = room_data()
    assert data.observation.store.nbytes < 1.2 * 6000 * 12 * 12 * 3
    data.save(tmp_path / "all.npz")
    assert (tmp_path / "all.npz").stat().st_size < 1.5 * data.observation.store.nbytes
    again = read_transitions(tmp_path / "all.npz", data.spec, 8, "room", 3)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(again, name), getattr(data, name))
    with pytest.raises(InputError, match=r"the environment 'big' has \(\d+, 16, 16, 3\): the data is of another one"):
        read_transitions(tmp_path / "all.npz", ObservationSpec((16, 16, 3)), 8, "big", 3)


def test_observations_that_do_not_fit_into_memory_are_in_a_file(tmp_path, monkeypatch):
    expected = room_data()
    monkeypatch.setattr("usfa.phi.store.MOST_MEMORY", 500_000)
    data, temporary = room_data(frames_path=tmp_path / "data.frames"), room_data()
    size = (tmp_path / "data.frames").stat().st_size
    assert size == expected.observation.store.nbytes
    data.save(tmp_path / "data.npz")
    temporary.save(tmp_path / "other.npz")
    assert (tmp_path / "data.npz").stat().st_size < size / 2
    for found in (
        *(data, temporary),
        *(read_transitions(tmp_path / name, data.spec, 8, "room", 3) for name in ("data.npz", "other.npz")),
    ):
        assert isinstance(found.observation.store, np.memmap)
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_a_file_of_observations_is_never_overwritten_with_itself(tmp_path, monkeypatch):
    monkeypatch.setattr("usfa.phi.store.MOST_MEMORY", 500_000)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    data = room_data(frames_path=tmp_path / "link" / "data.frames")
    expected = np.asarray(data.observation)
    data.save(tmp_path / "link" / "data.npz")
    data.save(tmp_path / "folder" / "data.npz")
    again = read_transitions(tmp_path / "folder" / "data.npz", data.spec, 8, "room", 3)
    np.testing.assert_array_equal(again.observation, expected)
    room_data(1500).save(tmp_path / "folder" / "data.npz")  # over a file that is mapped
    np.testing.assert_array_equal(data.observation, expected)


def test_a_file_of_observations_of_another_environment_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("usfa.phi.store.MOST_MEMORY", 500_000)
    room_data().save(tmp_path / "data.npz")
    for shape in ((24, 6, 3), (16, 16, 3)):
        with pytest.raises(InputError, match=r"the environment 'other' has .*: the data is of another one\.$"):
            read_transitions(tmp_path / "data.npz", ObservationSpec(shape), 8, "other", 3)


def test_joined_data_stores_every_observation_once():
    parts = [room_data(600), room_data(1500)]
    joined = concatenated(parts)
    assert joined.observation.store is joined.next_observation.store
    assert len(joined.observation.store) == sum(len(part.observation.store) for part in parts)
    for name in ("observation", "next_observation"):
        stacked = np.concatenate([np.asarray(getattr(part, name)) for part in parts])
        np.testing.assert_array_equal(getattr(joined, name), stacked)


def test_files_of_observations_that_are_torn_changed_or_missing_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("usfa.phi.store.MOST_MEMORY", 500_000)
    path = tmp_path / "data.frames"
    data = room_data(1500, path)
    data.save(tmp_path / "data.npz")
    content = path.read_bytes()
    changed = bytes([content[0] ^ 1]) + content[1:]
    for bad in (changed, content[:-1], content[: -12 * 12 * 3], b""):
        path.write_bytes(bad)
        with pytest.raises(InputError, match=r"data\.frames is torn or was changed"):
            read_transitions(tmp_path / "data.npz", data.spec, 8, "room", 3)
    path.unlink()
    with pytest.raises(InputError, match=r"data\.frames is missing; expected the observations of .*data\.npz\.$"):
        read_transitions(tmp_path / "data.npz", data.spec, 8, "room", 3)


def test_too_little_disk_space_is_reported_before_the_first_step(tmp_path, monkeypatch):
    monkeypatch.setattr("usfa.phi.store.MOST_MEMORY", 500_000)
    monkeypatch.setattr("usfa.files.shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(InputError, match=r"^The disk of .* has 0\.0 MiB left; expected at least 2\.5\."):
        room_data(frames_path=tmp_path / "data.frames")
    assert not (tmp_path / "data.frames").exists()


def test_thinning_keeps_weighted_means():
    everything = room_data()
    assert everything.rare.mean() < 0.1
    part = everything.thinned(seed=2)
    assert part.rare.sum() == everything.rare.sum()
    assert (~part.rare).sum() == 4 * part.rare.sum()
    assert part.weight.sum() == pytest.approx(len(everything), rel=1e-5)
    np.testing.assert_allclose(
        np.average(part.rewards, axis=0, weights=part.weight), everything.rewards.mean(axis=0), rtol=1e-6
    )
    assert part.thinned() is part


def test_a_fifth_of_the_rows_of_an_update_have_a_rare_reward_and_the_loss_is_unbiased():
    data = room_data()
    chance = _chances(data)
    chance /= chance.sum()
    assert chance[data.rare].sum() == pytest.approx(0.2)
    values = np.random.default_rng(0).random(len(data))
    weight = 1 / (chance * len(data))
    assert (chance * weight * values).sum() == pytest.approx(values.mean())
    assert (_chances(data.thinned()) == 1).all()


# --- learning ---


@pytest.mark.parametrize("learner", [LeastSquares(), NetworkFit(hidden=(64,), steps=1500, batch=128)])
def test_a_history_expresses_what_a_transition_does_not(learner):
    """The reward is the number two steps ago: three observations hold it, one does not."""
    config = FeaturesConfig(Echo, ("task:1,0",), learner=learner, steps=3000, history=3)
    assert usfa.learn_features(config=config, console=None).report.r2[0] > 0.95
    with pytest.warns(UserWarning, match="cannot express"):
        alone = usfa.learn_features(config=replace(config, history=1), console=None)
    assert alone.report.r2[0] < 0.3


def test_a_history_holds_the_actions_before():
    learner = NetworkFit(hidden=(32,), steps=600, batch=128)
    phi = usfa.learn_features(Echo, "task:0,1", learner=learner, steps=3000, history=2, console=None)
    assert phi.report.r2[0] > 0.95
    env = make(phi.report.environment, phi=phi)
    env.reset(seed=0)
    found = [env.step(action)[1][0] for action in (0, 1, 0, 0, 1, 1, 1)]
    np.testing.assert_allclose(found, [0, 0, 1, 0, 0, 1, 1], atol=0.3)


@pytest.mark.parametrize("learner", ["laplacian", "contrastive", "random"])
def test_features_without_rewards_have_a_history(learner):
    settings = {"steps": 5, "hidden": [8]} if learner != "random" else {"hidden": [8]}
    text = f"{learner}{json.dumps(settings)}"
    phi = usfa.learn_features("CartPole-v1", learner=text, features=3, steps=200, history=2, console=None)
    observation = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    first = phi(observation, [0, 1], observation[0])
    assert first.shape == (3,)
    np.testing.assert_array_equal(first, phi([observation[1] * 9, observation[1]], [1, 0], observation[0]))  # φ(s, s′)
    assert not np.array_equal(first, phi([observation[0], observation[0]], [0, 1], observation[0]))


def test_tasks_one_after_another_with_a_history():
    stream = TaskStream(Echo, NetworkFit(hidden=(64,), steps=1500, batch=128), history=3)
    assert stream.observe("task:1,0", steps=3000).phi.history == 3
    estimate = TaskStream(Echo, phi=stream.phi).observe("task:2,0", steps=300)
    assert not estimate.fitted
    np.testing.assert_allclose(estimate.task.w, [2], atol=0.2)


def test_tables_do_not_hold_a_phi_of_the_history():
    phi = usfa.learn_features("trip", "tasks:trip-train", learner="least-squares", steps=400, history=2, console=None)
    assert min(phi.report.r2) > 0.99
    assert exact_mdp(make("trip", phi=phi)) is None
    assert exact_mdp(make("trip", phi=usfa.learn_features("trip", "task:1,1", steps=200, console=None))) is not None


# --- resume ---


@pytest.mark.parametrize("environments", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_a_batch_goes_on_to_the_bit(environments):
    """Saved in the middle of episodes, which environments without `get_state` play again."""
    phi = usfa.LearnedPhi(_network(environments), PhiReport("any", features=("a", "b")))
    batch, rng = LearnedBatch(environments.batch([1, 2, 3], 0.9), phi), np.random.default_rng(1)
    for _ in range(14):
        batch.step(rng.integers(batch.actions, size=3))
    state = json.loads(json.dumps(batch.state()))
    actions = rng.integers(batch.actions, size=(25, 3))
    expected = [batch.step(action) for action in actions.copy()]
    expected = [step.phi.copy() for step in expected]
    other = LearnedBatch(environments.batch([7, 8, 9], 0.9), phi)
    other.step(actions[0])
    other.load_state(state)
    np.testing.assert_array_equal([other.step(action).phi.copy() for action in actions], expected)
    assert np.ptp(expected) > 0


class Unrepeatable(Echo):
    """Ignores its seed, so that no episode can be played again."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None if hasattr(self, "shown") else seed)


def test_an_episode_that_cannot_be_played_again_starts_without_a_history():
    environments = source(Unrepeatable)
    phi = usfa.LearnedPhi(_network(environments), PhiReport("any", features=("a", "b")))
    batch, other = (LearnedBatch(environments.batch([seed], 0.9), phi) for seed in (1, 2))
    for _ in range(5):
        batch.step(np.ones(1, np.int64))
    with pytest.warns(UserWarning, match="The environment Unrepeatable does not repeat an episode"):
        other.load_state(json.loads(json.dumps(batch.state())))
    assert other.first.all()
    start = other.observation.copy()
    total = np.zeros(2)
    for number in range(9):
        step = other.step(np.zeros(1, np.int64))
        total += step.phi[0]
        if number == 0:
            expected = phi.of_batch(
                np.concatenate([start] * 3, axis=1), np.array([[-1, -1, 0]]), other.next_observation, step.phi[:, :0]
            )
            np.testing.assert_array_equal(step.phi, expected)
    np.testing.assert_allclose(step.episode_phi[0], total, rtol=1e-6)


def _network(environments, history=3):
    with environments.opened() as env:
        spec = PhiSpec(ObservationSpec.of(env.observation_space), int(env.action_space.n), 2, history)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return NetworkPhi(spec, (8,), ((4, 4, 2),))


# --- files ---


def test_a_saved_phi_is_the_same_in_another_process(room_phi, tmp_path):
    room_phi.save(tmp_path)
    assert load_phi(tmp_path).text == room_phi.text
    rng = np.random.default_rng(2)
    frames, after = rng.integers(256, size=(3, 12, 12, 3), dtype=np.uint8), rng.integers(256, size=(12, 12, 3))
    after = after.astype(np.uint8)
    np.savez(tmp_path / "transition.npz", frames=frames, after=after)
    script = (
        "import sys, numpy as np, usfa; phi = usfa.load_features(sys.argv[1]); "
        "x = np.load(sys.argv[1] + '/transition.npz'); "
        "print(phi.text, phi.history, phi(x['frames'], [-1, 4, 2], x['after']).tobytes().hex())"
    )
    words = [sys.executable, "-c", script, str(tmp_path)]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    expected = room_phi(frames, [-1, 4, 2], after)
    assert found == [room_phi.text, "3", expected.tobytes().hex()]
    assert room_phi.text != usfa.LearnedPhi(_network(ENVIRONMENTS["truncated"], 1), room_phi.report).text


def test_phi_from_before_there_were_histories(tmp_path):
    """Files of format 1, whose text configurations and agents hold."""
    model = LinearPhi(PhiSpec(ObservationSpec((2,), 2), 3, 2), "linear", 15)
    model.weight.copy_(torch.arange(30.0).reshape(15, 2) / 7)
    phi = usfa.LearnedPhi(model, PhiReport("trip", features=("a", "b")))
    assert phi.text == "learned:ea403ef709a885ab"  # as usfa computed it then
    phi.save(tmp_path)
    fields = json.loads((tmp_path / "phi.json").read_text())
    assert fields["spec"].pop("history") == 1
    del fields["checksum"]
    (tmp_path / "phi.json").write_text(json.dumps({**fields, "format": 1}))
    found = load_phi(tmp_path)
    assert (found.text, found.history) == (phi.text, 1)


# --- bad input ---


def test_bad_input_is_one_sentence(room_phi, tmp_path, capsys):
    sentence = "history is 0; expected a whole number from 1 to 64."
    words = ["learn-features", "trip", "--rewards", "task:10", "--out", str(tmp_path / "run")]
    assert main([*words, "--history", "0"]) == 2
    assert sentence in capsys.readouterr().err
    for make_it in (
        lambda: FeaturesConfig("trip", ("task:10",), history=0),
        lambda: TaskStream("trip", history=0),
        lambda: PhiSpec(ObservationSpec((2,)), 2, 1, 0),
        lambda: History(0, np.zeros((1, 2))),
    ):
        with pytest.raises(InputError, match=f"^{sentence}$"):
            make_it()
    with pytest.raises(InputError, match=r"^φ has a history of 3, but the actions have shape \(1, 1\); expected as"):
        room_phi(np.zeros((1, 12, 12, 3), np.uint8), [0], np.zeros((12, 12, 3), np.uint8))


@dataclass(frozen=True)
class Forgetful(PhiLearner):
    def fit(self, data, features, seed, progress):
        return LinearPhi(PhiSpec(data.spec, data.actions, features), "linear", 6)


def test_a_learner_that_forgets_the_history_is_refused():
    actions = RandomActions(np.random.default_rng(0))
    spec = ObservationSpec.of(Echo().observation_space)
    data = collect(source(Echo), ("older", "before"), spec, actions, 200, history=2)
    with pytest.raises(InputError, match=r"^The learner Forgetful\(\) made a model with a history of 1; expected 2, "):
        learn_phi(data, Forgetful())

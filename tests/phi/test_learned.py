"""Learned φ: what each learner finds, how many features, saving, and sentences for bad input."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import usfa
from usfa.environments import ObservationSpec, known_phi, make, rewarded, source
from usfa.errors import InputError
from usfa.figures.features import responses_figure
from usfa.phi import (
    Contrastive,
    Laplacian,
    LeastSquares,
    LinearPhi,
    NetworkFit,
    PhiLearner,
    PhiModel,
    PhiReport,
    PhiSpec,
    RandomActions,
    RandomFeatures,
    RewardsPhi,
    RewardsThemselves,
    collect,
    default_learner,
    learn_phi,
    load_phi,
    predict,
    read_transitions,
)
from usfa.phi.learners import descend, tensors_of
from usfa.runs import FeaturesConfig
from usfa.runs.features import _data as collected
from usfa.runs.features import responses_table

THREE = ("task:10", "task:01", "task:0.5,0.5")  # of rank 2
SMALL = NetworkFit(hidden=(64,), steps=400, batch=128)
NETWORKS = [SMALL, replace(SMALL, precision="bf16")]


def transitions(environment="trip", texts=THREE, steps=600, seed=0):
    inside = source(environment)
    with inside.opened() as env:
        spec = ObservationSpec.of(env.observation_space)
    actions = RandomActions(np.random.default_rng(seed))
    return collect(rewarded(inside, texts), texts, spec, actions, steps, seed)


@pytest.fixture(scope="module")
def trip_data():
    return transitions()


@dataclass(frozen=True)
class Centred(PhiLearner):
    """A learner of one's own, without rewards: φ = (1, s′ = s2)."""

    supervised = False

    def fit(self, data, features, seed, progress):
        return OwnModel(PhiSpec(data.spec, data.actions, 2), scale=3)


class OwnModel(PhiModel):
    def __init__(self, spec, scale=1):
        super().__init__(spec)
        self.scale = torch.nn.Parameter(torch.tensor(float(scale)))

    def forward(self, observation, action, next_observation, rewards):
        return self.scale * next_observation[:, :2].float()


# --- what is learned ---


@pytest.mark.parametrize("learner", [RewardsThemselves(), LeastSquares(), LeastSquares("linear"), *NETWORKS])
def test_phi_has_the_rank_of_the_rewards_and_expresses_them(trip_data, learner):
    if learner == LeastSquares("linear"):  # cannot express places that differ by (s, a) only up to its features
        trip_data = replace(trip_data, rewards=trip_data.rewards.copy())
    phi = learn_phi(trip_data, learner)
    assert phi.features == 2
    assert phi.feature_names == ("10", "01")
    np.testing.assert_allclose(phi.tasks, [[1, 0], [0, 1], [0.5, 0.5]], atol=0.01)
    assert min(phi.report.r2) > 0.99
    assert max(phi.report.unexplained) < 0.01
    assert phi.report.r2_by_size[0][0] < 0.9  # one feature does not do


def test_a_learned_phi_is_the_given_one_on_every_transition(trip_data):
    phi = learn_phi(trip_data, LeastSquares())
    given, learned = make("trip"), make("trip", phi=phi)
    rng = np.random.default_rng(5)
    for seed in range(20):
        (_, info), _ = given.reset(seed=seed), learned.reset(seed=seed)
        done = False
        while not done:
            action = rng.choice(np.flatnonzero(info["action_mask"]))
            (_, expected, done, _, info), (_, found, *_) = given.step(action), learned.step(action)
            np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_batch_computes_what_single_environments_do(trip_data):
    phi = learn_phi(trip_data, SMALL)
    batch, rng = source("trip", phi=phi).batch([3, 4], 1.0), np.random.default_rng(0)
    envs = [make("trip", phi=phi) for _ in range(2)]
    infos = [env.reset(seed=seed)[1] for env, seed in zip(envs, (3, 4), strict=True)]
    for _ in range(12):
        np.testing.assert_array_equal(batch.legal, [info["action_mask"] for info in infos])
        action = np.array([rng.choice(np.flatnonzero(legal)) for legal in batch.legal])
        step = batch.step(action)
        for index, env in enumerate(envs):
            _, expected, done, _, infos[index] = env.step(action[index])
            np.testing.assert_allclose(step.phi[index], expected, atol=1e-6)
            assert step.ended[index] == done
            if done:
                infos[index] = env.reset()[1]


def test_only_the_part_of_a_reward_that_phi_can_express_is_claimed():
    data = transitions(steps=1500)
    noise = np.random.default_rng(0).standard_normal(len(data)).astype(np.float32)
    noisy = with_rewards(data, np.column_stack([data.rewards[:, 0], noise]))
    with pytest.warns(UserWarning, match=r"cannot express \d+% of 'r2' on held-out episodes; expected at most 10%"):
        phi = learn_phi(noisy, LeastSquares(), features=2)
    assert phi.report.r2[0] > 0.99
    assert phi.report.unexplained[1] > 0.9


def test_the_noise_of_phi_is_the_mean_square_of_its_errors(trip_data):
    phi = learn_phi(trip_data, NetworkFit(hidden=(16,), steps=400), 2)
    _, held = trip_data.split()
    held = held.thinned()
    errors = (held.rewards - predict(phi.model, held) @ phi.tasks.T) ** 2
    assert phi.noise == pytest.approx(np.average(errors.mean(axis=1), weights=held.weight))
    assert learn_phi(trip_data, LeastSquares()).noise < 1e-9


def test_rewards_that_were_not_seen_have_no_effect(trip_data):
    seen = np.ones_like(trip_data.seen)
    seen[::2, 1] = False
    hidden = np.where(seen, trip_data.rewards, np.float32(1e6))
    phi = learn_phi(replace(trip_data, seen=seen, rewards=hidden), LeastSquares())
    np.testing.assert_allclose(phi.tasks, [[1, 0], [0, 1], [0.5, 0.5]], atol=1e-5)


def test_weights_count_as_repetitions(trip_data):
    twice = trip_data.rows(np.repeat(np.arange(len(trip_data)), 2))
    weighted = replace(trip_data, weight=np.full(len(trip_data), 2.0, np.float32))
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(trip_data.rewards.shape).astype(np.float32)
    first = LeastSquares("linear").fit(replace(weighted, rewards=noise), 3, 0, None)
    second = LeastSquares("linear").fit(replace(twice, rewards=noise.repeat(2, axis=0)), 3, 0, None)
    np.testing.assert_allclose(first.weight, second.weight, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("rich", ["table", "linear"])
def test_least_squares_reads_data_in_parts(trip_data, monkeypatch, rich):
    whole = LeastSquares(rich).fit(trip_data, 3, 0, None)
    monkeypatch.setattr("usfa.phi.learners._ROWS", 37)
    np.testing.assert_allclose(LeastSquares(rich).fit(trip_data, 3, 0, None).weight, whole.weight, atol=1e-5)


def test_rewards_are_rare_among_those_that_were_seen(trip_data):
    """A stream of tasks has 0 for rewards that were not seen."""
    rewards = np.zeros((len(trip_data), 2), np.float32)
    seen = np.zeros((len(trip_data), 2), np.bool_)
    seen[::3, 0], seen[1::3, 1] = True, True
    rewards[seen] = -1.0
    rewards[0, 0] = 5.0
    data = replace(trip_data, rewards=rewards, seen=seen, names=("a", "b"))
    np.testing.assert_array_equal(np.flatnonzero(data.rare), [0])


@pytest.mark.parametrize("learner", [RewardsThemselves(), LeastSquares()])
def test_rewards_that_held_out_episodes_never_gave_are_kept(trip_data, learner):
    _, held = trip_data.split()
    rare = (trip_data.action == 0) & ~np.isin(trip_data.episode, held.episode)
    data = with_rewards(trip_data, np.column_stack([trip_data.rewards[:, 1], rare]))
    with pytest.warns(UserWarning, match=r"^It is not known how well φ expresses 'r2', which held-out episodes never"):
        phi = learn_phi(data, learner)
    np.testing.assert_array_equal(phi.tasks, np.eye(2))
    assert phi.report.unexplained[1] is None


def test_exact_features_have_the_rank_of_the_rewards(trip_data):
    small = 0.05 * np.random.default_rng(0).standard_normal(len(trip_data))  # expressed up to 0.0025 without it
    first = trip_data.rewards[:, 0]
    data = with_rewards(trip_data, np.column_stack([first, first + small * first.std()]))
    assert learn_phi(data, RewardsThemselves()).features == 2


def test_names_of_features_are_short_where_they_differ(trip_data):
    named = replace(trip_data, names=("a:speed", "b:speed", "b:height"))
    phi = learn_phi(named, LeastSquares(), features=3)
    assert phi.feature_names == ("a:speed", "b:speed", "height")
    responses_figure(responses_table(phi, named))


def test_every_reward_is_learned_from_and_held_out(trip_data):
    """Five tasks one after the other, each seen in two episodes, as in a stream."""
    own = np.repeat(np.arange(5), 2)
    data = with_rewards(trip_data.rows(np.arange(10)), np.arange(50.0).reshape(10, 5))
    data = replace(data, episode=np.arange(10), seen=own[:, None] == np.arange(5))
    for seed in range(10):
        for part in data.split(seed=seed):
            assert part.seen.any(axis=0).all()


# --- without rewards ---


def test_all_transitions_are_kept_for_learners_without_rewards():
    config = FeaturesConfig("trip", learner="laplacian", steps=4000)
    data = collected(config, None)
    assert len(data) > 3900
    assert (data.weight == 1).all()


def test_bf16_is_used_if_asked_for(trip_data):
    in_fp32, in_bf16 = (learner.fit(trip_data, 3, 0, _Quiet()) for learner in NETWORKS[:2])
    assert not torch.equal(in_fp32.output.weight, in_bf16.output.weight)


def test_learners_without_rewards_count_weights():
    data = chain()
    place = data.next_observation.argmax(axis=1)
    data = replace(data, weight=np.where(place < 3, 5, 1).astype(np.float32))
    model = RandomFeatures().fit(data, 3, 0, _Quiet())
    with torch.no_grad():
        phi = model(*tensors_of(data))
    weight = torch.from_numpy(data.weight)[:, None]
    torch.testing.assert_close(phi.T @ (weight * phi) / weight.sum(), torch.eye(3), atol=0.01, rtol=0)
    drawn = []
    learner = Laplacian(hidden=(), steps=3, batch=50)

    def loss_of(rows):
        drawn.extend(rows.tolist())
        return model.output.weight.sum()

    descend(model, loss_of, (place < 3).astype(np.float32), learner, 0, _Quiet())
    assert len(drawn) == 150
    assert (place[drawn] < 3).all()
    with pytest.raises(InputError, match=r"^The data has weights, so transitions of its episodes were left out"):
        Contrastive().fit(data, 3, 0, _Quiet())


def angle(observation, action, next_observation):
    return float(next_observation[2])


@pytest.mark.parametrize("settings", [{"learner": "laplacian"}, {"rewards": angle}])
def test_data_that_does_not_fit_into_memory_is_refused_first(settings):
    sentence = r"^steps is 1,000,000,000, which would take 37\.3 GiB of memory besides the observations; expected at"
    with pytest.raises(InputError, match=sentence):
        usfa.learn_features("CartPole-v1", steps=10**9, console=None, **settings)


def chain(size=9, steps=4000):
    """Transitions of a random walk on a line, one-hot."""
    rng = np.random.default_rng(0)
    place, places = 0, []
    for _ in range(steps + 1):
        places.append(place)
        place = int(np.clip(place + rng.choice([-1, 1]), 0, size - 1))
    data = transitions(steps=steps)
    hot = np.eye(size, dtype=np.float32)[places]
    return replace(
        data.rows(np.zeros(steps, np.int64)),
        observation=hot[:-1],
        next_observation=hot[1:],
        episode=np.arange(steps) // 200,
        spec=ObservationSpec((size,), size),
    )


def features_of_places(learner):
    """φ of the 9 places of the line [9, 3], and the mean square of features over the data [3, 3]."""
    data, hot = chain(), torch.eye(9)
    model = learner.fit(data, 3, 0, _Quiet())
    with torch.no_grad():
        phi = model(hot, torch.zeros(9, dtype=torch.int64), hot, None)
    seen = phi[torch.from_numpy(data.next_observation).argmax(dim=1)]
    return phi, seen.T @ seen / len(seen)


@pytest.mark.parametrize(
    "learner", [Laplacian(hidden=(64,), steps=500, learning_rate=1e-2), Contrastive(hidden=(64,), steps=300)]
)
def test_features_without_rewards_tell_near_from_far(learner):
    phi, squares = features_of_places(learner)
    distance = torch.cdist(phi, phi)
    near = distance.diagonal(1).mean()
    assert distance[0, 8] > 3 * near
    assert distance[0, 4] > 1.5 * near
    torch.testing.assert_close(squares, torch.eye(3), atol=0.01, rtol=0)


def test_random_features_have_a_mean_square_of_one():
    _, squares = features_of_places(RandomFeatures())
    torch.testing.assert_close(squares, torch.eye(3), atol=0.01, rtol=0)


class _Quiet:
    def load(self):
        return None

    def save(self, step, tensors):
        pass

    def update(self, share, note=""):
        pass


# --- own learners and files ---


def test_an_own_learner_is_saved_and_loaded(trip_data, tmp_path):
    phi = learn_phi(trip_data, Centred())
    phi.save(tmp_path)
    found = load_phi(tmp_path)
    assert found.text == phi.text
    assert float(found.model.scale) == 3
    assert usfa.make("trip", phi=found).reward_space.shape == (2,)


class ActionTable(PhiModel):
    """A model of one's own: a number for each action and reward."""

    def __init__(self, spec):
        super().__init__(spec)
        self.table = torch.nn.Parameter(torch.zeros(spec.actions, spec.features))

    def forward(self, observation, action, next_observation, rewards):
        return self.table[action]

    def project(self, mix):
        self.table = torch.nn.Parameter(self.table @ mix)
        self.spec = self.spec.with_features(mix.shape[1])


@dataclass(frozen=True)
class MeanByAction(PhiLearner):
    def fit(self, data, features, seed, progress):
        model = ActionTable(PhiSpec(data.spec, data.actions, features))
        chosen = np.eye(data.actions)[data.action]
        model.table.data = torch.from_numpy(np.linalg.lstsq(chosen, data.rewards, rcond=None)[0]).float()
        return model


def test_an_own_learner_from_rewards_needs_project(trip_data, monkeypatch):
    first = (trip_data.action == 0).astype(np.float32)
    data = with_rewards(trip_data, np.column_stack([first, 2 * first]))
    phi = learn_phi(data, MeanByAction())
    assert phi.features == phi.model.table.shape[1] == 1
    assert max(phi.report.unexplained) < 1e-9
    monkeypatch.delattr(ActionTable, "project")
    with pytest.raises(InputError, match=r"^ActionTable cannot change its features; expected a method project\.$"):
        learn_phi(data, MeanByAction())


@pytest.mark.parametrize(
    ("spec", "learner"),
    [
        (ObservationSpec((9,), 9), LeastSquares()),
        (ObservationSpec((5000,), 5000), NetworkFit()),
        (ObservationSpec((42, 42, 3)), NetworkFit((1024, 512, 256), steps=20_000)),
    ],
)
def test_the_default_learner_depends_on_observations(spec, learner):
    assert default_learner(PhiSpec(spec, 4, 2)) == learner


@pytest.mark.parametrize("learner", [RewardsThemselves(), LeastSquares(), SMALL])
def test_a_saved_phi_is_the_same_to_the_bit(trip_data, learner, tmp_path):
    phi = learn_phi(trip_data, learner)
    phi.save(tmp_path)
    found = load_phi(tmp_path)
    arguments = (trip_data.observation, trip_data.action, trip_data.next_observation, trip_data.rewards)
    np.testing.assert_array_equal(found.of_batch(*arguments), phi.of_batch(*arguments))
    assert (found.text, found.report) == (phi.text, phi.report)
    assert known_phi(phi.text) is found
    assert sorted(path.name for path in tmp_path.iterdir()) == ["phi.json", "phi.safetensors"]


def test_a_changed_file_is_refused(trip_data, tmp_path):
    learn_phi(trip_data, LeastSquares()).save(tmp_path)
    weights = tmp_path / "phi.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    with pytest.raises(InputError, match=r"phi.safetensors is torn or was changed: its checksum does not match"):
        load_phi(tmp_path)


def test_functions_in_files_need_trust(trip_data, tmp_path):
    model = LinearPhi(PhiSpec(trip_data.spec, trip_data.actions, 1), "math:sqrt", 3)
    usfa.LearnedPhi(model, learn_phi(trip_data, LeastSquares()).report).save(tmp_path)
    with pytest.raises(InputError, match=r"^The file names the function 'math:sqrt', which would be run; set trust"):
        load_phi(tmp_path)
    assert load_phi(tmp_path, trust=True).features == 1


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("rewards", {"rewards": {"evil_phi:f": 0}}),
        ("rewards", {"rewards": ["evil_phi:f"]}),
        ("rewards", {"rewards": ["evil_phi"]}),
        ("rewards", {"rewards": [["evil_phi:f"]]}),
        ("linear", {"rich": "task:f", "inputs": 1}),
        ("linear", {"rich": "info:f", "inputs": 1}),
        ("linear", {"rich": ["evil_phi:f"], "inputs": 1}),
        ('linear{"rich": "evil_phi:f"}', {"inputs": 1}),
    ],
)
def test_a_forged_file_runs_nothing(trip_data, model, settings, tmp_path, monkeypatch):
    ran = tmp_path / "ran"
    for name in ("evil_phi", "task", "info"):
        (tmp_path / f"{name}.py").write_text(f"open({str(ran)!r}, 'w').close()\ndef f(*_): return 0.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    weights = RewardsPhi(PhiSpec(trip_data.spec, trip_data.actions, 1), ("reward",))
    usfa.LearnedPhi(weights, PhiReport()).save(tmp_path)
    path = tmp_path / "phi.json"
    fields = json.loads(path.read_text()) | {"model": model, "settings": settings}
    del fields["checksum"]
    path.write_text(json.dumps(fields))
    with pytest.raises(InputError, match=r"would be run; set trust|expected a list of texts|arguments in settings"):
        make("trip", phi=load_phi(tmp_path))
    assert not ran.exists()


def test_loading_draws_no_random_numbers(trip_data, tmp_path):
    phi = learn_phi(trip_data, SMALL)
    state = torch.get_rng_state()
    phi.model.project(torch.eye(2))
    phi.save(tmp_path)
    load_phi(tmp_path)
    assert torch.equal(torch.get_rng_state(), state)


class _Keeper(_Quiet):
    kept = None

    def load(self):
        return self.kept

    def save(self, step, tensors):
        self.kept = step, {name: tensor.clone() for name, tensor in tensors.items()}


@pytest.mark.parametrize("learner", NETWORKS)
def test_learning_is_resumed_to_the_bit(trip_data, learner):
    learner, keeper = replace(learner, steps=700), _Keeper()
    whole = learner.fit(trip_data, 3, 0, keeper)
    assert keeper.kept[0] == 500
    resumed = learner.fit(trip_data, 3, 0, keeper)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_a_checkpoint_of_another_network_is_refused(trip_data):
    learner, keeper = replace(SMALL, steps=501), _Keeper()
    learner.fit(trip_data, 3, 0, keeper)
    with pytest.raises(InputError, match=r"^The run was begun with another network of φ; expected"):
        replace(learner, hidden=(32,)).fit(trip_data, 3, 0, keeper)


# --- bad input ---


def with_rewards(data, rewards):
    values = np.asarray(rewards, np.float32)
    names = tuple(f"r{k + 1}" for k in range(values.shape[1]))
    return replace(data, rewards=values, names=names, seen=np.ones(values.shape, np.bool_))


@pytest.mark.parametrize(
    ("change", "features", "learner", "sentence"),
    [
        (
            lambda r: r,
            1,
            RewardsThemselves(),
            r"The 3 rewards span 2 directions, which no φ with 1 feature can express",
        ),
        (lambda r: r * 0 + 7, None, LeastSquares(), r"The reward 'r1' is 7 in all \d+ transitions; expected one that"),
        (lambda r: r * np.nan, None, LeastSquares(), r"The reward 'r1' holds NaN or infinity; expected finite numbers"),
        (lambda r: r, 4, LeastSquares(), r"features is 4, but there are 3 rewards, which determine as many features"),
        (lambda r: r, 0, LeastSquares(), r"features is 0; expected at least 1"),
        (lambda r: r, 2, LeastSquares("cubic"), r"rich is 'cubic'; expected 'auto', 'table', 'linear' or"),
    ],
)
def test_bad_rewards_are_one_sentence(trip_data, change, features, learner, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        learn_phi(with_rewards(trip_data, change(trip_data.rewards)), learner, features)


def test_phi_of_another_environment_is_refused(trip_data):
    phi = learn_phi(trip_data, LeastSquares(), environment="trip")
    sentence = r"^φ was learned in 'trip', with observations \(2,\) and 8 actions; this environment has \(1,\) and 2\.$"
    with pytest.raises(InputError, match=sentence):
        make("one-state", phi=phi)


def test_phi_of_tasks_with_another_number_of_features_is_refused(trip_data):
    phi = usfa.LearnedPhi(RewardsPhi(PhiSpec(trip_data.spec, trip_data.actions, 1), ("task:1,0,0",)), PhiReport())
    for name in ("trip", "room"):
        with pytest.raises(InputError, match=r"^Task \[1. 0. 0.\] has 3 entries; expected \d, one per feature\.$"):
            source(name, phi=phi).batch([0, 1], 1.0)


def test_a_file_of_transitions_is_read_again(trip_data, tmp_path):
    path = tmp_path / "data.npz"
    trip_data.save(path)
    found = read_transitions(path, trip_data.spec, trip_data.actions, "trip")
    for name in ("observation", "action", "next_observation", "rewards", "episode", "weight", "seen"):
        np.testing.assert_array_equal(getattr(found, name), getattr(trip_data, name))
    assert found.names == trip_data.names


RAW = {
    "observations": np.array([0, 1, 0]),
    "actions": np.array([7, 0, 0]),
    "next_observations": np.array([1, 0, 0]),
    "rewards": np.array([0.0, 1.0, 1.0]),
    "terminals": np.array([0, 1, 1]),
    "timeouts": np.array([0, 0, 0]),
}


def test_files_with_the_names_of_d4rl_are_read(tmp_path):
    np.savez(tmp_path / "raw.npz", **RAW)
    found = read_transitions(tmp_path / "raw.npz", ObservationSpec((2,), 2), 8, "trip")
    assert found.observation.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert (found.rewards.shape, found.episode.tolist(), found.names) == ((3, 1), [0, 0, 1], ("r1",))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"actions": np.array([8, 0, 0])},
            r"The actions of .* are 0 to 8; the environment 'trip' has 0 to 7: the data",
        ),
        ({"observations": np.ones((3, 4))}, r"The observations of .*raw.npz are not those of 'trip': "),
        ({"rewards": np.ones(2)}, r"The rewards of .* have shape \(2,\); expected \(3,\) or \(3, K\)\."),
        ({"terminals": None, "timeouts": None}, r"File .* has neither episodes nor terminals and timeouts"),
        ({"rewards": None}, r"File .* has no array 'rewards'; expected the names of D4RL"),
        ({"rewards": np.ones((3, 0))}, r"The rewards of .* have shape \(3, 0\); expected \(3,\) or \(3, K\)\."),
        ({"actions": np.array(1)}, r"The actions of .* are int64 \(\); expected whole numbers \[N\]\."),
        ({"history": np.array([1, 2])}, r"The array 'history' of .* is int64 \(2,\); expected one whole number\."),
        ({"history": np.array("x")}, r"The array 'history' of .* is <U1 \(\); expected one whole number\."),
        ({"seen": np.ones(3, np.bool_)}, r"The array 'seen' of .* is bool \(3,\); expected bool \(3, 1\)\."),
        ({"weights": np.array(["a", "b", "c"])}, r"The weights of .* are not 3 positive numbers\."),
        ({"frames": np.array(1.0)}, r"The observations of .* have shape \(\); the environment 'trip' has "),
        ({"observations": np.array([{}, 1, 2], dtype=object)}, r"File .* is not an npz archive of arrays: "),
    ],
)
def test_data_of_another_environment_is_refused(tmp_path, change, sentence):
    arrays = {name: array for name, array in {**RAW, **change}.items() if array is not None}
    np.savez(tmp_path / "raw.npz", **arrays)
    with pytest.raises(InputError, match=f"^{sentence}"):
        read_transitions(tmp_path / "raw.npz", ObservationSpec((2,), 2), 8, "trip")

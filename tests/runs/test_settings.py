"""Settings for any environment: chosen by what it shows, and good enough to reach known optima in seconds."""

from dataclasses import replace
from functools import partial

import gymnasium as gym
import numpy as np
import pytest

import broken_environments
import usfa
from fake_environments import Walk, WalkInParts
from usfa.decisions import CandidateSet, Gpi
from usfa.environments import check_environment, register, source
from usfa.errors import InputError
from usfa.evaluation import environment_front
from usfa.evaluation.episodes import episode_batch, vector_returns
from usfa.functional import best_utility
from usfa.learning import Learner
from usfa.runs import build_agent, settings, settings_for
from usfa.tasks import parse_tasks

SENTENCES = {
    "deep-sea-treasure-v0": "2 whole numbers with 144 combinations: one-hot",
    "deep-sea-treasure-mirrored-v0": "2 whole numbers with 441 combinations: one-hot",
    "four-room-v0": "14 whole numbers with 196 values in all: one-hot",
    "fruit-tree-v0": "2 whole numbers with 128 values in all: one-hot",
    "resource-gathering-v0": "4 whole numbers with 24 values in all: one-hot",
    "fishwood-v0": "1 whole number with 2 values in all: one-hot",
    "minecart-v0": "vector of 7: layers",
    "mo-mountaincar-v0": "vector of 2: layers, scaled by its bounds",
}
of_mo_gymnasium = pytest.mark.filterwarnings("ignore")  # what MO-Gymnasium warns of


@of_mo_gymnasium
@pytest.mark.parametrize(("name", "sentence"), SENTENCES.items())
def test_every_environment_finds_its_trunk_and_can_be_learned_in(name, sentence):
    pytest.importorskip("mo_gymnasium")
    config = settings_for(name)
    agent = build_agent(config)
    assert agent.spec.observation.describe() == sentence
    learner = Learner(agent, config.learner, config.environments, config.tasks, (0,))
    assert np.isfinite(learner.step().loss).all()


BROKEN = [
    name
    for name, thing in vars(broken_environments).items()
    if isinstance(thing, type) and issubclass(thing, gym.Env) and not name.startswith("_")
]


def refusal(environment):
    try:
        config = settings_for(environment)
        Learner(build_agent(config), config.learner, config.environments, config.tasks, (0,)).step()
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BROKEN)
def test_an_environment_that_cannot_be_learned_in_is_refused_in_one_sentence(name, monkeypatch):
    monkeypatch.setattr(settings, "RANDOM_STEPS", 200)
    sentence = refusal(f"broken_environments:{name}")
    assert "\n" not in sentence
    if sentence:
        findings = check_environment(f"broken_environments:{name}")
        assert any(finding.severity == "error" for finding in findings)


def test_settings_for_a_class_name_it(monkeypatch):
    monkeypatch.setattr(settings, "RANDOM_STEPS", 50)
    assert settings_for(Walk) == settings_for("fake_environments:Walk")
    with pytest.raises(InputError, match=r"^environment is .*, which cannot be saved; expected a name, a class"):
        settings_for(Walk())


class Screen(Walk):
    """The walk as an image."""

    def __init__(self, side=36):
        super().__init__()
        self.side = side
        self.observation_space = gym.spaces.Box(0, 255, (side, side, 3), np.uint8)

    def reset(self, *, seed=None, options=None):
        return self._image(super().reset(seed=seed)[0]), {}

    def step(self, action):
        position, *rest = super().step(action)
        return self._image(position), *rest

    def _image(self, position):
        return np.full((self.side, self.side, 3), 50 * position, np.uint8)


@pytest.mark.parametrize("side", [2, 3, 4, 7, 8, 35, 36, 100, 300])
def test_images_get_convolutions_of_their_size_and_normalisation(side):
    register("screen", partial(Screen, side))
    config = settings_for("screen")
    agent = build_agent(config)
    assert config.network.normalise
    assert agent.spec.observation.describe() == f"image {side}×{side}×3: convolutions"
    assert sum(x.numel() for x in agent.make_network().parameters()) < 2_000_000


def test_observations_in_parts_are_trained_on_saved_and_acted_on(tmp_path):
    config = settings_for("fake_environments:WalkInParts")
    assert config.network.obs_centre[:5] == (0, 0, 0, 0, 0)  # places are one-hot
    assert config.network.obs_centre[5] != 0
    assert config.network.obs_scale[:5] == (1, 1, 1, 1, 1)
    learner = replace(config.learner, budget=2_000)
    evaluation = replace(config.evaluation, snapshots=1, episodes=1)
    run = usfa.train(replace(config, learner=learner, evaluation=evaluation), tmp_path / "run")
    policy = usfa.load(run.path).policy([0.5, 0.5])
    observation, _ = WalkInParts().reset(seed=0)
    assert policy(observation) in (0, 1)
    with pytest.raises(InputError, match=r"is of ndarray; expected parts, of which 'place' is one\.$"):
        policy(observation["time"])


def test_a_finite_mdp_brings_its_discount():
    assert settings_for("trip").learner.gamma == 1
    assert settings_for("one-state", {"gamma": 0.5}).learner.gamma == 0.5
    build_agent(settings_for("one-state"))


def test_priorities_end_with_replay():
    learner = settings_for("deep-sea-treasure-v0", random_steps=1).learner
    assert learner.priority_exponent > 0
    replace(learner, **settings.fitting_numbers(learner, 2, {"replay_ratio": 0}))  # the configuration checks itself
    assert "priority_exponent" not in settings.fitting_numbers(learner, 2, {"replay_ratio": 3})


def test_the_size_of_outputs_depends_on_the_given_discount():
    class Cost(Walk):
        def step(self, action):
            position, _, *rest = super().step(action)
            return position, np.array([1.0, 0.0]), *rest

    register("cost", Cost)
    near, far = (settings_for("cost", gamma=gamma) for gamma in (0.1, 0.99))
    assert (near.learner.gamma, far.learner.gamma) == (0.1, 0.99)
    assert near.network.output_scale < far.network.output_scale


def test_outputs_are_as_large_as_differences_of_returns():
    class Paying(Walk):
        def step(self, action):
            position, _, terminated, truncated, info = super().step(action)
            return position, np.array([30.0, -40.0]), terminated, truncated, info

    register("paying", Paying)
    assert 10 < settings_for("paying").network.output_scale < 7 * 50

    class Constant(Walk):
        def step(self, action):
            return super().step(action)[0], np.array([3.0, 4.0]), True, False, {}

    register("constant", Constant)
    assert settings_for("constant").network.output_scale == 0.5


def test_outputs_are_not_as_large_as_a_constant_part_of_the_returns():
    """Nor smaller than a tenth of it: a network would need too many updates to reach it."""

    class Bandit(Walk):
        def __init__(self, mean, difference):
            super().__init__()
            self.pays = mean, difference

        def step(self, action):
            mean, difference = self.pays
            return super().step(action)[0], np.array([mean + (2 * action - 1) * difference, 0.0]), True, False, {}

    for name, mean, difference, expected in (("near", 10.0, 3.0, 3.0), ("nearer", 10.0, 0.01, 1.0)):
        register(name, partial(Bandit, mean, difference))
        assert settings_for(name).network.output_scale == pytest.approx(expected, rel=0.01)
    register("free", lambda: gym.wrappers.TransformReward(Walk(), lambda _: np.zeros(2)))
    assert settings_for("free").network.output_scale == 1


def test_an_instance_can_be_trained_in_evaluated_and_played(tmp_path):
    register("walk-instance", Walk())
    config = settings_for("walk-instance")
    config = replace(config, learner=replace(config.learner, budget=1000, gamma=0.9))
    run = usfa.train(config, tmp_path / "run")
    agent = usfa.load(run.path)
    assert len(usfa.evaluate(agent, [[1.0, 0.0], [-1.0, 0.0]], episodes=3)) == 2
    assert agent.policy([1.0, 0.0])(2) in (0, 1)


def test_what_is_registered_here_can_be_made_in_other_processes(monkeypatch):
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # read on import: tests of local clusters may follow
    pickle = pytest.importorskip("ray.cloudpickle", reason="actors on a cluster need Ray")
    register("walk-elsewhere", Walk())
    travelling = pickle.dumps(source("walk-elsewhere"))
    monkeypatch.setattr("usfa.environments.registry._REGISTERED", {})
    assert pickle.loads(travelling).one().observation_space == Walk().observation_space


@pytest.mark.parametrize("name", ["own:Own", "trip"])
def test_names_that_cannot_be_registered(name):
    with pytest.raises(InputError, match=r"expected a new name without a colon\.$"):
        register(name, Walk)


# --- known optima ---


def trained(config):
    learner = Learner(build_agent(config), config.learner, config.environments, config.tasks, (0,))
    while not learner.done:
        learner.step()
    return learner


def values(learner, config, w):
    """What one greedy episode for each task collects, discounted [K, D]."""
    rng = np.random.default_rng(0)
    batch = episode_batch(config.environments, w, CandidateSet.believed(w[:, None]), 1, rng)
    return vector_returns(
        learner.agent, learner.best.network(0), batch, Gpi(), 0.0, rng, config.learner.gamma
    ).discounted


def utility_loss(name, budget, w, **arguments):
    """Of every preference in w, against the best value of the known front."""
    pytest.importorskip("mo_gymnasium")
    config = settings_for(name, arguments)
    config = replace(config, learner=replace(config.learner, budget=budget))
    utility = np.einsum("kd,kd->k", values(trained(config), config, w), w)
    return best_utility(environment_front(config.environments.one(), config.learner.gamma, w), w) - utility


@pytest.mark.long
@of_mo_gymnasium
def test_deep_sea_treasure_comes_close_to_its_front():
    """The near half of it, whose treasures are found in seconds; utilities there go from -1 to 5.5."""
    w = parse_tasks("simplex:100", 2)
    assert utility_loss("deep-sea-treasure-v0", 20_000, w[w[:, 1] >= 0.4]).mean() < 0.4


@pytest.mark.long
@of_mo_gymnasium
def test_fruit_tree_comes_close_to_its_front():
    """The best mean utility is 4.74; whoever always takes the same fruit gets 3.87 at most."""
    assert utility_loss("fruit-tree-v0", 20_000, parse_tasks("simplex:100", 6), depth=5).mean() < 0.7


@pytest.mark.long
@of_mo_gymnasium
def test_who_likes_time_takes_it():
    """φ is (treasure, -1 per step): with a negative weight for time every step pays, and the sea is left late."""
    pytest.importorskip("mo_gymnasium")
    config = settings_for("deep-sea-treasure-v0")
    learner = replace(config.learner, policies="task+ball:1", tasks="ball:1", budget=15_000)
    config = replace(config, learner=learner)
    w = np.array([[0.0, -1.0], [0.3, -0.9], [0.0, 1.0], [0.3, 0.9], [-0.5, -0.8]])
    time = -values(trained(config), config, w)[:, 1]
    longest = (1 - 0.99**100) / 0.01
    assert time[[0, 1, 4]] == pytest.approx(longest)
    assert time[[2, 3]].max() < 4


def test_scores_appear_during_training_and_are_those_of_the_table(tmp_path):
    config = settings_for("fake_environments:Walk")
    learner = replace(config.learner, budget=9_000, environments=8, replay_ratio=1, updates_per_round=1)
    evaluation = replace(config.evaluation, snapshots=3, episodes=1, measure_errors=False)
    run = usfa.train(replace(config, learner=learner, evaluation=evaluation), tmp_path / "run")
    scores, shown = run.read_scores(), [line.get("score") for line in run.read_metrics()]
    assert shown[0] is None  # before the first snapshot
    first, second = (scores[scores.snapshot == milestone].score.mean() for milestone in (3_000, 6_000))
    assert set(shown) == {None, first, second}
    assert scores.snapshot.unique().tolist() == [0, 3_000, 6_000, 9_000]

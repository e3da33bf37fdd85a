import json

import gymnasium as gym
import numpy as np
import pytest

from fake_environments import SavableWalk, Scripted, Walk
from usfa.environments import EnvironmentBatch
from usfa.errors import InputError

GAMMA = 0.9
FIRST = [([1, 0], ""), ([0, 1], ""), ([2, 2], "terminated")]
SECOND = [([3, 0], ""), ([0, 3], "truncated")]


def batch_of(*envs):
    return EnvironmentBatch(envs, GAMMA, range(len(envs)))


def step(batch, action=0):
    return batch.step(np.full(len(batch), action, np.int64))


# --- time ---


def test_termination_resets_at_once_with_discount_0():
    batch = batch_of(Scripted([FIRST, SECOND]))
    assert batch.observation.tolist() == [[0, 0]]
    assert batch.first.tolist() == [True]
    for clock in (1, 2):
        found = step(batch)
        assert batch.observation.tolist() == [[0, clock]]
        assert (batch.first[0], found.discount[0], found.real[0], found.ended[0]) == (
            False,
            np.float32(GAMMA),
            True,
            False,
        )
        assert np.isnan(found.episode_phi).all()
    found = step(batch)
    assert found.phi.tolist() == [[2, 2]]
    assert (found.discount[0], found.real[0], found.ended[0]) == (0, True, True)
    assert found.episode_phi.tolist() == [[3, 3]]
    assert batch.observation.tolist() == [[1, 0]]  # the next episode is already there
    assert batch.first.tolist() == [True]


def test_truncation_shows_the_last_observation_then_a_seam():
    env = Scripted([SECOND, FIRST])
    batch = batch_of(env)
    step(batch)
    found = step(batch)
    assert found.phi.tolist() == [[0, 3]]
    assert (found.discount[0], found.real[0], found.ended[0]) == (np.float32(GAMMA), True, True)
    assert found.episode_phi.tolist() == [[3, 3]]
    assert batch.observation.tolist() == [[0, 2]]  # the last of the old episode
    assert batch.first.tolist() == [False]
    seam = step(batch, action=2)
    assert env.taken == [0, 0]  # nothing was stepped
    assert seam.phi.tolist() == [[0, 0]]
    assert (seam.discount[0], seam.real[0], seam.ended[0]) == (np.float32(GAMMA), False, False)
    assert batch.observation.tolist() == [[1, 0]]
    assert batch.first.tolist() == [True]
    assert step(batch).phi.tolist() == [[1, 0]]


def test_termination_wins_over_truncation():
    class Both(Scripted):
        def step(self, action):
            observation, phi, *_ = super().step(action)
            return observation, phi, True, True, {}

    batch = batch_of(Both([FIRST]))
    found = step(batch)
    assert found.discount[0] == 0
    assert batch.first.tolist() == [True]
    assert step(batch).real.tolist() == [True]


def run_of(batch, steps):
    """Per step: the observation after it, and its discount, real and ended."""
    return [
        (batch.observation[0].tolist(), *(float(x[0]) for x in (found.discount, found.real, found.ended)))
        for found in (step(batch) for _ in range(steps))
    ]


GOES_ON = (np.float32(GAMMA), 1, 0)
CUT = (np.float32(GAMMA), 1, 1)
OVER = (0, 1, 1)
SEAM = (np.float32(GAMMA), 0, 0)


def test_a_time_limit_truncates():
    env = Scripted([FIRST])
    batch = batch_of(gym.wrappers.TimeLimit(env, 2))
    assert run_of(batch, 6) == [
        ([0, 1], *GOES_ON),
        ([0, 2], *CUT),
        ([1, 0], *SEAM),
        ([1, 1], *GOES_ON),
        ([1, 2], *CUT),
        ([2, 0], *SEAM),
    ]
    assert env.taken == [0] * 4


def test_the_end_wins_over_a_time_limit_that_comes_with_it():
    batch = batch_of(gym.wrappers.TimeLimit(Scripted([FIRST]), 3))
    assert run_of(batch, 4) == [([0, 1], *GOES_ON), ([0, 2], *GOES_ON), ([1, 0], *OVER), ([1, 1], *GOES_ON)]


def test_a_time_limit_starts_anew_with_every_episode():
    """Its clock does not run on from an episode that ended before it."""
    short = [([1, 0], ""), ([0, 1], "terminated")]
    batch = batch_of(gym.wrappers.TimeLimit(Scripted([short, FIRST]), 3))
    assert [ended for *_, ended in run_of(batch, 10)] == [0, 1, 0, 0, 1] * 2
    assert all(real for *_, real, _ in run_of(batch, 10))  # never cut


@pytest.mark.parametrize("kind", [np.bool_, int, lambda flag: np.array(flag)])
def test_endings_may_be_numbers_of_numpy(kind):
    class Strange(Scripted):
        def step(self, action):
            observation, phi, terminated, truncated, info = super().step(action)
            return observation, phi, kind(terminated), kind(truncated), info

    plain, strange = batch_of(Scripted([FIRST, SECOND])), batch_of(Strange([FIRST, SECOND]))
    assert run_of(plain, 12) == run_of(strange, 12)


def test_sums_of_episodes_do_not_leak_into_each_other():
    """Not over an end, not over a cut, and not when the state is saved in the middle."""
    batch = batch_of(Scripted([FIRST, SECOND]))
    sums = []
    for _ in range(24):
        found = step(batch)
        sums += found.episode_phi[found.ended].tolist()
    assert sums == [[3, 3]] * 8
    step(batch)
    batch.state()
    rest = [found.episode_phi[0].tolist() for found in (step(batch) for _ in range(2)) if found.ended[0]]
    assert rest == [[3, 3]]


def test_environments_that_ignore_seeds_are_stepped_as_well():
    class Deaf(Walk):
        def __init__(self):
            super().__init__()
            self.own = np.random.default_rng(7)

        @property
        def np_random(self):
            return self.own

        def reset(self, *, seed=None, options=None):
            return super().reset(seed=None)

    batch = batch_of(Deaf(), Deaf())
    ended = sum(int(step(batch, 1).ended.sum()) for _ in range(60))
    assert ended > 10
    state = batch.state()
    with pytest.warns(UserWarning, match=r"^The environment Deaf does not repeat an episode from its seed"):
        batch.load_state(state)
    assert batch.observation.argmax(axis=1).tolist() == [env.position for env in batch.envs]


@pytest.mark.parametrize(
    ("seen", "sentence"),
    [
        ([np.nan, 0.0], r"^The observation is \[nan, 0\.0\]; expected finite numbers\.$"),
        ([[0.0, 0.0]], r"^The observation has shape \(1, 2\); expected \(2,\)\.$"),
    ],
)
def test_observations_that_nobody_can_learn_from(seen, sentence):
    class Strange(Scripted):
        def _observation(self):
            return seen

    with pytest.raises(InputError, match=sentence):
        batch_of(Strange([FIRST]))


def test_one_environment_is_not_stepped_in_two_places():
    env = Scripted([FIRST])
    with pytest.raises(InputError, match=r"is in the batch twice; expected a new one in each place\.$"):
        batch_of(env, env)


def test_environments_have_their_own_clocks_actions_and_sums():
    envs = Scripted([FIRST]), Scripted([SECOND])
    batch = batch_of(*envs)
    sums = [[], []]
    for t in range(12):
        found = batch.step(np.array([t % 3, (t + 1) % 3]))
        for index in np.flatnonzero(found.ended):
            sums[index].append(found.episode_phi[index].tolist())
    assert sums[0] == [[3, 3]] * 4
    assert sums[1] == [[3, 3]] * 4
    assert envs[0].taken == [t % 3 for t in range(12)]
    assert envs[1].taken == [(t + 1) % 3 for t in range(12) if t % 3 != 2]


def test_every_episode_has_its_own_seed():
    envs = Scripted([FIRST]), Scripted([FIRST])
    batch = EnvironmentBatch(envs, GAMMA, [11, 22])
    for _ in range(3):
        step(batch)
    (first, second), (third, fourth) = (env.seeds for env in envs)
    assert (first, third) == (11, 22)
    assert None not in (second, fourth)
    assert second != fourth


def test_an_environment_that_can_be_saved_gets_one_seed():
    class Seeded(SavableWalk):
        seeds = ()

        def reset(self, *, seed=None, options=None):
            self.seeds += (seed,)
            return super().reset(seed=seed)

    env = Seeded()
    future(EnvironmentBatch([env], GAMMA, [11]), 20)
    assert env.seeds[0] == 11
    assert set(env.seeds[1:]) == {None}


def test_action_masks_are_shown():
    class Masked(Scripted):
        def reset(self, **arguments):
            return super().reset(**arguments)[0], {"action_mask": np.array([1, 0, 1], np.int8)}

    batch = batch_of(Masked([FIRST]))
    assert batch.legal.tolist() == [[True, False, True]]
    step(batch)
    assert batch.legal.tolist() == [[True, True, True]]  # no mask means that everything is legal


# --- φ ---


def test_arrays_that_the_environment_changes_later_do_not_leak():
    class Mutating(Scripted):
        shared = np.zeros(2)
        seen = np.zeros(2, np.float32)

        def reset(self, **arguments):
            self.seen[:] = super().reset(**arguments)[0]
            return self.seen, {}

        def step(self, action):
            observation, phi, terminated, truncated, info = super().step(action)
            self.shared[:], self.seen[:] = phi, observation
            return self.seen, self.shared, terminated, truncated, info

    env = Mutating([FIRST])
    batch = batch_of(env)
    found = step(batch)
    env.shared[:], env.seen[:] = 99, 99
    assert found.phi.tolist() == [[1, 0]]
    assert batch.observation.tolist() == [[0, 1]]
    step(batch)
    assert found.phi.tolist() == [[1, 0]]
    assert step(batch).episode_phi.tolist() == [[3, 3]]


def paying(reward):
    class Paying(Scripted):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, reward, *rest

    return Paying([FIRST])


@pytest.mark.parametrize("reward", [[1, 2], (1.0, 2.0), np.array([1, 2]), np.array([1.0, 2.0], np.float16)])
def test_rewards_may_be_lists(reward):
    assert step(batch_of(paying(reward))).phi.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    "reward", [[1.0, np.nan], [np.inf, 0.0], [1.0], 1.0, [[1.0, 2.0]], None, "much", [[1], [2, 3]]]
)
def test_rewards_that_do_not_fit(reward):
    with pytest.raises(InputError, match=r"expected 2 finite numbers, the size of reward_space\.$"):
        step(batch_of(paying(reward)))


# --- environments that do not fit ---


def with_attribute(**attributes):
    env = Scripted([FIRST])
    for name, value in attributes.items():
        setattr(env, name, value)
    return env


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({"reward_space": None}, r"has the reward_space None; expected a Box of shape \[D\]"),
        ({"reward_space": gym.spaces.Box(-1, 1, (2, 2))}, r"expected a Box of shape \[D\], one entry per feature of φ"),
        ({"reward_space": gym.spaces.Discrete(2)}, r"expected a Box of shape \[D\]"),
        ({"observation_space": gym.spaces.Text(5)}, r"^Observations of Text.* are not supported; expected Discrete"),
        ({"action_space": gym.spaces.Box(-1, 1, (2,))}, r"has the actions Box.*; expected Discrete from 0\.$"),
        ({"action_space": gym.spaces.Discrete(3, start=1)}, r"expected Discrete from 0\.$"),
    ],
)
def test_spaces_that_do_not_fit(attributes, sentence):
    with pytest.raises(InputError, match=sentence):
        batch_of(with_attribute(**attributes))


def test_no_reward_space_at_all():
    env = Scripted([FIRST])
    del env.reward_space
    with pytest.raises(InputError, match=r"has the reward_space None; expected a Box"):
        batch_of(env)


@pytest.mark.parametrize("mask", [np.zeros(3, np.int8), [False] * 3, [True] * 2])
def test_a_mask_without_a_legal_action(mask):
    class Stuck(Scripted):
        def step(self, action):
            return *super().step(action)[:-1], {"action_mask": mask}

    with pytest.raises(
        InputError, match=r"^The action_mask is .*; expected 3 entries with at least one legal action\.$"
    ):
        step(batch_of(Stuck([FIRST])))


def test_observations_of_another_shape():
    class Strange(Scripted):
        def _observation(self):
            return np.zeros(3, np.float32)

    with pytest.raises(InputError, match=r"^The observation has shape \(3,\); expected \(2,\)\.$"):
        batch_of(Strange([FIRST]))


class Faulty(Scripted):
    def __init__(self, where):
        super().__init__([FIRST])
        self.where = where

    def reset(self, **options):
        return {}["reset"] if self.where == "reset" else super().reset(**options)

    def step(self, action):
        return {}["step"] if self.where == "step" else super().step(action)


@pytest.mark.parametrize("where", ["reset", "step"])
def test_mistakes_of_an_environment_are_told_as_its_own(where):
    sentence = (
        rf"^The {where} of the environment Faulty failed: KeyError: '{where}' \(test_batch.py, line \d+\); "
        r"usfa check-env says what is expected of it\.$"
    )
    with pytest.raises(InputError, match=sentence):
        step(batch_of(Faulty(where)))


def test_seeds_and_gamma_are_checked():
    with pytest.raises(InputError, match=r"^1 environments have 2 seeds; expected one each, and at least one\.$"):
        EnvironmentBatch([Scripted([FIRST])], GAMMA, [0, 1])
    with pytest.raises(InputError, match=r"^0 environments have 0 seeds"):
        EnvironmentBatch([], GAMMA, [])
    with pytest.raises(InputError, match=r"^gamma is 0; expected a number above 0, at most 1\.$"):
        EnvironmentBatch([Scripted([FIRST])], 0, [0])


# --- saving ---


def future(batch, steps=40):
    rng = np.random.default_rng(1)
    seen = []
    for _ in range(steps):
        found = batch.step(rng.integers(batch.actions, size=len(batch)))
        seen.append(
            (
                batch.observation.tolist(),
                batch.legal.tolist(),
                batch.first.tolist(),
                found.phi.tolist(),
                found.discount.tolist(),
                found.real.tolist(),
                found.ended.tolist(),
                found.episode_phi[found.ended].tolist(),
            )
        )
    return seen


@pytest.mark.parametrize("make", [Walk, SavableWalk])
@pytest.mark.parametrize("steps", [0, 3, 7, 12])
def test_the_run_that_goes_on_and_the_resumed_one_see_the_same(make, steps):
    def new(seeds):
        return EnvironmentBatch([make() for _ in range(3)], GAMMA, seeds)

    batch, other = new([5, 6, 7]), new([8, 9, 10])
    future(batch, steps)
    state = json.loads(json.dumps(batch.state()))
    other.load_state(state)
    for name in ("observation", "legal", "first"):
        assert np.array_equal(getattr(batch, name), getattr(other, name))
    assert future(batch) == future(other)
    assert batch.state() == other.state()


@pytest.mark.parametrize("make", [Walk, SavableWalk])
def test_saving_interrupts_no_episode(make):
    disturbed, undisturbed = (EnvironmentBatch([make()], GAMMA, [3]) for _ in range(2))
    for _ in range(5):
        disturbed.state()
        assert future(disturbed, 3) == future(undisturbed, 3)


def test_a_truncated_episode_is_not_played_again():
    batch, env = batch_of(Scripted([SECOND, FIRST])), Scripted([SECOND, FIRST])
    step(batch)
    step(batch)  # truncated, so the next step only resets
    other = batch_of(env)
    other.load_state(batch.state())
    assert env.taken == []
    assert other.observation.tolist() == batch.observation.tolist()


def test_endless_episodes_are_truncated_if_they_must_be_played_again(monkeypatch):
    monkeypatch.setattr("usfa.environments.batch.LONGEST_EPISODE", 4)
    endless = [([1, 0], "")] * 12
    batch = batch_of(Scripted([endless]))
    with pytest.warns(UserWarning, match=r"^An episode of the environment Scripted was truncated after 4 steps; "):
        ended = [bool(step(batch).ended[0]) for _ in range(9)]
    assert ended == [False, False, False, True, False, False, False, False, True]  # with a seam after the fourth
    savable = Scripted([endless])
    savable.get_state = savable.set_state = None
    savable = batch_of(savable)
    assert not any(step(savable).ended[0] for _ in range(9))


class Ageing(Walk):
    """Depends on the number of steps since it was made, whatever its seed: observation, φ, legal actions or errors."""

    def __init__(self, changes):
        super().__init__()
        self.changes, self.steps = changes, 0

    def step(self, action):
        observation, phi, terminated, truncated, info = super().step(action)
        self.steps += 1
        if self.changes == "observation":
            observation = (observation + self.steps) % self.observation_space.n
        if self.changes == "phi":
            phi = phi + self.steps
        if self.changes == "legal":
            info = {"action_mask": np.arange(self.action_space.n) == self.steps % 2}
        if self.changes == "errors" and self.steps == 2:
            raise RuntimeError("an illegal action")
        return observation, phi, terminated, truncated, info


@pytest.mark.parametrize("changes", ["observation", "phi", "legal", "errors"])
def test_a_replay_that_leads_elsewhere_starts_a_new_episode(changes):
    batch, other = (EnvironmentBatch([Ageing(changes)], GAMMA, [1]) for _ in range(2))
    step(batch)
    step(other)
    assert not batch.first.any()
    with pytest.warns(UserWarning, match="The environment Ageing does not repeat an episode from its seed"):
        other.load_state(batch.state())
    assert other.first.all()
    assert other.state()["envs"][0]["actions"] == []
    future(other)


def test_a_truncated_episode_is_saved_again_as_it_was():
    batch, other = (batch_of(Scripted([SECOND, FIRST])) for _ in range(2))
    step(batch)
    step(batch)
    other.load_state(batch.state())
    assert other.state() == batch.state()


@pytest.mark.parametrize(
    ("episode", "reason"),
    [
        ({"seed": -1, "actions": []}, r"^the seed of an episode is -1; expected a whole number from 0$"),
        ({"seed": True, "actions": []}, r"^the seed of an episode is True"),
        ({"seed": 1, "actions": [0, -7]}, r"^an action of an episode is not a whole number from 0 to 1$"),
        ({"seed": 1, "actions": [0.0]}, r"^an action of an episode is not a whole number"),
        ({"seed": 1, "actions": "00"}, r"^the actions of an episode are not a list of at most 100,000$"),
        ({"seed": 1, "actions": [0] * 100_001}, r"^the actions of an episode are not a list of at most"),
        ({"restart_seed": 1}, r"^it has no seeds and actions of its episodes; expected a checkpoint of this version"),
    ],
)
def test_damaged_episodes_are_refused_before_they_are_played(episode, reason):
    batch = batch_of(Walk())
    with pytest.raises(ValueError, match=reason):
        batch.load_state(batch.state() | {"envs": [batch.state()["envs"][0] | episode]})


def test_checkpoints_of_savable_environments_from_before_episodes_had_seeds_are_read():
    batch, other = batch_of(SavableWalk()), batch_of(SavableWalk())
    future(batch, 3)
    other.load_state(batch.state() | {"restarts": [np.random.default_rng(0).bit_generator.state]})
    assert future(batch) == future(other)

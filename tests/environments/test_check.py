import importlib.util

import gymnasium as gym
import numpy as np
import pytest

import broken_environments as broken
from fake_environments import Scalar
from usfa.environments import Finding, Trip, check_environment
from usfa.errors import InputError

# fault -> (severity, check, a part of the cure)
FAULTS = {
    broken.NoRewardSpace: ("error", "reward-space", "set self.reward_space = gymnasium.spaces.Box(low, high, (D,))"),
    broken.FlatRewardSpace: ("error", "reward-space", "reward_space is Box(-1.0, 1.0, (), float32): set"),
    broken.NoSuchPart: ("error", "observation", "is of ndarray; expected parts, of which 'position' is one, as obser"),
    broken.NoObservationSpace: ("error", "observation-space", "set it to a space of gymnasium.spaces"),
    broken.ContinuousActions: ("error", "action-space", "choose some actions and number them"),
    broken.NoActionSpace: ("error", "action-space", "set it to gymnasium.spaces.Discrete(A)"),
    broken.ResetWithoutSeed: ("error", "reset", "write def reset(self, *, seed=None, options=None)"),
    broken.ResetWithoutInfo: ("error", "reset", "return the observation and a dict, (observation, {})"),
    broken.ResetFails: ("error", "reset", "has no attribute 'nothing' (broken_environments.py, line"),
    broken.FourValues: (
        "error",
        "step",
        "a tuple of 4: (ndarray, ndarray, bool, dict); return (observation, reward, term",
    ),
    broken.StepFails: ("error", "step", "failed with KeyError: 'key' (broken_environments.py, line"),
    broken.InfoIsNone: ("error", "step", "return (observation, reward, terminated, truncated, info)"),
    broken.LongObservation: (
        "error",
        "observation",
        "The observation has shape (3,); expected (2,), as observation_sp",
    ),
    broken.ObservationWithAnAxisMore: (
        "error",
        "observation",
        "The observation has shape (1, 2); expected (2,), as observation_sp",
    ),
    broken.ObservationOutside: ("warning", "observation-bounds", "outside of 0 to 12 of its space: widen the space"),
    broken.ObservationNotFinite: ("error", "observation-finite", "NaN or infinity: find where it comes from"),
    broken.ObservationChangedLater: ("warning", "observation-copy", "return a copy, observation.copy()"),
    broken.PartChangedLater: ("warning", "observation-copy", "return a copy, observation.copy()"),
    broken.PartOutside: ("warning", "observation-bounds", "outside of 0 to 12 of its space: widen the space"),
    broken.PartInAnArray: ("error", "observation", "The observation has shape (1,); expected (), as observation_space"),
    broken.DoubleObservation: ("note", "observation-type", "Observations are of float64, their space of float32"),
    broken.LargeObservation: ("note", "observation-scale", "networks learn best from numbers about 1"),
    broken.ShortPhi: ("error", "phi", "reward_space has the shape (2,): return φ with 2 numbers, or correct"),
    broken.ScalarReward: ("error", "phi", "reward_space has the shape (2,): return φ with 2 numbers, or correct"),
    broken.PhiNotFinite: ("error", "phi-finite", "find where NaN or infinity come from"),
    broken.PhiOutside: ("warning", "phi-bounds", "outside of -1 to 1 of its space: widen the space"),
    broken.PhiChangedLater: ("warning", "reward-copy", "return a copy, reward.copy()"),
    broken.PhiIsAList: ("note", "phi-type", "φ is a list: fine here, but other libraries want an array"),
    broken.LargePhi: ("note", "phi-scale", "fine with usfa train, which measures the size of returns"),
    broken.UnpaidPhi: ("note", "phi-unpaid", "The features [0] of φ were 0 in all 1000 random steps"),
    broken.EndingIsNone: ("error", "endings", "truncated was None of type NoneType: return bool(truncated)"),
    broken.EndingIsANumber: ("warning", "endings", "terminated was 0 of type int: return bool(terminated)"),
    broken.EndingsAreANumberAndNone: ("error", "endings", "truncated was None of type NoneType"),
    broken.Endless: ("warning", "endless", "wrap the environment in gymnasium.wrappers.TimeLimit"),
    broken.LimitAsTermination: (
        "note",
        "time-limit",
        "terminated after 12 steps: if that is a time limit, return trun",
    ),
    broken.ResetsItself: ("warning", "last-observation", "leave resetting to the caller and return what was reached"),
    broken.LongMask: ("error", "action-mask", "give it 3 entries, one per action, and at least one that is legal"),
    broken.NothingLegal: ("error", "action-mask", "give it 3 entries, one per action, and at least one that is legal"),
    broken.MaskOnlyAtReset: ("warning", "action-mask-missing", "give it with every reset and step"),
    broken.Unseeded: (
        "warning",
        "seeding",
        "resets included: draw all random numbers from self.np_random, which super().reset(seed=seed)",
    ),
    broken.Deterministic: (
        "note",
        "seeds",
        "Seeds 0 and 1 gave the same first 100 moments: fine if the",
    ),
    broken.SharedState: ("error", "independence", "keep what changes in self, and not in the class or the module"),
    broken.ForgetsItsChance: ("error", "resuming", "get_state has to hold everything that changes, the state of self"),
    broken.StateOfArrays: (
        "error",
        "resuming",
        "failed with TypeError: Object of type ndarray is not JSON serializable",
    ),
    broken.CannotBeSaved: ("note", "resuming", "add both, with a state that JSON can hold, to avoid these steps"),
}
ALWAYS = {"spaces", "speed", "after-the-end"}  # what is said about every environment that can be stepped


def found(environment, **arguments):
    """What is said, but for what is always said."""
    return [finding for finding in check_environment(environment, **arguments) if finding.check not in ALWAYS]


def test_nothing_is_wrong_with_a_good_one():
    findings = check_environment(broken.Good)
    assert {finding.check for finding in findings} == ALWAYS
    assert {finding.severity for finding in findings} == {"note"}
    assert findings[0] == Finding(
        "note", "spaces", "Observations: vector of 2: layers, scaled by its bounds; A = 3 actions, D = 2 features of φ."
    )


def test_there_is_a_test_for_every_broken_environment():
    classes = {kind for kind in vars(broken).values() if isinstance(kind, type) and issubclass(kind, broken.Good)}
    assert {kind for kind in classes if not kind.__name__.startswith("_")} == {broken.Good, *FAULTS}


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_a_fault_is_found_and_no_other(kind):
    severity, check, cure = FAULTS[kind]
    (finding,) = found(kind)
    assert (finding.severity, finding.check) == (severity, check)
    assert cure in finding.sentence
    assert finding.sentence.endswith(".")
    assert "\n" not in finding.sentence


def test_the_worst_comes_first_and_everything_once():
    class Bad(broken.PhiOutside):
        def _observation(self):
            return super()._observation().astype(float) * 2

        def change(self, observation, phi, *rest):
            return super().change(observation, phi if self.clock < 5 else phi[:1], *rest)

    findings = check_environment(Bad)
    severities = [finding.severity for finding in findings]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    checks = [finding.check for finding in findings]
    assert len(checks) == len(set(checks))
    assert {"phi", "phi-bounds", "observation-bounds", "observation-type"} <= set(checks)


# --- what is given ---


def test_an_environment_that_is_there_is_left_open():
    env = broken.Good()
    env.close = None
    assert {finding.check for finding in check_environment(env)} == ALWAYS
    assert [finding.check for finding in found(broken.Unseeded())] == ["seeding"]


def test_a_function_that_makes_the_same_again():
    env = broken.Good()
    (finding,) = found(lambda: env)
    assert finding == Finding(
        "error", "independence", "The same environment was made twice: make a new one in every call."
    )


def test_names_arguments_and_phi():
    assert not found("broken_environments:Good")
    assert check_environment("trip", arguments={"places": 3})[0].sentence.endswith(
        "A = 5 actions, D = 2 features of φ."
    )
    assert [finding.check for finding in found(Scalar)] == ["reward-space", "seeds", "resuming"]
    assert [finding.check for finding in found(Scalar, phi="info")] == ["seeds", "resuming"]
    assert [finding.check for finding in found(Scalar, phi=lambda s, a, t: t)] == ["seeds", "resuming"]
    (nan, *_) = found(Scalar, phi=lambda s, a, t: [float("nan")])
    assert nan.check == "phi-finite"


def test_environments_are_closed():
    closed = []

    class Closing(broken.Good):
        def close(self):
            closed.append(self)

    check_environment(Closing)
    assert len(closed) == 2


@pytest.mark.parametrize(
    ("environment", "arguments", "sentence"),
    [
        ("tripp", {}, r"did you mean 'trip'\?$"),
        (Trip, {"arguments": {"plaices": 3}}, r"cannot be made with \{'plaices': 3\}"),
        (Trip, {"steps": 0}, r"^steps is 0 and seed 0; expected whole numbers, at least 1, and 0 or more\.$"),
        (Trip, {"seed": -1}, r"^steps is 1000 and seed -1"),
        (Scalar, {"phi": "inof"}, r"^phi is 'inof'"),
    ],
)
def test_what_cannot_be_checked(environment, arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        check_environment(environment, **arguments)


def test_time_limits():
    def limited(steps):
        return lambda: gym.wrappers.TimeLimit(broken.Endless(), steps)

    assert [finding.check for finding in found(limited(50))] == ["resuming"]
    (finding, _) = found(limited(5000))
    assert (finding.severity, finding.check) == ("note", "endless")


def test_the_last_step_may_be_a_truncation():
    (finding,) = found(broken.ResetsItself, steps=120)
    assert finding.check == "last-observation"


@pytest.mark.parametrize("seed", range(10))
def test_an_environment_that_is_there_and_refuses_illegal_actions(seed):
    class Strict(broken.Good):
        def _mask(self):
            return (np.arange(3) == self.position % 3).astype(np.int8)

        def step(self, action):
            assert self._mask()[action]
            return super().step(action)

    assert not found(Strict(), seed=seed)


def test_an_environment_may_refuse_to_go_on():
    class Refusing(broken.Good):
        over = True

        def reset(self, **arguments):
            self.over = False
            return super().reset(**arguments)

        def step(self, action):
            if self.over:
                raise RuntimeError("it is over")
            result = super().step(action)
            self.over = result[2] or result[3]
            return result

    assert {finding.check for finding in check_environment(Refusing)} == {"spaces", "speed"}


# --- good ones ---


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("trip", {}), ("one-state", {}), ("room", {"image_size": 12, "decisions": 30, "types": 2})],
)
def test_ours_pass(name, arguments):
    findings = check_environment(name, arguments=arguments, steps=300)
    assert {finding.severity for finding in findings} == {"note"}
    assert "resuming" not in {finding.check for finding in findings}


@pytest.mark.skipif(importlib.util.find_spec("mo_gymnasium") is None, reason="it is an extra")
@pytest.mark.parametrize(
    "name",
    [
        "deep-sea-treasure-v0",
        "deep-sea-treasure-concave-v0",
        "four-room-v0",
        "fruit-tree-v0",
        "minecart-v0",
        "minecart-deterministic-v0",
        "mo-mountaincar-v0",
        "resource-gathering-v0",
    ],
)
def test_those_of_mo_gymnasium_pass(name):
    assert {finding.severity for finding in check_environment(name)} == {"note"}


@pytest.mark.skipif(importlib.util.find_spec("mo_gymnasium") is None, reason="it is an extra")
@pytest.mark.parametrize(
    ("name", "check", "sentence"),
    [
        ("breakable-bottles-v0", "observation", "is not a state"),  # a 2 in a space of zeros and ones
        ("water-reservoir-v0", "action-space", "expected Discrete"),
    ],
)
def test_those_of_mo_gymnasium_that_do_not(name, check, sentence):
    (found,) = [finding for finding in check_environment(name) if finding.severity == "error"]
    assert found.check == check
    assert sentence in found.sentence

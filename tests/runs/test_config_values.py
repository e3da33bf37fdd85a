"""Configurations with values as people write them: normalised, or refused before anything trains."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fake_environments import Scalar, Walk, short_walk
from usfa.cluster import ClusterConfig
from usfa.errors import InputError
from usfa.learning import LearnerConfig
from usfa.networks import NetworkConfig
from usfa.records import from_json, to_json
from usfa.runs import EvaluationConfig, TrainConfig, preset, train

TRIP = preset("trip-usfa")


def two_features(observation, action, following):
    return [1.0, 0.0]


def survives(config):
    """The configuration after it was written to a file and read again."""
    return from_json(type(config), json.loads(json.dumps(to_json(config))), "file")


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"seeds": [0, 2]}, {"seeds": (0, 2)}),
        ({"seeds": range(3)}, {"seeds": (0, 1, 2)}),
        ({"seeds": np.arange(3)}, {"seeds": (0, 1, 2)}),
        ({"seeds": (np.int64(4),)}, {"seeds": (4,)}),
        ({"checkpoint_every": 1e3}, {"checkpoint_every": 1000}),
        ({"threads": np.float32(2)}, {"threads": 2}),
        ({"training_tasks": [[1, 0], [0, 1]]}, {"training_tasks": "10;01"}),
        ({"training_tasks": np.array([[0.5, -0.25]])}, {"training_tasks": "0.5,-0.25"}),
        ({"environment": Walk}, {"environment": "fake_environments:Walk"}),
        ({"environment": short_walk}, {"environment": "fake_environments:short_walk"}),
        ({"phi": two_features}, {"phi": f"{__name__}:two_features"}),
        (
            {"environment_arguments": {"places": np.int64(6), "lit": np.bool_(True), "x": np.float64(0.5), "s": "t"}},
            {"environment_arguments": {"places": 6, "lit": True, "x": 0.5, "s": "t"}},
        ),
    ],
)
def test_settings_of_training_are_normalised(change, same):
    config = replace(TRIP, **change)
    assert config == replace(TRIP, **same) == survives(config)
    assert json.dumps(to_json(config)) == json.dumps(to_json(replace(TRIP, **same)))


@pytest.mark.parametrize(
    ("given", "same"),
    [
        (LearnerConfig(budget=1e6), LearnerConfig(budget=1_000_000)),
        (LearnerConfig(clip=1, gamma=np.float32(0.5)), LearnerConfig(clip=1.0, gamma=0.5)),
        (LearnerConfig(target_every=np.int32(5)), LearnerConfig(target_every=5)),
        (NetworkConfig(trunk=[64, 32], head=np.array([8])), NetworkConfig(trunk=(64, 32), head=(8,))),
        (NetworkConfig([[16, 6, 4], (32, 3.0, 2)]), NetworkConfig(((16, 6, 4), (32, 3, 2)))),
        (
            NetworkConfig(obs_centre=np.zeros(2), obs_scale=[1, 2]),
            NetworkConfig(obs_centre=(0.0, 0.0), obs_scale=(1.0, 2.0)),
        ),
        (EvaluationConfig(tasks="trip-train"), EvaluationConfig(tasks=("trip-train",))),
        (EvaluationConfig(tasks=np.eye(2), candidates="train"), EvaluationConfig(("10;01",), ("train",))),
        (EvaluationConfig(rules="follow", final_rules=[]), EvaluationConfig(rules=("follow",), final_rules=())),
        (ClusterConfig("local", actors=2.0), ClusterConfig("local", actors=2)),
    ],
)
def test_other_settings_are_normalised(given, same):
    assert given == same == survives(given)
    assert json.dumps(to_json(given)) == json.dumps(to_json(same))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seeds": 3}, r"^seeds is 3; expected a tuple of whole numbers\.$"),
        ({"seeds": (0.5,)}, r"^seeds is \(0\.5,\); expected a tuple of whole numbers\.$"),
        ({"seeds": (True,)}, r"^seeds is \(True,\); expected"),
        ({"seeds": "0 1"}, r"^seeds is '0 1'; expected a tuple of whole numbers\.$"),
        ({"threads": "2"}, r"^threads is '2'; expected a whole number\.$"),
        ({"precision": "fp64"}, r"^precision is 'fp64'; expected 'auto' or 'fp32' or 'bf16'\.$"),
        ({"network": {"memory": 3}}, r"^network is \{'memory': 3\}; expected a NetworkConfig\.$"),
        ({"environment": Walk()}, r"^environment is .*, which cannot be saved; expected a name, a class"),
        ({"environment": 3}, r"^environment is 3, which cannot be saved; expected a name"),
        ({"environment": lambda: Walk()}, r"^environment is .*lambda.*; expected a function at the top of a module\.$"),
        (
            {"environment": type("Local", (Walk,), {})},
            r"^environment is .*; expected a class at the top of a module\.$",
        ),
        ({"environment": NetworkConfig}, r"^environment is .*NetworkConfig.*; expected a name, a class derived from"),
        ({"phi": lambda *_: [1.0]}, r"^phi is .*lambda.*; expected a function at the top of a module\.$"),
        ({"phi": 3}, r"^phi is 3; expected 'reward', 'info', a learned φ, or a function at the top of a module\.$"),
        ({"training_tasks": 3}, r"^The tasks 3 are not a list of vectors"),
        ({"environment_arguments": {"sizes": [1, 2]}}, r"^environment_arguments is .*; expected a dict whose values"),
        ({"environment_arguments": {"x": float("nan")}}, r"^environment_arguments is \{'x': nan\}; expected a dict"),
        ({"environment_arguments": {3: 4}}, r"^environment_arguments is \{3: 4\}; expected a dict"),
        ({"environment_arguments": None}, r"^environment_arguments is None; expected a dict"),
    ],
)
def test_settings_of_training_that_cannot_be_saved(change, sentence):
    with pytest.raises(InputError, match=sentence):
        replace(TRIP, **change)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: LearnerConfig(budget="1000"), r"^learner\.budget is '1000'; expected a whole number\.$"),
        (lambda: LearnerConfig(budget=1000.5), r"^learner\.budget is 1000\.5; expected a whole number\.$"),
        (lambda: LearnerConfig(budget=None), r"^learner\.budget is None; expected a whole number\.$"),
        (lambda: LearnerConfig(clip=float("inf")), r"^learner\.clip is inf; expected a finite number or None\.$"),
        (lambda: LearnerConfig(gamma=[0.9]), r"^learner\.gamma is \[0\.9\]; expected a finite number\.$"),
        (lambda: NetworkConfig(trunk=64), r"^network\.trunk is 64; expected a tuple of whole numbers\.$"),
        (lambda: NetworkConfig(convolutions=((1, 2),)), r"^network\.convolutions is .*expected a tuple of tuples of 3"),
        (lambda: NetworkConfig(normalise=1), r"^network\.normalise is 1; expected True or False\.$"),
        (lambda: EvaluationConfig(snapshots="5"), r"^evaluation\.snapshots is '5'; expected a whole number\.$"),
        (
            lambda: EvaluationConfig(candidates=(["train"],)),
            r"^evaluation\.candidates is .*; expected a tuple of texts",
        ),
        (lambda: ClusterConfig(actors="2"), r"^actors is '2'; expected a whole number\.$"),
    ],
)
def test_other_settings_that_cannot_be_saved(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()


def test_a_run_with_such_values_trains_and_resumes(tmp_path):
    config = TrainConfig(
        Scalar,
        np.eye(2),
        phi=two_features,
        network=NetworkConfig(trunk=[8], embedding=[4], head=[8]),
        learner=LearnerConfig(policies="task", policies_per_step=np.int64(1), budget=1e1, budget_unit="frames"),
        evaluation=EvaluationConfig(candidates="train", final_rules=[], snapshots=1, episodes=np.int64(1)),
        seeds=range(1),
    )
    run = train(config, tmp_path / "run")
    assert run.config(TrainConfig) == config
    assert train(config, tmp_path / "run", "resume").scores.exists()

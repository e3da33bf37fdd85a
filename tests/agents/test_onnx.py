"""ONNX models against PyTorch: the same decisions, step by step, with memory."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import usfa
from usfa.agents import NO_RULE, UsfaAgent, onnx_model
from usfa.decisions import Situation
from usfa.environments import Room
from usfa.environments.tabular import Trip
from usfa.errors import InputError

EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_agent.py"
W = [1.0, 1.0, -1.0, 0.0]


class Model:
    """One episode by ONNX Runtime and NumPy alone."""

    def __init__(self, content):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(content, options)
        self.about = json.loads(self.session.get_modelmeta().custom_metadata_map["usfa"])
        self.names = [value.name for value in self.session.get_inputs()]
        self.outputs = [value.name for value in self.session.get_outputs()]
        self.start()

    def start(self, batch=1):
        self.memory = {name: np.zeros((batch, *shape), np.float32) for name, shape in self.about["memory"].items()}
        self.first = np.ones(batch, bool)
        self.previous_action = np.zeros(batch, np.int64)

    def __call__(self, **inputs):
        given = {**inputs, "first": self.first, "previous_action": self.previous_action, **self.memory}
        given = {name: np.asarray(given[name]) for name in self.names}
        found = dict(zip(self.outputs, self.session.run(None, given), strict=True))
        self.memory = {name: found[f"next_{name}"] for name in self.memory}
        self.first = np.zeros_like(self.first)
        self.previous_action = found.get("action")
        return found

    def candidates(self, batch=1):
        """C = M with its optimism, as the model itself tells them."""
        return {
            name: np.repeat(np.array(values, np.float32)[None], batch, axis=0)
            for name, values in self.about["candidates"].items()
        }


@pytest.fixture(scope="module")
def room():
    return usfa.load("room")


@pytest.fixture(scope="module")
def cautious(room):
    return onnx_model(room)


def shapes(values):
    return {value.name: value.shape for value in values}


def test_inputs_and_outputs_have_names_and_free_axes(cautious):
    session = Model(cautious).session
    assert shapes(session.get_inputs()) == {
        "observation": ["batch", 42, 42, 3],
        "previous_action": ["batch"],
        "first": ["batch"],
        "w": ["batch", 4],
        "z": ["batch", "policies", 4],
        "optimism": ["batch", "policies"],
        "memory_0": ["batch", 128],
        "memory_1": ["batch", 128],
    }
    assert shapes(session.get_outputs()) == {
        "action": ["batch"],
        "policy": ["batch"],
        "improved": ["batch"],
        "q": ["batch", 8],
        "psi": ["batch", "policies", 8, 4],
        "next_memory_0": ["batch", 128],
        "next_memory_1": ["batch", 128],
    }


def test_the_room_agent_takes_the_same_actions_for_an_episode(room, cautious):
    """900 steps with memory: the rule inside the model, and the library's rule on the model's ψ, as by PyTorch."""
    model, policy = Model(cautious), room.policy(W, "train", "cautious")
    w, known = np.array([W], np.float32), model.candidates()
    env = Room(image_size=42)
    observation, _ = env.reset(seed=0)
    actions, gaps = [], []
    for _ in range(900):
        found = model(observation=observation[None], w=w, **known)
        action = policy(observation)
        assert (int(found["action"][0]), outside_action(found["psi"], policy)) == (action, action)
        np.testing.assert_allclose(found["q"], policy.decision.q, rtol=0, atol=1e-5)
        best = np.sort(found["q"][0])[-2:]
        gaps.append(best[1] - best[0])
        actions.append(action)
        observation, _, _, truncated, _ = env.step(action)
    assert truncated
    assert len(set(actions)) > 4
    assert min(gaps) > 2e-5  # ten times the difference between the two programs, so that no rounding decides


def outside_action(psi, policy):
    """The action of a policy's rule, applied to ψ of a model."""
    candidates = policy._one[1]
    situation = Situation(
        torch.from_numpy(psi),
        policy._one[0],
        candidates.z,
        torch.ones(1, psi.shape[2], dtype=torch.bool),
        *candidates[1:],
    )
    return int(policy.rule.decide(situation).action)


def test_batches_and_numbers_of_policies_are_free(room, cautious):
    """Three episodes at once, five policies each, other sizes than those it was exported with."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (4, 3, 42, 42, 3), dtype=np.uint8)
    w, z = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))
    model = Model(cautious)
    model.start(batch=3)
    optimism = room.candidates(w, z, rng).optimism.astype(np.float32)
    policies = [room.policy(task, z) for task in w]
    for images_of_step in images:
        inputs = {"w": w.astype(np.float32), "z": np.repeat(z[None], 3, axis=0).astype(np.float32)}
        found = model(observation=images_of_step, optimism=optimism, **inputs)
        assert found["psi"].shape == (3, 5, 8, 4)
        for index, (policy, image) in enumerate(zip(policies, images_of_step, strict=True)):
            assert found["action"][index] == policy(image)
            np.testing.assert_allclose(found["q"][index], policy.decision.q[0], rtol=1e-4, atol=1e-5)


def test_the_metadata_hold_what_a_rule_outside_the_model_needs(room, cautious):
    expected = room.candidates(room.training_tasks[0], "train", np.random.default_rng(0))
    about = Model(cautious).about
    for name, values in expected._asdict().items():
        assert {**about, **about["candidates"]}[name] == np.asarray(values).tolist()
    assert about["horizon"] > 1


def test_the_example_acts_with_an_exported_model(cautious, tmp_path):
    """Without PyTorch: the example finds the exported model and does not write it itself."""
    (tmp_path / "exports" / "room").mkdir(parents=True)
    (tmp_path / "exports" / "room" / "model.onnx").write_bytes(cautious)
    program = f"import runpy, sys; runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
    program += "; assert 'torch' not in sys.modules"
    words = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("task [1, 1, -1, 0]: ")


def test_a_start_clears_the_memory(cautious):
    model, image = Model(cautious), np.full((1, 42, 42, 3), 90, np.uint8)
    inputs = {"observation": image, "w": np.array([W], np.float32), **model.candidates()}
    fresh = model(**inputs)["psi"]
    later = model(**inputs)["psi"]
    model.first = np.ones(1, bool)
    assert np.abs(later - fresh).max() > 1e-3
    np.testing.assert_array_equal(model(**inputs)["psi"], fresh)


def test_an_agent_with_illegal_actions_and_no_memory():
    agent, env = usfa.load("trip"), Trip()
    observation, info = env.reset(seed=0)
    agent.policy([0.7, 0.7])(observation, info["action_mask"])  # what it holds for acting is not exported
    model = Model(onnx_model(agent, "gpi"))
    assert model.names == ["observation", "legal", "w", "z"]
    assert model.about["rule"] == "gpi"
    policy = agent.policy([0.7, 0.7], "train", "gpi")
    observation, info = env.reset(seed=0)
    terminated = False
    while not terminated:
        encoded = agent.file.spec.observation.encode(observation)[None]
        w, z = np.array([[0.7, 0.7]], np.float32), model.candidates()["z"]
        found = model(observation=encoded, legal=info["action_mask"][None].astype(bool), w=w, z=z)
        action = policy(observation, info["action_mask"])
        assert found["action"][0] == action
        observation, _, terminated, _, info = env.step(action)


def test_a_uvfa_has_one_policy():
    agent = usfa.load("room-uvfa")
    model = Model(onnx_model(agent, NO_RULE))
    assert model.names == ["observation", "previous_action", "first", "w", "z", "memory_0", "memory_1"]
    assert model.outputs == ["q", "next_memory_0", "next_memory_1"]
    image = np.full((42, 42, 3), 90, np.uint8)
    task = np.array([W], np.float32)
    q = model(observation=image[None], w=task, z=task[:, None])["q"]
    np.testing.assert_allclose(q[0], agent.q_values(image, W), rtol=1e-4, atol=1e-5)


class Peeking(UsfaAgent):
    """An agent whose code depends on values."""

    def situation(self, network, present, w, candidates):
        if float(w.sum()) > 0:
            w = w + 1
        return super().situation(network, present, w, candidates)


class Own:
    def decide(self, situation):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (
            Own(),
            r"^The rule is 'Own'; expected cautious, steady, gpi, follow inside the model, or 'none' to apply your own",
        ),
        ("single", r"only for evaluations"),
    ],
)
def test_rules_that_cannot_be_inside_are_refused(rule, sentence):
    with pytest.raises(InputError, match=sentence):
        onnx_model(usfa.load("trip"), rule)


def test_a_network_that_cannot_be_exported_is_refused():
    agent = usfa.load("trip")
    agent.actor = Peeking(agent.file.spec, agent.file.network)
    with pytest.raises(InputError, match=r"^The network UniversalNetwork cannot be exported: .*expected operations on"):
        onnx_model(agent)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"needs onnx; install it with pip install 'usfa\[export\]'\.$"):
        onnx_model(usfa.load("trip"))

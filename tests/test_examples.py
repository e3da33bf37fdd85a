import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import pytest

from usfa.cli import main

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))

SHORTER = {  # arguments for examples that take long
    "own_environment": ("200",),
    "phi_acrobot": ("400",),
    "phi_deep_sea_treasure": ("400",),
    "phi_room": ("3000", "20", "1000", "1"),
}
ELSEWHERE = {"own_algorithm", "onnx_agent"}  # tested below, and in tests/agents/test_onnx.py


def test_there_are_examples():
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(path):
    assert len(path.read_text("utf-8").splitlines()) < 60


def marked(path):
    """An example as a parameter; those that learn φ with a network take longer."""
    return pytest.param(
        path, id=path.stem, marks=[pytest.mark.long] if path.stem in {"phi_acrobot", "phi_room"} else []
    )


@pytest.mark.parametrize("path", [marked(path) for path in EXAMPLES if path.stem not in ELSEWHERE])
def test_an_example_runs(path, tmp_path):
    strict = () if path.stem.startswith("phi_") else ("-W", "error")  # too little is learned, which is warned of
    words = [sys.executable, *strict, str(path), *SHORTER.get(path.stem, ())]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


# --- an algorithm of one's own: everything that ours can do ---

OWN = Path(__file__).parents[1] / "examples" / "own_algorithm.py"
RULE = 'own_algorithm:FixedMargin{"margin": 0.02}'


def command(*words, cwd=OWN.parent):
    program = [sys.executable, "-m", "usfa", *map(str, words)]
    return subprocess.run(program, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def own_run(tmp_path_factory):
    """A finished run of the example."""
    path = tmp_path_factory.mktemp("own") / "run"
    subprocess.run([sys.executable, str(OWN), str(path)], check=True, capture_output=True, timeout=300)
    return path


def test_an_own_algorithm_is_killed_and_resumed_to_the_same_bytes(own_run, tmp_path):
    path = tmp_path / "run"
    words = [sys.executable, str(OWN), str(path)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as training:
        while not list(path.glob("checkpoints/state-*.usfa")):
            assert training.poll() is None, "it was done before it could be killed"
            time.sleep(0.01)
        training.kill()
    assert not (path / "scores.csv").exists()
    subprocess.run(words, check=True, capture_output=True, timeout=300)
    for name in ("scores.csv", "agent/weights.safetensors", "agent/config.json"):
        assert (path / name).read_bytes() == (own_run / name).read_bytes(), name


def test_an_own_algorithm_is_loaded_and_evaluated_by_another_process_that_trusts_it(own_run, capsys, monkeypatch):
    scored = command("evaluate", own_run, "--task", "0.7,0.3", "--rule", "gpi", RULE, "--csv", "--trust")
    assert scored.returncode == 0, scored.stderr
    assert "FixedMargin" in scored.stdout
    monkeypatch.chdir(OWN.parent)
    assert OWN.stem not in sys.modules
    assert main(["evaluate", str(own_run), "--task", "0.7,0.3"]) == 2
    refused = capsys.readouterr().err
    sentence = "which is not imported; import it first, or set trust (--trust) if you trust it."
    assert refused.startswith("usfa: The agent 'own_algorithm:SmallWeightsAgent'")
    assert refused.rstrip().endswith(sentence)


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_an_own_algorithm_trains_on_a_cluster(own_run, tmp_path):
    path, small = tmp_path / "run", ("--learner.budget", 20, "--evaluation.snapshots", 1)
    done = command("train", own_run / "config.json", "--trust", "--cluster", "local", *small, "--out", path)
    assert done.returncode == 0, done.stderr
    assert "FixedMargin" in (path / "scores.csv").read_text()
    assert (path / "agent" / "weights.safetensors").exists()

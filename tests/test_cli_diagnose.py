import shutil
from importlib import resources
from pathlib import Path

import pandas as pd
import pytest

from usfa.cli import main
from usfa.decisions import assumed_accuracy
from usfa.errors import InputError
from usfa.evaluation import accuracy_of, diagnose
from usfa.files import read_json, write_json
from usfa.runs import load, measure_and_save

TABLES = ["actors.csv", "candidates.csv", "features.csv"]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty working directory, and a terminal of the usual width."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def older_agent(tmp_path):
    """A copy of a shipped agent, as it was saved before accuracies were measured."""
    directory = tmp_path / "older"
    shutil.copytree(Path(str(resources.files("usfa"))) / "shipped" / "trip", directory)
    config = read_json(directory / "config.json")
    del config["accuracy"]
    write_json(directory / "config.json", config)
    return directory


def test_tables_and_figure_are_written_and_told(desk, capsys):
    assert main(["diagnose", "trip", "--task", "0.7,0.7", "--episodes", "2"]) == 0
    out = capsys.readouterr().out
    written = desk / "runs" / "diagnose-trip-0.7,0.7"
    assert {path.name for path in written.iterdir()} == {*TABLES, "diagnosis.png"}
    found = diagnose(load("trip"), [0.7, 0.7], episodes=2)
    for name, table in zip(TABLES, (found.actors, found.candidates, found.features), strict=True):
        pd.testing.assert_frame_equal(pd.read_csv(written / name, dtype={"policy": str, "name": str}), table)
    assert "cautious: " in out
    assert "the best policy alone" in out
    assert "Next: " in out
    assert "was not measured" not in out


@pytest.mark.usefixtures("undrawn")
def test_rules_and_candidates_can_be_chosen(desk, capsys):
    words = "diagnose trip --task 1,0.5 --candidates train+task --rule follow cautious:2 --episodes 1 --out here"
    assert main(words.split()) == 0
    actors = pd.read_csv(desk / "here" / "actors.csv", dtype=str)
    assert actors[actors.actor == "rule"].name.tolist() == ["follow", "cautious:2"]
    assert actors[actors.actor == "policy"].name.tolist() == ["10", "01", "1,0.5"]


@pytest.mark.usefixtures("undrawn")
def test_nothing_is_replaced_without_being_told_to(desk, capsys):
    words = "diagnose trip --task 0.7,0.7 --episodes 1 --out here"
    assert main(words.split()) == 0
    before = (desk / "here" / "actors.csv").read_bytes()
    assert main([*words.split(), "--rng", "3"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (desk / "here" / "actors.csv").read_bytes() == before
    assert main([*words.split(), "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("trip", "--task is missing; expected a task, such as 1,0, or --measure."),
        ("trip --task 1,0 --rule gip", "Unknown rule 'gip': did you mean 'gpi'?"),
        ("trip --task 1,0 --rule cautious:x", "The rule is 'cautious:x'; expected a number from 0"),
        ("trip --task 1,0,0", "3 entries"),
        ("room-uvfa --task 1000", "A UVFA has no policies to compare"),
        ("room-uvfa --measure", "A uvfa agent has no learned ψ to measure; expected a USFA."),
        (
            "trip --measure",
            "The agent 'trip' is part of the package; expected a directory of your own, or a copy.",
        ),
        ("trip --task 1,0 --rule gpi cautious cautious:1", "expected each name once."),
    ],
)
def test_mistakes_are_one_sentence(desk, capsys, words, sentence):
    assert main(["diagnose", *words.split()]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not (desk / "runs").exists()


def test_an_older_agent_is_served_with_assumed_errors_and_can_be_measured(desk, capsys, older_agent):
    agent = load(older_agent)
    assert agent.accuracy is None
    weights = (older_agent / "weights.safetensors").read_bytes()
    assert main(["diagnose", str(older_agent), "--task", "0.7,0.7", "--episodes", "1"]) == 0
    assert "The error of ψ was not measured, so cautious and steady assume one" in " ".join(
        capsys.readouterr().out.split()
    )
    assert main(["diagnose", str(older_agent), "--measure"]) == 0
    measured = load(older_agent)
    assert measured.accuracy == accuracy_of(agent)
    assert measured.accuracy != assumed_accuracy(2)
    assert measured.accuracy == load("trip").accuracy  # what is shipped was measured by the same command
    assert (older_agent / "weights.safetensors").read_bytes() == weights
    assert "error between steps" in capsys.readouterr().out


def test_a_measured_accuracy_is_replaced_only_if_asked_for(older_agent):
    (first,) = measure_and_save(older_agent)
    with pytest.raises(InputError, match="is measured already; replace it with --overwrite"):
        measure_and_save(older_agent)
    (second,) = measure_and_save(older_agent, overwrite=True)
    assert first.accuracy == second.accuracy

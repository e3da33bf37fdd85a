from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from usfa.cli import main
from usfa.evaluation import front_indicators, front_of, known_front
from usfa.files import read_json, write_json
from usfa.runs import load


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty working directory, and a terminal of the usual width."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def files(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


FIGURE = ["figures/front.pdf", "figures/front.png"]
EVERYTHING = [*FIGURE, "figures/utility.pdf", "figures/utility.png", "front.csv", "indicators.csv", "known.csv"]


def test_a_shipped_agent_on_a_hundred_preferences(desk, capsys):
    words = "front trip --candidates task --reference 0,-50 --gamma 0.9 --episodes 1 --names coffee food"
    assert main(words.split()) == 0
    out = capsys.readouterr().out
    assert "Objectives 1 to 2: coffee, food." in out
    assert files(desk / "runs" / "front-trip") == EVERYTHING
    agent = load("trip")
    known = known_front(agent, gamma=0.9)
    front = front_of(agent, candidates="task", gamma=0.9, episodes=1, known=known)
    pd.testing.assert_frame_equal(pd.read_csv(desk / "runs" / "front-trip" / "front.csv"), front)
    expected = front_indicators(front, known, "0,-50")
    written = pd.read_csv(
        desk / "runs" / "front-trip" / "indicators.csv", keep_default_na=False, na_values={"agent": [""], "known": [""]}
    )
    pd.testing.assert_frame_equal(written, expected)
    (utility,) = [line.split() for line in out.splitlines() if line.startswith("expected utility")]
    assert utility[2:] == [*(f"{x:.5f}" for x in expected.iloc[0, 1:4]), "0.9", "100", "×", "1"]
    (volume,) = [line.split() for line in out.splitlines() if line.startswith("hypervolume")]
    assert volume[-5:] == ["0.9", "0,-50", "100", "×", "1"]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("rule", ["gpi", "cautious:2", "follow"])
def test_a_rule_can_be_chosen(desk, capsys, rule):
    words = (
        f"front trip --candidates sample:5 --rule {rule} --preferences simplex:20 --episodes 1 --known none --out out"
    )
    assert main(words.split()) == 0
    front = pd.read_csv(desk / "out" / "front.csv")
    assert front.rule.unique().tolist() == [rule]
    expected = front_of(load("trip"), "simplex:20", "sample:5", rule, episodes=1)
    pd.testing.assert_frame_equal(front, expected)


@pytest.mark.usefixtures("undrawn")
def test_the_same_command_gives_the_same_files(desk, capsys):
    for out in ("one", "two"):
        words = f"front trip --candidates sample:3 --epsilon 0.3 --rng 7 --preferences simplex:20 --out {out}"
        assert main(words.split()) == 0
    for name in EVERYTHING:
        assert (desk / "one" / name).read_bytes() == (desk / "two" / name).read_bytes()


@pytest.mark.usefixtures("undrawn")
def test_a_training_seed_and_preferences_of_ones_own(desk, capsys, tiny_run):
    words = ["front", str(tiny_run.path), "--seed", "1", "--preferences", "1,0;-1,0.5", "--known", "none"]
    assert main([*words, "--out", "out"]) == 0
    out = capsys.readouterr().out
    assert files(desk / "out") == [*FIGURE, "front.csv", "indicators.csv"]  # not on the simplex: no map
    front = pd.read_csv(desk / "out" / "front.csv")
    assert front[["w1", "w2"]].to_numpy().tolist() == [[1, 0], [-1, 0.5]]
    np.testing.assert_allclose(front.utility, front_of(load(tiny_run.path, 1), "1,0;-1,0.5").utility)
    assert "seed 1" in out
    assert "utility loss:" in out
    assert "No hypervolume" in out
    assert not any(line.startswith(("maximum", "hypervolume")) for line in out.splitlines())


@pytest.mark.usefixtures("undrawn")
def test_a_known_front_of_ones_own(desk, capsys):
    words = ["front", "trip", "--preferences", "simplex:3", "--known", "2,0;0,2;1.5,1.5"]
    assert main(words) == 0
    assert pd.read_csv(desk / "runs" / "front-trip" / "front.csv").optimal.tolist() == [2, 1.5, 2]
    assert pd.read_csv(desk / "runs" / "front-trip" / "known.csv").supported.tolist() == [True, True, True]


@pytest.mark.usefixtures("undrawn")
def test_a_known_front_in_a_file(desk, capsys):
    few = ["front", "trip", "--preferences", "simplex:5"]
    assert main(few) == 0
    known = desk / "runs" / "front-trip" / "known.csv"
    saved = known.read_bytes()
    pd.read_csv(known, dtype=str)[["supported", "value2", "value1"]].to_csv("mine.csv")  # in any order
    assert main([*few, "--known", "mine.csv", "--overwrite"]) == 0
    assert known.read_bytes() == saved
    assert "get more than the known front" not in capsys.readouterr().out


@pytest.mark.usefixtures("undrawn")
def test_a_known_front_that_is_no_bound_is_told(desk, capsys):
    assert main(["front", "trip", "--preferences", "simplex:5", "--known", "0.1,0.1"]) == 0
    out = capsys.readouterr().out
    assert "5 of 5 preferences get more than the known front has: it is not complete, or belongs to another γ." in out


@pytest.mark.usefixtures("undrawn")
def test_nothing_of_an_earlier_call_is_left(desk, capsys):
    assert main(["front", "trip", "--preferences", "simplex:5"]) == 0
    assert files(desk / "runs" / "front-trip") == EVERYTHING
    again = ["front", "trip", "--preferences", "2,0;0,2;1,1", "--known", "none"]
    before = (desk / "runs" / "front-trip" / "front.csv").read_bytes()
    assert main(again) == 2
    sentence = f"usfa: {Path('runs', 'front-trip', 'front.csv')} already exists; replace it with --overwrite, or choose"
    assert capsys.readouterr().err.startswith(sentence)
    assert (desk / "runs" / "front-trip" / "front.csv").read_bytes() == before
    assert main([*again, "--overwrite"]) == 0
    assert files(desk / "runs" / "front-trip") == [*FIGURE, "front.csv", "indicators.csv"]


def test_help_shows_examples(desk, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["front", "--help"])
    assert stop.value.code == 0
    assert "usfa front runs/deep-sea --gamma 0.99 --reference 0,-50" in capsys.readouterr().out
    assert main([]) == 0
    assert "usfa front RUN" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tripp"], "did you mean 'trip'?"),
        (["trip", "--preferences", "simplex"], "The task set is 'simplex'; expected simplex:N,D"),
        (["trip", "--preferences", "simplex:10,3"], "has 3 entries; expected 2"),
        (["trip", "--preferences", "1,nan"], "holds NaN or infinity"),
        (["trip", "--candidates", "trian"], "did you mean 'train'?"),
        (["trip", "--rule", "gpy"], "Unknown rule 'gpy': did you mean 'gpi'?"),
        (["trip", "--rule", "cautious:"], "The rule is 'cautious:'; expected a number from 0 after the colon"),
        (["trip", "--rule", "single"], "The rule is 'single', which is only for evaluations"),
        (["trip", "--gamma", "0"], "gamma is 0.0; expected a number above 0, at most 1."),
        (["trip", "--reference", "0"], "The reference point '0' cannot be used; expected 2 numbers, one per feature."),
        (["trip", "--reference", "0,x"], "The reference point '0,x' cannot be used"),
        (
            ["trip", "--known", "1,2,3"],
            "--known is '1,2,3'; expected env, none, values such as 0.7,-1;8.2,-3 with 2",
        ),
        (
            ["trip", "--known", "environment"],
            "--known is 'environment'; expected env, none, values such as 0.7,-1;8.2,-3 with 2",
        ),
        (["trip", "--known", "none.csv"], "File none.csv cannot be read: No such file or directory."),
        (
            ["trip", "--known", "some.csv"],
            "some.csv is not a known front; expected columns ['value1', 'value2'] of",
        ),
        (["trip", "--episodes", "0"], "episodes is 0"),
        (["trip", "--epsilon", "2"], "epsilon is 2.0; expected a number from 0 to 1"),
        (["trip", "--seed", "7"], "has no seed 7"),
        (["trip", "--names", "coffee"], "--names has 1 entry; expected 2, one per feature."),
        (["trip", "--out", "taken"], "taken is a file; expected a directory for the results."),
        (["trip", "--out", "taken/deeper"], "taken"),
    ],
)
def test_bad_input_is_one_sentence(desk, capsys, words, sentence):
    (desk / "taken").write_text("")
    (desk / "some.csv").write_text("value1\n7\n")
    assert main(["front", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("usfa: ")
    assert sentence in line
    assert files(desk) == ["some.csv", "taken"]


def test_modules_of_strangers_need_trust(desk, capsys, tiny_run):
    folder = desk / "agent"
    folder.mkdir()
    for path in (tiny_run.path / "agent").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    write_json(folder / "config.json", read_json(folder / "config.json") | {"environment": "payload:Env-v0"})
    assert main(["front", "agent"]) == 2
    assert "would import and run the module 'payload'" in capsys.readouterr().err

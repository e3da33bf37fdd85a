"""benchmarks/: quick ones run, briefly; what they measure is not checked."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize(
    ("script", "arguments", "printed"),
    [
        ("seeds_at_once.py", ["--episodes", "25", "--rounds", "1"], "The bare network takes"),
        ("rule_cost.py", ["--steps", "2"], "cautious"),
    ],
)
def test_a_quick_benchmark_runs(script, arguments, printed, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    runpy.run_path(str(FOLDER / script), run_name="__main__")
    assert printed in capsys.readouterr().out

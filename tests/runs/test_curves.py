"""Learning curves of runs, and `usfa plot`."""

import shutil
from dataclasses import replace

import pytest

from usfa.cli import main
from usfa.errors import InputError
from usfa.evaluation import read_scores
from usfa.runs import train
from usfa.runs.curves import compared, curves_of


def test_a_curve_has_every_snapshot_and_the_mean_over_seeds(tiny_run, tiny_config):
    scores = read_scores(tiny_run.scores)
    curves = curves_of(scores)
    own = curves[(curves.label == "C = task, gpi") & (curves.task_set == "trip-train")]
    assert own.snapshot.tolist() == list(tiny_config.milestones)
    last = scores[(scores.snapshot == 40) & (scores.candidates == "task") & (scores.task_set == "trip-train")]
    assert own["mean"].iloc[-1] == pytest.approx(last[last.rule == "gpi"].score.mean())
    assert (own.low <= own["mean"]).all()
    assert "single" not in set(curves.rule)  # only the last snapshot has it


def test_runs_that_differ_in_their_seeds_are_pooled(tmp_path, tiny_run, tiny_config, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    another = train(replace(tiny_config, seeds=(5,)), tmp_path / "another").path
    table = compared([tiny_run.path, another])
    assert set(table.label) == {str(tiny_run.path)}
    assert set(table.runs) == {3}
    assert main(["plot", str(tiny_run.path), str(another), "--out", "curves.png"]) == 0
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert main(["plot", str(tiny_run.path), "--out", "curves.png"]) == 2  # is not replaced
    with pytest.raises(InputError, match=r"^The run in .* was given twice; expected each run once\.$"):
        compared([tiny_run.path, tiny_run.path])
    copy = shutil.copytree(tiny_run.path, tmp_path / "copy")
    with pytest.raises(InputError, match=r"^The runs in .* and .*copy both have seed 0; expected each seed once\.$"):
        compared([tiny_run.path, copy])
    with pytest.raises(InputError, match=r"^--rule is follow; expected one that all runs were scored with: "):
        compared([tiny_run.path], rule="follow")


def test_changed_scores_are_not_plotted(tmp_path, tiny_run):
    path = shutil.copytree(tiny_run.path, tmp_path / "run")
    lines = (path / "scores.csv").read_bytes().splitlines(keepends=True)
    (path / "scores.csv").write_bytes(b"".join(lines[:-1]))
    with pytest.raises(InputError, match=r"scores\.csv was changed: its checksum does not match manifest\.json\.$"):
        compared([path])

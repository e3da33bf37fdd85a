"""Both experiments of the paper end to end, with numbers so small that only the plumbing is tested."""

import re

import pandas as pd
import pytest

from usfa.cli import main
from usfa.environments import trip_mdp
from usfa.errors import InputError
from usfa.evaluation import read_scores
from usfa.learning import Learner
from usfa.paper.one_state import OneStateExperiment, reproduce_one_state
from usfa.paper.report import Claim, claims_section, markdown_table, verdict
from usfa.paper.trip import TripExperiment, reproduce_trip
from usfa.paper.trip_report import final_table, trip_report

TRIP = TripExperiment(seeds=(0, 1), episodes=30, grid=5)
ONE_STATE = OneStateExperiment(seeds=(0, 1), episodes=30)
VERDICTS = {"holds", "does not hold", "not decided"}


@pytest.fixture(scope="module")
def trip(tmp_path_factory):
    return reproduce_trip(TRIP, tmp_path_factory.mktemp("trip") / "run")


@pytest.fixture(scope="module")
def one_state(tmp_path_factory):
    return reproduce_one_state(ONE_STATE, tmp_path_factory.mktemp("one-state") / "run")


def claims(run):
    """Rows of the table of claims: (where, claim, measured, verdict)."""
    lines = (run.path / "report.md").read_text("utf-8").splitlines()
    start = lines.index("| where | the paper says | measured | verdict |") + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def check_claims(run, count):
    rows = claims(run)
    assert len(rows) == count
    for where, claim, measured, found in rows:
        assert where
        assert claim
        assert re.search(r"\d", measured)
        assert "nan" not in measured
        assert found.strip("*") in VERDICTS


def check_figures(run, names):
    vectors = {name.replace(".png", ".pdf") for name in names}
    assert {path.name for path in run.figures.iterdir()} == names | vectors
    for path in run.figures.iterdir():
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n" if path.suffix == ".png" else b"%PDF-")
        assert len(content) > 10_000
    report = (run.path / "report.md").read_text("utf-8")
    assert set(re.findall(r"\(figures/(.*?)\)", report)) == names


def test_trip_scores_hold_every_method(trip):
    scores = read_scores(trip.scores)
    by_rule = scores.groupby("rule")[["agent", "candidates"]].apply(lambda rows: set(map(tuple, rows.to_numpy())))
    everyone = {
        ("usfa", "task"),
        ("usfa", "sample:5"),
        ("usfa", "train"),
        ("usfa", "train+task"),
        ("uvfa", "task"),
        ("uvfa-off-policy", "task"),
        ("sf-gpi", "train"),
        ("sf-gpi-exact", "train"),
    }
    learned = {key for key in everyone if key[0] in {"usfa", "sf-gpi"}}
    assert by_rule.to_dict() == {"gpi": everyone, "cautious": learned, "single": learned - {("usfa", "task")}}
    assert scores[scores.rule != "gpi"].snapshot.unique().tolist() == [30]
    assert not scores.duplicated(["agent", "candidates", "rule", "seed", "snapshot", "task_set", "task"]).any()
    assert (scores.score <= scores.optimal + 1e-9).all()


def test_trip_report_has_a_row_for_each_method_and_rule(trip):
    summary = pd.read_csv(trip.path / "summary.csv")
    table = final_table(summary, "trip-directions")
    assert list(table.columns[:3]) == ["method", "rule", "mean gap"]
    assert len(table) == 8 + 5 + 4
    assert sorted(table[table.method == "USFA, C = M"].rule) == ["cautious", "gpi", "single"]
    assert table[table.method.str.startswith("UVFA")].rule.tolist() == ["–", "–"]
    assert table["mean gap"].is_monotonic_increasing
    report = (trip.path / "report.md").read_text("utf-8")
    for row in table.itertuples():
        assert f"| {row.method} | {row.rule} | {row[3]:.5f} |" in report


def test_trip_claims_and_figures_are_by_eq_3(trip):
    """Whatever the other rules have."""
    scores, summary = read_scores(trip.scores), pd.read_csv(trip.path / "summary.csv")
    maps, bounds = pd.read_csv(trip.path / "maps.csv"), pd.read_csv(trip.path / "bounds.csv")
    spoiled = scores.assign(score=scores.score.where(scores.rule == "gpi", -5.0))
    other = summary.assign(mean=summary["mean"].where(summary.rule == "gpi", 5.0))
    reports = [trip_report(trip_mdp(), *tables, maps, bounds) for tables in ((scores, summary), (spoiled, other))]
    told = [report[report.index("| where | the paper says") :] for report in reports]
    assert told[0] == told[1]
    assert reports[0] != reports[1]  # the table of all rules is another


def test_trip_tables(trip):
    maps, bounds = pd.read_csv(trip.path / "maps.csv"), pd.read_csv(trip.path / "bounds.csv")
    assert len(maps) == (4 * 2 + 1) * 25
    assert len(bounds) == 3 * 25
    assert (bounds.gap <= bounds.total + 1e-9).all()  # Proposition 1
    summary = pd.read_csv(trip.path / "summary.csv")
    summary = summary[summary.agent != "sf-gpi-exact"]
    assert (summary.low <= summary["mean"] + 1e-12).all()
    assert (summary["mean"] <= summary.high + 1e-12).all()


def test_trip_figures(trip):
    check_figures(trip, {"gap.png", "performance_maps.png", "gap_maps.png", "diagonal.png", "bound_maps.png"})


def test_trip_claims_each_have_a_verdict(trip):
    check_claims(trip, 15)


def test_claims_about_the_mdp_itself_do_not_need_training(trip):
    found = {claim: verdict for _, claim, _, verdict in claims(trip)}
    assert found["Q^{π_C}(s₁,C) > Q^{π_C}(s₁,E) for all test tasks"] == "**holds**"
    assert found["each of the N+1 outcomes is optimal in some part of the w-space"] == "**holds**"


def test_one_state_files(one_state):
    scores = read_scores(one_state.scores)
    assert set(zip(scores.agent, scores.candidates, strict=True)) == {
        ("usfa", "task"),
        ("usfa", "train"),
        ("uvfa", "task"),
    }
    assert set(scores.rule) == {"gpi", "cautious", "single"}
    values = pd.read_csv(one_state.path / "values.csv")
    assert (values.optimal - values.w.clip(lower=0)).abs().max() < 1e-9
    evaluations = pd.read_csv(one_state.path / "evaluations.csv")
    assert evaluations.z.tolist() == [2, 1, -1]
    assert evaluations.value.tolist() == pytest.approx([-0.2, -0.2, 0])
    assert evaluations.trusted.tolist() == [False, False, True]


def test_one_state_numbers_are_by_eq_3(one_state):
    scores = read_scores(one_state.scores)
    final = scores[(scores.snapshot == 30) & (scores.rule == "gpi")]
    gaps = (final.optimal - final.score).groupby([final.agent, final.candidates]).mean()
    report = (one_state.path / "report.md").read_text("utf-8")
    names = {("usfa", "task"): "USFA, C = {w′}", ("usfa", "train"): "USFA, C = M", ("uvfa", "task"): "UVFA"}
    for key, name in names.items():
        assert f"| {name} | {gaps[key]:.5f} |" in report


def test_one_state_figures(one_state):
    check_figures(one_state, {"generalisation.png", "returns.png"})


def test_one_state_claims_each_have_a_verdict(one_state):
    check_claims(one_state, 5)


@pytest.mark.parametrize(
    ("name", "experiment", "reproduce"),
    [("trip", TRIP, reproduce_trip), ("one_state", ONE_STATE, reproduce_one_state)],
)
def test_resume_of_a_finished_experiment_does_nothing(request, monkeypatch, name, experiment, reproduce):
    run = request.getfixturevalue(name)
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}

    monkeypatch.setattr(Learner, "step", lambda _: pytest.fail("it trained again"))
    reproduce(experiment, run.path, "resume")
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before


def test_a_finished_experiment_is_refused_and_other_numbers_do_not_resume(one_state):
    with pytest.raises(InputError, match=r"already holds a run; continue it with --resume"):
        reproduce_one_state(ONE_STATE, one_state.path)
    with pytest.raises(InputError, match=r"another configuration \(different: episodes was \d+, now \d+\)"):
        reproduce_one_state(OneStateExperiment(seeds=(0, 1), episodes=31), one_state.path, "resume")


def test_an_experiment_interrupted_between_two_methods_ends_the_same(tmp_path, monkeypatch, one_state):
    step, path = Learner.step, tmp_path / "run"

    def failing(self):
        if type(self.agent).__name__ == "UvfaAgent" and self.updates == 20:
            raise RuntimeError("the power went")
        return step(self)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "step", failing)
        with pytest.raises(RuntimeError, match="the power went"):
            reproduce_one_state(ONE_STATE, path)
    assert not (path / "report.md").exists()
    reproduce_one_state(ONE_STATE, path, "resume")
    for name in ("scores.csv", "report.md", "values.csv", "figures/returns.png"):
        assert (path / name).read_bytes() == (one_state.path / name).read_bytes()


def test_command_line(tmp_path, capsys, monkeypatch, trip):
    monkeypatch.setenv("COLUMNS", "200")
    words = ["--seeds", "0", "1", "--episodes", "30", "--grid", "5", "--out", str(trip.path), "--resume"]
    assert main(["reproduce", "trip", *words]) == 0
    out = capsys.readouterr().out
    assert "SF&GPI (exact ψ)" in out
    assert re.search(r"^USFA, C = M +cautious +\d", out, re.MULTILINE)
    assert (
        f"evaluate {trip.path / 'runs' / 'usfa'} --task 0.7,0.7 --candidates task train+task --rule cautious gpi" in out
    )
    assert f"Report: {trip.path / 'report.md'}" in out


# --- parts of a report ---


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        ((0.1, 0.2), (0.3, 0.4), "holds"),
        ((0.3, 0.4), (0.1, 0.2), "does not hold"),
        ((0.1, 0.3), (0.2, 0.4), "not decided"),
        ((0.1, 0.2), (0.2, 0.3), "not decided"),
    ],
)
def test_verdict_needs_intervals_apart(lower, upper, expected):
    assert verdict(lower, upper) == expected


def test_claims_and_tables_are_markdown():
    lines = claims_section([Claim("Section 1", "water is wet", "3 of 3", "holds")]).splitlines()
    assert lines[2] == "| Section 1 | water is wet | 3 of 3 | **holds** |"
    table = markdown_table(pd.DataFrame({"name": ["a"], "x": [0.5], "n": [3]}))
    assert table.splitlines() == ["| name | x | n |", "|---|---|---|", "| a | 0.50000 | 3 |"]

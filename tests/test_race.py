"""benchmarks/race: the scoring that all racers share, against that of the library, and what is made of the tables."""

import dataclasses
import importlib
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from usfa.decisions import CandidateSet, Gpi
from usfa.environments import EnvironmentSource
from usfa.evaluation.episodes import episode_batch, vector_returns
from usfa.runs import build_agent, settings_for
from usfa.tasks import spread_over_simplex

FOLDER = Path(__file__).parents[1] / "benchmarks" / "race"
pytestmark = pytest.mark.filterwarnings("ignore")  # what MO-Gymnasium warns of


@pytest.fixture(scope="module")
def racing():
    pytest.importorskip("mo_gymnasium")
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("racing")
    sys.path.remove(str(FOLDER))


@pytest.fixture(scope="module")
def race(racing):
    return importlib.import_module("race")


def contest_of(racing, **changes):
    given = {
        "environment": "deep-sea-treasure-v0",
        "arguments": {},
        "gamma": 0.9,
        "preferences": spread_over_simplex(30, 2).tolist(),
        "seconds": 0.2,
        "steps": None,
        "points": 4,
        "episodes": 1,
        "step_limit": 40,
    }
    return racing.Contest(**given | changes)


def test_expected_utility_is_that_of_the_library(racing):
    """usfa acts in the race as everywhere else: it leaves loops."""
    contest = contest_of(racing)
    config = settings_for("deep-sea-treasure-v0")
    agent = build_agent(config)
    network = agent.make_network(3)
    w, rng = np.array(contest.preferences), np.random.default_rng(0)

    def found(**changes):
        batch = episode_batch(EnvironmentSource(contest.make), w, CandidateSet.believed(w[:, None]), 1, rng)
        own = vector_returns(agent, network, batch, Gpi(), 0.0, rng, contest.gamma, **changes)
        return np.einsum("kd,kd->k", own.discounted, w)

    learner = SimpleNamespace(agent=agent, best=SimpleNamespace(network=lambda seed: network))
    player = importlib.import_module("run_usfa").LearnerPlayer(learner, contest.gamma)
    expected = found(loop_gamma=contest.gamma)
    assert np.ptp(expected) > 0.1  # the preferences are served differently
    assert abs(expected - found()).max() > 0.1  # and this network has loops
    assert racing.expected_utility(contest, player, 0) == pytest.approx(expected.mean(), abs=1e-5)
    kept = importlib.import_module("run_usfa").LearnerPlayer(learner, contest.gamma, break_loops=False)
    assert racing.expected_utility(contest, kept, 0) == pytest.approx(found().mean(), abs=1e-5)


def test_usfa_races_with_loops_left_and_kept(racing, monkeypatch, tmp_path):
    """The second row is scored after the environments of training are closed."""
    contest = contest_of(racing, seconds=60, steps=300, points=2)
    (tmp_path / "contest.json").write_text(json.dumps(dataclasses.asdict(contest)))
    table = tmp_path / "table.csv"
    monkeypatch.setattr(sys, "argv", ["run_usfa.py", str(tmp_path / "contest.json"), "usfa", "0", str(table)])
    importlib.import_module("run_usfa").main()
    scores = pd.read_csv(table)
    assert scores.algorithm.tolist() == ["usfa"] * (len(scores) - 1) + ["usfa-loops-kept"]
    assert scores.played.iloc[-2] >= 300
    assert (scores.iloc[-1][["steps", "played"]] == scores.iloc[-2][["steps", "played"]]).all()


def test_the_clock_stands_still_while_a_racer_is_scored(racing, monkeypatch, tmp_path):
    """A clock of our own: a step takes a second of twenty, scoring a thousand."""
    now = [100.0]
    monkeypatch.setattr(racing, "time", SimpleNamespace(process_time=lambda: now[0]))
    monkeypatch.setattr(racing, "expected_utility", lambda *_: now.__setitem__(0, now[0] + 1000) or 0.5)
    table = tmp_path / "table.csv"
    others = {"gpi-ls-idle": None}
    scorer = racing.Scorer(contest_of(racing, seconds=20, points=4), None, 0, 100.0, "gpi-ls", table, others)
    for steps in range(20):
        scorer.look(steps, 2 * steps)
        now[0] += 1
    with pytest.raises(racing.TimeIsUp):
        scorer.look(20, 40)
    assert scorer.rows == [(seconds, seconds, 2 * seconds, 0.5) for seconds in (0, 5, 10, 15, 20)]
    assert not table.exists()  # a racer that is stopped leaves its scores so far under another name
    so_far = table.with_suffix(".unfinished").read_text()
    assert so_far.splitlines()[-1] == "time,deep-sea-treasure-v0,gpi-ls,0,20.00,20,40,0.5"
    scorer.finish()
    assert table.read_text() == so_far + "time,deep-sea-treasure-v0,gpi-ls-idle,0,20.00,20,40,0.5\n"
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


@pytest.mark.parametrize(("seconds", "last"), [(1000, 40), (26, 26)])
def test_a_race_by_steps_counts_what_is_learned_from_and_ends_with_the_time_at_last(
    racing, monkeypatch, tmp_path, seconds, last
):
    now = [0.0]
    monkeypatch.setattr(racing, "time", SimpleNamespace(process_time=lambda: now[0]))
    monkeypatch.setattr(racing, "expected_utility", lambda *_: 0.5)
    contest = contest_of(racing, seconds=seconds, steps=40, points=4)
    scorer = racing.Scorer(contest, None, 0, 0.0, "usfa", tmp_path / "table.csv")

    def run():
        for steps in range(100):
            scorer.look(steps, 2 * steps)
            now[0] += 1

    with pytest.raises(racing.TimeIsUp):
        run()
    assert [steps for _, steps, _, _ in scorer.rows] == sorted({0, 10, 20, last} | ({30} if last > 30 else set()))
    assert all(played == 2 * steps for _, steps, played, _ in scorer.rows)


@pytest.fixture
def curves():
    """Two seeds of two algorithms where the optimum is known, and one run where it is not."""
    rows = [
        ("time", "deep-sea-treasure-v0", algorithm, seed, 10.0 * point, 100 * point, 110 * point, point + seed)
        for algorithm in ("usfa", "gpi-ls")
        for seed in (0, 1)
        for point in range(3)
    ]
    rows += [
        ("time", "four-room-v0", "usfa", 0, 10.0 * point, 100 * point, 100 * point, 0.5 * point) for point in range(3)
    ]
    rows += [("30 steps", "four-room-v0", "usfa", 0, 3.0, 20, 30, 0.25)]
    rows += [("30 steps", "four-room-v0", "usfa-loops-kept", 0, 3.0, 20, 30, -9.0)]  # at the end only
    return pd.DataFrame(
        rows, columns=["race", "environment", "algorithm", "seed", "seconds", "steps", "played", "utility"]
    )


CEILINGS = {"deep-sea-treasure-v0": 5.5, "four-room-v0": float("nan")}


def test_the_table_has_the_last_scores(race, curves):
    table = race.final_table(curves, CEILINGS).set_index(["race", "environment", "algorithm"])
    sea = table.loc[("time", "deep-sea-treasure-v0", "gpi-ls")]
    assert (sea["expected utility"], sea.low, sea.high, sea.optimum) == (2.5, 2.0, 3.0, 5.5)
    assert (sea["steps/s"], sea.steps, sea.played, sea.seconds, sea.seeds) == (10, 200, 220, 20, 2)
    rooms = table.loc[("time", "four-room-v0", "usfa")]
    assert rooms["expected utility"] == 1.0
    assert rooms[["low", "high", "optimum"]].isna().all()
    assert (sea["optimum is"], rooms["optimum is"]) == ("known", "unknown")
    few = table.loc[("30 steps", "four-room-v0", "usfa")]
    assert (few["expected utility"], few.steps, few.played) == (0.25, 20, 30)
    assert table.loc[("30 steps", "four-room-v0", "usfa-loops-kept"), "expected utility"] == -9.0


def test_the_figure_does_without_a_known_optimum(race, curves):
    figure = race.figure_of(curves, CEILINGS, {"four-room-v0": 0.5, "deep-sea-treasure-v0": -9.0})
    sea, sea_steps, rooms, _ = figure.axes
    np.testing.assert_allclose(sea.get_ylim(), (2 - 0.42, 5.5 + 0.42))  # from the lowest end to the optimum
    assert sea_steps.get_ylim() == sea.get_ylim()
    assert rooms.get_ylim()[0] < 1 < rooms.get_ylim()[1]
    assert [text.get_text() for text in sea.texts] == ["usfa 2.50", "GPI-LS 2.50", "optimum 5.50"]
    assert [text.get_text() for text in rooms.texts] == ["usfa 1.00", "one action 0.50"]  # lines in view only
    assert not sea.collections  # no bands


def test_the_published_tables_are_those_of_the_contests(race):
    tables = sorted((FOLDER.parents[1] / race.PUBLISHED / "tables").glob("*.csv"))
    raced = ("usfa", "gpi-ls", "envelope")
    names = {f"{env}-{algorithm}-{seed}" for env in race.CONTESTS for algorithm in raced for seed in range(3)}
    other = re.compile(r"-\d+-(steps|minutes)-|-gpi-pd-|-scaled-")  # run in some environments
    assert {path.stem for path in tables if not other.search(path.stem)} == names


@pytest.mark.parametrize(
    ("minutes", "steps", "name", "kind", "seconds"),
    [
        (None, None, "minecart-v0-usfa-3.csv", "time", 600),
        (10, None, "minecart-v0-usfa-3.csv", "time", 600),
        (30, None, "minecart-v0-usfa-30-minutes-3.csv", "30 minutes", 1800),
        (None, 5400, "minecart-v0-usfa-5400-steps-3.csv", "5400 steps", 600),
    ],
)
def test_a_race_with_another_budget_has_its_own_table(
    race, racing, tmp_path, monkeypatch, minutes, steps, name, kind, seconds
):
    started = []

    def run(command, **_):
        given = racing.Contest(**json.loads(Path(command[4]).read_text()))
        started.append((Path(command[-1]).name, given.race, given.seconds))

    monkeypatch.setattr(race.subprocess, "run", run)
    (tmp_path / "tables").mkdir()
    race.Racer("minecart-v0", "usfa", 3, tmp_path, 1.0, steps, minutes).run(Path("python"))
    assert started == [(name, kind, seconds)]

import numpy as np
import pandas as pd
import pytest

from usfa.errors import InputError
from usfa.evaluation import Summary, bootstrap_interval, interquartile_mean, summarise


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5.0], 5.0),
        ([1.0, 3.0], 2.0),
        ([100.0, 1.0, 3.0, -50.0], 2.0),
        ([9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -99.0], 3.5),
        ([0.0, 1.0, 2.0, 3.0, 1000.0], 2.0),
    ],
)
def test_golden_interquartile_means(values, expected):
    assert interquartile_mean(np.array(values)) == expected


def test_interquartile_mean_along_an_axis():
    values = np.array([[100.0, 0.0], [1.0, 1.0], [3.0, 2.0], [-50.0, 30.0]])
    assert interquartile_mean(values, axis=0).tolist() == [2.0, 1.5]


def covered(rng, unit, runs=10, tasks=5, repeats=300):
    """How often the 95 % interval of normal data holds the true mean 0."""
    hits = 0
    for _ in range(repeats):
        scores = rng.standard_normal((runs, 1)) + 0.3 * rng.standard_normal((runs, tasks))
        low, high = bootstrap_interval(scores, rng, unit=unit, resamples=300)
        hits += low <= 0 <= high
    return hits / repeats


def test_intervals_over_runs_cover_the_truth():
    """A percentile bootstrap of 10 runs covers a bit less than 95 %; 300 repeats leave ±1.6 %."""
    assert 0.84 < covered(np.random.default_rng(0), "run") < 0.97


def test_intervals_over_scores_are_too_narrow_for_correlated_tasks():
    assert covered(np.random.default_rng(0), "score") < 0.75
    rng = np.random.default_rng(1)
    scores = rng.standard_normal((10, 1)) + 0.1 * rng.standard_normal((10, 20))
    by_run, by_score = (bootstrap_interval(scores, np.random.default_rng(2), unit=u) for u in ("run", "score"))
    assert by_score[1] - by_score[0] < 0.5 * (by_run[1] - by_run[0])


def test_both_intervals_agree_for_one_task():
    scores = np.random.default_rng(1).standard_normal((12, 1))
    by_run, by_score = (bootstrap_interval(scores, np.random.default_rng(2), unit=u) for u in ("run", "score"))
    assert by_run == pytest.approx(by_score)


def test_intervals_repeat_grow_with_confidence_and_hold_the_statistic():
    scores = np.random.default_rng(1).standard_normal((8, 4))
    one, two = (bootstrap_interval(scores, np.random.default_rng(0)) for _ in range(2))
    wide = bootstrap_interval(scores, np.random.default_rng(0), confidence=0.999)
    assert one == two
    assert wide[0] < one[0] < scores.mean() < one[1] < wide[1]
    extreme = bootstrap_interval(scores, np.random.default_rng(0), statistic=lambda x: x.max(axis=-1))
    assert extreme[1] == scores.max()


def test_one_run_has_no_width():
    assert bootstrap_interval(np.array([[1.0, 3.0]]), np.random.default_rng(0)) == (2.0, 2.0)


TABLE = pd.DataFrame(
    {
        "agent": ["a"] * 4 + ["b"] * 2,
        "seed": [0, 0, 1, 1, 0, 0],
        "task": ["10", "01", "10", "01", "10", "01"],
        "score": [1.0, 3.0, 5.0, 7.0, -1.0, -2.0],
    }
)


def test_summary_by_hand():
    summary = summarise(TABLE, ["agent"], "score")
    assert list(summary.columns) == ["agent", *Summary._fields]
    a, b = summary.iloc[0], summary.iloc[1]
    assert (a.agent, a["mean"], a.iqm, a.runs, a.tasks) == ("a", 4.0, 4.0, 2, 2)
    assert a["std"] == pytest.approx(np.std([2, 6], ddof=1))
    assert (a.low, a.high) == (2.0, 6.0)  # two runs: one of them twice, or both
    assert a.low_stratified <= a["mean"] <= a.high_stratified
    assert (b["mean"], b.runs) == (-1.5, 1)
    assert np.isnan([b["std"], b.low, b.high, b.low_stratified, b.high_stratified]).all()  # one run says nothing


def test_summary_does_not_mind_the_order_of_rows_or_other_columns():
    shuffled = TABLE.sample(frac=1, random_state=0).assign(extra="x")
    expected = summarise(TABLE, ["agent"], "score")
    found = summarise(shuffled, ["agent"], "score").set_index("agent").loc[["a", "b"]].reset_index()
    pd.testing.assert_frame_equal(found, expected)


def test_groups_of_several_columns():
    table = pd.concat([TABLE.assign(snapshot=0), TABLE.assign(snapshot=5, score=0.0)])
    summary = summarise(table, ["agent", "snapshot"], "score")
    assert summary[["agent", "snapshot", "mean"]].values.tolist() == [
        ["a", 0, 4.0],
        ["b", 0, -1.5],
        ["a", 5, 0.0],
        ["b", 5, 0.0],
    ]


@pytest.mark.parametrize("spoil", [lambda t: t.drop(index=3), lambda t: t.assign(score=t.score.where(t.index != 1))])
def test_a_missing_score_is_an_error(spoil):
    with pytest.raises(InputError, match=r"^The group .*'a'.* lacks score for some seed and task; expected all"):
        summarise(spoil(TABLE), ["agent"], "score")

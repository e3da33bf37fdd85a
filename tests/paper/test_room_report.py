"""The report of the room experiment from hand-made tables: verdicts follow the numbers."""

import re

import numpy as np
import pandas as pd
import pytest

import room_tables
from usfa.environments.room.yardstick import as_a_whole, measured
from usfa.evaluation import write_table
from usfa.figures.room import BROAD, LARGE, USFA, all_figures
from usfa.paper.room_claims import room_claims
from usfa.paper.room_report import final_table, has_rows_for, room_report, settings_of, summary_of
from usfa.runs import preset

YARDSTICK = room_tables.yardstick()
OWN, TRAIN, BOTH = USFA
HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided"

GENERALISE = "all architectures generalise"
NEGATIVE = "even to test tasks with negative rewards"
EASY = "generalisation to the easy tasks"
STRUCTURED = "USFAs perform considerably better than the unstructured UVFAs"
INCLUDING = "there is a clear advantage in including M in C"
WORSE = "sometimes performs worse than C = M"
ESPECIALLY = "… especially on tasks with negative rewards"
BOOST = "can boost the performance"
BROADER = "with σ = 0.5 the generalisation of the structured UVFA"
ALMOST = "… almost matching that of GPI"
RELIABLE = "with limited coverage of the policy space"
REGIMES = "the algorithm can successfully learn and operate in both regimes"
EIGHT = "trained on eight tasks"
COUNTS = {
    GENERALISE: 1, NEGATIVE: 1, EASY: 1, STRUCTURED: 3, INCLUDING: 2, WORSE: 1, ESPECIALLY: 1, BOOST: 1, BROADER: 1,
    ALMOST: 1, RELIABLE: 1, REGIMES: 1, EIGHT: 3,
}  # fmt: skip


def as_in_the_paper(key, task_set, task, seed):
    """M ∪ {w'} is worse where rewards are negative."""
    return -0.1 if key == BOTH and "-" in task else 0.0


def scores_with(levels=(), seeds=(0, 1, 2), spread=0.02, change=None, missing=()):
    known = {**room_tables.LEVELS, **dict(levels)}
    known = {key: level for key, level in known.items() if key[0] not in missing}
    return room_tables.scores(known, seeds, (0, 4_000_000), spread, change or as_in_the_paper)


def verdicts(scores):
    found = {fragment: set() for fragment in COUNTS}
    for claim in room_claims(scores, YARDSTICK):
        (fragment,) = [fragment for fragment in COUNTS if fragment in claim.statement]
        found[fragment].add(claim.verdict)
    return found


# --- claims ---


def test_every_claim_is_there_with_numbers_and_a_place():
    claims = room_claims(scores_with(), YARDSTICK)
    for fragment, count in COUNTS.items():
        assert sum(fragment in claim.statement for claim in claims) == count
    for claim in claims:
        assert re.fullmatch(r"Section 4\.3|Appendix [CD]\.\d", claim.source)
        assert re.search(r"\d", claim.measured)
        assert "nan" not in claim.measured
        assert "|" not in claim.statement + claim.measured


def test_in_the_papers_world_everything_holds():
    assert verdicts(scores_with()) == {fragment: {HOLDS} for fragment in COUNTS}


def only(key, tasks, amount):
    """A change of one method on some tasks."""
    return lambda other, task_set, task, seed: (
        amount if other == key and tasks(task_set, task) else as_in_the_paper(other, task_set, task, seed)
    )


@pytest.mark.parametrize(
    ("fragments", "world"),
    [
        ((GENERALISE, NEGATIVE, EASY), {"levels": {("uvfa", "task"): -0.2}}),
        ((NEGATIVE,), {"change": only(("uvfa", "task"), lambda _, task: "-" in task, -1.0)}),
        ((EASY,), {"change": only(OWN, lambda name, _: name == "room-easy", -0.3)}),
        ((STRUCTURED,), {"levels": {("uvfa", "task"): 0.9}}),
        ((STRUCTURED,), {"levels": {("uvfa-off-policy", "task"): 0.9}}),
        ((INCLUDING, BOOST), {"levels": {OWN: 0.9}}),
        ((WORSE, ESPECIALLY), {"levels": {BOTH: 0.9}}),
        ((ESPECIALLY,), {"change": only(BOTH, lambda _, task: "-" not in task, -0.3)}),
        ((BROADER, ALMOST), {"levels": {BROAD[0]: 0.2}}),
        ((ALMOST,), {"levels": {BROAD[1]: 0.9}}),
        ((RELIABLE,), {"change": only(TRAIN, lambda name, _: name == "room-hard", -0.3)}),
        ((REGIMES,), {"levels": {BROAD[1]: -0.2}}),
        ((REGIMES,), {"change": only(BROAD[1], lambda name, _: name == "room-train", -1.0)}),
        ((EIGHT,), {"levels": dict.fromkeys(LARGE, 0.1)}),
    ],
    ids=lambda value: value[0][:30] if isinstance(value, tuple) else "",
)
def test_in_another_world_a_claim_does_not_hold(fragments, world):
    found = verdicts(scores_with(**world))
    for fragment in fragments:
        assert found[fragment] == {FAILS}, fragment


def reliable(scores):
    (claim,) = [claim for claim in room_claims(scores, YARDSTICK) if RELIABLE in claim.statement]
    return claim


def test_reliable_is_what_is_not_below_the_best_single_policy():
    """Which has 0.5 with C = M. Seeds lie far apart; run by run, the difference is the same."""
    claim = reliable(scores_with(spread=0.3))
    assert claim.verdict == HOLDS
    assert "C = M 0.60 [0.30, 0.90]; best single policy of M 0.50 [0.20, 0.80]" in claim.measured
    assert "difference 0.10 [0.10, 0.10], below it on 0 of 8 tasks (asked: above it)" in claim.measured


def test_reliability_is_asked_of_the_hard_tasks_as_a_whole():
    """One task on which GPI freezes is told, and so is how many there are."""
    for tasks, verdict in (({"-1100"}, HOLDS), ({"-1100", "-1101", "1111"}, FAILS)):
        claim = reliable(scores_with(change=only(TRAIN, lambda _, task, tasks=tasks: task in tasks, -0.4)))
        assert claim.verdict == verdict
        assert f"below it on {len(tasks)} of 8 tasks" in claim.measured
    elsewhere = reliable(scores_with(change=only(TRAIN, lambda name, _: name != "room-hard", -2.0)))
    assert elsewhere.verdict == HOLDS


def test_reliability_by_chance_is_not_decided():
    def change(key, task_set, task, seed):
        return -0.1 + 0.05 * (seed - 1) if key == TRAIN else 0.0

    assert reliable(scores_with(change=change)).verdict == OPEN


def test_without_single_policies_reliability_is_not_decided():
    scores = scores_with()
    claim = reliable(scores[scores.rule != "single"])
    assert claim.verdict == OPEN
    assert "best single policy of M no run, difference no run, too few runs to compare" in claim.measured


def test_claims_are_by_eq_3():
    """Whatever another rule has: only the best single policy counts besides."""
    scores = scores_with()
    others = scores.assign(score=scores.score.where(scores.rule != "cautious", 0.0))
    assert room_claims(others, YARDSTICK) == room_claims(scores, YARDSTICK)
    assert room_claims(scores[scores.rule != "cautious"], YARDSTICK) == room_claims(scores, YARDSTICK)


def test_small_negative_rewards_of_easy_tasks_do_not_count():
    fails_there = only(("uvfa", "task"), lambda name, task: "-" in task and name == "room-easy", -1.0)
    assert verdicts(scores_with(change=fails_there))[NEGATIVE] == {HOLDS}


def test_what_overlaps_is_not_decided():
    found = verdicts(scores_with(spread=0.3))
    for fragment in (STRUCTURED, BROADER, EIGHT):
        assert found[fragment] == {OPEN}
    for fragment in (INCLUDING, WORSE):  # within runs, the differences are the same
        assert found[fragment] == {HOLDS}


def test_one_run_decides_nothing():
    assert set().union(*verdicts(scores_with(seeds=(0,))).values()) == {OPEN}


@pytest.mark.parametrize(
    ("missing", "undecided"),
    [
        (("uvfa",), {GENERALISE, NEGATIVE, EASY, STRUCTURED}),
        (("uvfa", "uvfa-off-policy", "sf-gpi"), {GENERALISE, NEGATIVE, EASY, STRUCTURED}),
        (("usfa-sigma-0.5",), {BROADER, ALMOST, REGIMES}),
        (("usfa-8-tasks",), {EIGHT}),
        (("usfa",), set(COUNTS) - {ALMOST}),
    ],
)
def test_claims_about_missing_agents_are_not_decided(missing, undecided):
    found = verdicts(scores_with(missing=missing))
    assert {fragment for fragment, verdict in found.items() if verdict == {OPEN}} == undecided
    assert all(found[fragment] == {HOLDS} for fragment in set(COUNTS) - undecided)


def test_a_missing_agent_does_not_save_a_claim_that_fails():
    assert verdicts(scores_with({OWN: -0.2}, missing=("uvfa",)))[GENERALISE] == {FAILS}


@pytest.mark.parametrize(("noise", "expected"), [(0.01, HOLDS), (0.1, OPEN), (0.5, OPEN)])
def test_sometimes_needs_one_task_that_is_clear_among_all(noise, expected):
    """M ∪ {w'} is worse by 0.1 on one of 13 tasks; alone, it would pass with noise of 0.1 as well (p = 0.04)."""

    def change(key, task_set, task, seed):
        if key != BOTH or task_set == "room-train":
            return 0.0
        return noise * (-1) ** seed - 0.1 * (task == "1111")  # alternates, so the other tasks have no difference

    found = room_claims(scores_with({BOTH: 0.6}, range(6), change=change), YARDSTICK)
    (claim,) = [claim for claim in found if WORSE in claim.statement]
    assert claim.verdict == expected
    assert f"worse on {int(expected == HOLDS)} of 13 test tasks" in claim.measured
    assert "1111" in claim.tests


def test_many_tests_are_one_family():
    """A difference that passes alone is not decided among all comparisons."""

    def change(key, task_set, task, seed):
        return (0.08, -0.02, 0.05, 0.03, -0.01, 0.06)[seed] if key == TRAIN else 0.0

    scores = scores_with({TRAIN: 0.45, OWN: 0.45}, range(6), change=change)
    (claim,) = [x for x in room_claims(scores, YARDSTICK) if INCLUDING in x.statement and x.statement.endswith("C = M")]
    assert claim.verdict == OPEN
    assert "C = M − C = {w′} +0.03 [-0.01, +0.07], p = " in claim.tests


def test_only_scores_that_the_table_can_show_get_it(scores):
    assert has_rows_for(scores)
    assert not has_rows_for(scores.assign(candidates="sample:30"))
    assert not has_rows_for(scores.assign(task_set="1100"))
    assert not has_rows_for(scores.assign(agent="mine"))


def test_a_set_as_a_whole_is_normalised_as_in_the_summary(scores, summary):
    mine = scores.query("agent == 'usfa' and task_set == 'room-hard' and snapshot > 0 and seed == 0")
    key = ["candidates", "rule"]
    whole = as_a_whole(measured(mine, YARDSTICK), "room-hard").query("task == 'room-hard'").set_index(key)
    one_seed = summary_of(mine, YARDSTICK).query("measure == 'normalised' and task == 'all'").set_index(key)
    assert len(whole) == 8  # three sets by three rules, but no single policy where there is only one
    for group in whole.index:
        assert whole.normalised[group] == pytest.approx(one_seed["mean"][group])


def test_tasks_with_dislikes_have_a_row_of_their_own(scores):
    mine = scores.query("agent == 'usfa' and candidates == 'train+task' and snapshot > 0 and seed == 0")
    hard = measured(mine.query("task_set == 'room-hard'"), YARDSTICK)
    whole = as_a_whole(hard, "room-hard").set_index(["task", "rule"])
    assert whole.index.get_level_values("task").unique().tolist() == ["room-hard", "room-hard, with dislikes"]
    disliking = hard[hard.task.isin(["-1-100", "-1100", "-1101", "-11-10", "-11-11"])]
    for rule, group in disliking.groupby("rule"):
        expected = (group.score - group.random).sum() / (group.oracle - group.random).sum()
        assert whole.normalised["room-hard, with dislikes", rule] == pytest.approx(expected)
    assert whole.normalised["room-hard, with dislikes", "gpi"] == pytest.approx(0.43)  # 0.55 - 0.1, the seed 0.02 below
    for tasks in (["1100", "0111"], ["-1-100", "-1100"], ["1100", "-1100"]):  # none, all, and one that needs no mean
        assert as_a_whole(hard[hard.task.isin(tasks)], "mine").task.unique().tolist() == ["mine"]


def test_one_bad_task_does_not_hide_the_others_in_a_set():
    """On -1-100 the oracle gains 4 of 605 on the hard tasks; a UVFA that loses 40 there is still above random."""
    scores = scores_with(change=only(("uvfa", "task"), lambda _, task: task == "-1-100", -10.0))
    of_task = scores[(scores.agent == "uvfa") & (scores.task == "-1-100") & (scores.snapshot > 0)]
    assert of_task.normalised.mean() < -9
    assert verdicts(scores)[GENERALISE] == {HOLDS}
    (claim,) = [claim for claim in room_claims(scores, YARDSTICK) if GENERALISE in claim.statement]
    assert re.search(r"UVFA 0\.\d\d \[.*?\] \(12 of 13 tasks\)", claim.measured)


# --- tables ---


@pytest.fixture(scope="module")
def scores():
    return scores_with()


@pytest.fixture(scope="module")
def summary(scores):
    return summary_of(scores, YARDSTICK)


def test_the_score_of_a_set_is_a_ratio_of_sums(scores, summary):
    levels = YARDSTICK[YARDSTICK.set == "room-hard"].pivot(index="task", columns="policy", values="mean")
    for rule in room_tables.RULES:
        chosen = "agent == 'usfa' and candidates == 'train+task' and task_set == 'room-hard' and snapshot == 4_000_000"
        final = scores.query(f"{chosen} and rule == {rule!r}")
        runs = final.pivot(index="seed", columns="task", values="score")
        expected = (runs - levels.random).sum(axis=1) / (levels.oracle - levels.random).sum()
        whole = summary.query(f"{chosen} and rule == {rule!r} and task == 'all'")
        (row,) = whole[whole.measure == "normalised"].itertuples()
        assert row.mean == pytest.approx(expected.mean())
        assert (row.low, row.high) == pytest.approx((expected.min(), expected.max()))  # three runs
        assert (row.runs, row.frames) == (3, 4_000_000)
        (row,) = whole[whole.measure == "return"].itertuples()
        assert row.mean == pytest.approx(runs.to_numpy().mean())


def test_summary_has_every_task_and_set_of_every_snapshot(scores, summary):
    tasks, sets, measures = 17, 5, 2  # the hard tasks also with and without dislikes
    methods = len(room_tables.LEVELS) * 2 + 10 + 7  # of the last snapshot also cautious and single
    assert len(summary) == methods * (tasks + sets) * measures
    assert not summary.duplicated(["measure", "agent", "candidates", "rule", "task_set", "task", "snapshot"]).any()
    key = ["agent", "candidates", "rule"]
    mine = summary[(summary.task == "1100") & (summary.measure == "return") & (summary.snapshot > 0)]
    expected = scores[(scores.task == "1100") & (scores.snapshot > 0)].groupby(key).score.mean()
    found = mine.set_index(key)["mean"]
    assert len(found) == len(expected)
    np.testing.assert_allclose(found[expected.index], expected)


def test_final_table_also_from_disk(summary, tmp_path):
    write_table(tmp_path / "summary.csv", summary)
    read = pd.read_csv(tmp_path / "summary.csv")
    table = final_table(read)
    pd.testing.assert_frame_equal(table, final_table(summary))
    sets = ["training tasks M", "easy test tasks", "hard, without dislikes", "hard, with dislikes", "hard test tasks"]
    assert list(table.columns) == ["method", "rule", *sets, "runs"]
    both = table[(table.method == "USFA, C = M ∪ {w′}") & (table.rule == "gpi")].iloc[0]
    assert both["hard, without dislikes"] == "0.55 [0.53, 0.57]"
    assert both["hard, with dislikes"] == "0.45 [0.43, 0.47]"
    rows = table.set_index("method").loc["USFA, C = M"]
    assert rows.rule.tolist() == ["gpi", "cautious", "single"]
    assert rows["hard test tasks"].tolist() == ["0.60 [0.58, 0.62]", "0.65 [0.63, 0.67]", "0.50 [0.48, 0.52]"]
    assert rows.runs.tolist() == ["3"] * 3
    for name in ("UVFA", "UVFA, off-policy"):
        assert table[table.method == name].rule.tolist() == ["–"]
    assert table[table.method == "USFA, C = {w′}"].rule.tolist() == ["gpi", "cautious"]


# --- the report ---


def test_report_tells_every_claim_and_shows_every_figure(scores, summary):
    training = room_tables.training()
    report = room_report(
        scores,
        training,
        summary,
        YARDSTICK,
        settings_of({"usfa": preset("room-laptop"), "uvfa": preset("room-laptop-uvfa")}),
    )
    for rule in ("gpi", "cautious"):
        for claim in room_claims(scores, YARDSTICK, rule):
            row = (claim.source, claim.statement, claim.measured, claim.tests, f"**{claim.verdict}**")
            assert f"| {' | '.join(row)} |" in report
    assert set(re.findall(r"\(figures/(.*?)\.png\)", report)) == set(all_figures(training, summary, YARDSTICK))
    assert "frames per run: 5,000,000" in report
    assert "past rounds learned again with each: 1 of 100; target network: of every 100 updates" in report
    assert "n_z: 30 (usfa), 1 (uvfa);" in report
    assert "after 4 million frames" in report
    assert "1 of 10 comparisons" in report
    assert "on-policy 0.25 [0.23, 0.27], off-policy 0.30 [0.28, 0.32]" in report
    assert (
        "By the cautious rule USFA with C = M has 0.65 [0.63, 0.67] and with C = M ∪ {w′} 0.60 [0.58, 0.62]" in report
    )
    assert "the best single policy of M in hindsight 0.50 [0.48, 0.52]." in report
    assert "| USFA, C = M | gpi | 60.4 [58.4, 62.4] |" in report  # task 1100
    assert re.search(r"\| USFA, C = M \| cautious \| 65\.\d \[63\.4, 67\.3\] \|", report)
    assert "| USFA, C = M | single | 50.5 [48.5, 52.5] |" in report
    assert "| oracle | – | 100.0 | 150.0 | 200.0 | 0.0 |" in report
    assert "nan" not in report


def test_report_of_a_quick_run():
    scores = scores_with(seeds=(0,), missing=("usfa-sigma-0.5", "usfa-8-tasks", "uvfa-off-policy", "sf-gpi"))
    training = room_tables.training(("usfa", "uvfa"), seeds=(0,))
    report = room_report(scores, training, summary_of(scores, YARDSTICK), YARDSTICK, "A quick look.")
    assert "A quick look." in report
    assert "With one run there are no intervals" in report
    assert "0.45 (one run)" in report
    assert "no run" in report
    assert "nan" not in report
    for found in ("**holds**", "**does not hold**"):
        assert found not in report


def test_report_before_the_first_episode_has_ended():
    scores = scores_with(seeds=(0,), missing=("usfa", "usfa-sigma-0.5", "usfa-8-tasks", "sf-gpi"))
    training = pd.DataFrame(columns=["agent", "seed", "task", "frames", "score"])
    report = room_report(scores, training, summary_of(scores, YARDSTICK), YARDSTICK, {"frames per run": 10})
    assert "| agent | 1000 | 0100 | 0010 | 0001 |" in report


def test_ten_runs_have_narrower_intervals_than_their_range():
    scores = scores_with({}, seeds=tuple(range(10)), missing=("usfa-sigma-0.5", "usfa-8-tasks", "sf-gpi"))
    summary = summary_of(scores[scores.snapshot > 0], YARDSTICK)
    report = room_report(scores, room_tables.training(), summary, YARDSTICK, "")
    assert "With 10 runs such intervals tend to be a little narrow." in report
    mine = summary[(summary.agent == "uvfa") & (summary.task == "all") & (summary.measure == "normalised")]
    assert len(mine) == 3
    assert (mine.high - mine.low < 0.1).all()  # the runs lie 0.18 apart

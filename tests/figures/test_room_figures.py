"""Figures of the room experiment from hand-made tables, whole and with holes."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import room_tables
from usfa.figures import room as room_results
from usfa.figures import save
from usfa.figures.style import METHODS, method
from usfa.paper.room_report import summary_of

YARDSTICK = room_tables.yardstick()
HARD = ["1100", "0111", "1111", "-1-100", "-1100", "-1101", "-11-10", "-11-11"]
MAIN = {method(*key).label for key in (*room_results.USFA, *room_results.BASELINES)}
POLICIES = {"oracle", "random"}
NAMES = ("tv", "ball", "hat", "balloon")
WORDS = [
    "tv + ball", "ball + hat + balloon", "tv + ball + hat + balloon", "− tv − ball", "ball − tv", "ball + balloon − tv",
    "ball − tv − hat", "ball + balloon − tv − hat",
]  # fmt: skip


def summary_with(**changes):
    """Summary by Eq. 3 only, as all figures but `rule_comparison` expect."""
    scores = room_tables.scores(snapshots=(0, 4_000_000), **changes)
    return summary_of(scores[scores.rule == "gpi"], YARDSTICK)


@pytest.fixture(scope="module")
def summary():
    return summary_with()


@pytest.fixture(scope="module")
def one_run():
    """A quick run: one seed, and only two agents."""
    few = {key: room_tables.LEVELS[key] for key in (*room_results.USFA, ("uvfa", "task"))}
    return summary_with(levels=few, seeds=(0,))


def titles(figure):
    return [axes.get_title() for axes in figure.axes if axes.axison]


def labels(axes):
    return set(axes.get_legend_handles_labels()[1])


def in_legend(figure):
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
    (legend,) = legends
    return [text.get_text() for text in legend.get_texts()]


def line(axes, label):
    (found,) = [line for line in axes.get_lines() if line.get_label() == label]
    return found


# --- panels and lines ---


def minus(task):
    return task.replace("-", "−").replace(",", ", ")


def returns_of(task):
    level = YARDSTICK[YARDSTICK.task == task].groupby("policy")["mean"].first()
    return minus(f"{level['random']:.0f} to {level['oracle']:.0f}")


@pytest.mark.parametrize(("name", "tasks"), [("room-hard", HARD), ("room-easy", room_tables.tasks_of("room-easy"))])
def test_zero_shot_has_a_panel_for_each_task_and_a_line_for_each_method(summary, name, tasks):
    figure = room_results.zero_shot_curves(summary, YARDSTICK, name)
    assert titles(figure) == [f"w′ = {minus(task)} ({returns_of(task)})" for task in tasks]
    for axes in figure.axes[: len(tasks)]:
        assert labels(axes) == MAIN | POLICIES
    assert set(in_legend(figure)) == MAIN


def test_tasks_are_written_in_words_too(summary):
    figure = room_results.zero_shot_curves(summary, YARDSTICK, "room-hard", NAMES)
    assert titles(figure) == [
        f"{word}\nw′ = {minus(task)} ({returns_of(task)})" for word, task in zip(WORDS, HARD, strict=True)
    ]
    rows = room_results.sigma_comparison(summary, YARDSTICK, NAMES).axes[0].get_yticklabels()
    assert [label.get_text() for label in rows] == [*WORDS, "all hard tasks"]


def test_curves_show_normalised_scores_on_one_scale_with_the_oracle_inside(summary):
    figure = room_results.zero_shot_curves(summary, YARDSTICK, "room-hard")
    curve = line(figure.axes[0], "USFA, C = M")
    assert curve.get_xdata().tolist() == [0, 4]
    assert curve.get_ydata().tolist() == pytest.approx([0, 0.6])
    assert "millions" in figure.get_supxlabel()
    assert max(figure.axes[0].get_xticks()) == 4
    for axes in figure.axes[: len(HARD)]:
        assert line(axes, "oracle").get_ydata()[0] == 1
        assert line(axes, "random").get_ydata()[0] == 0
        assert axes.get_ylim() == figure.axes[0].get_ylim()
        assert axes.get_ylim()[1] > 1


def test_the_last_snapshot_has_its_interval_on_the_right_and_no_curve_has_a_band(summary):
    axes = room_results.zero_shot_curves(summary, YARDSTICK, "room-hard").axes[0]
    intervals = [one for one in axes.get_lines() if one.get_label() == "_interval"]
    assert len(intervals) == len(MAIN)
    assert min(min(one.get_xdata()) for one in intervals) > 4
    assert list(intervals[1].get_ydata()) == pytest.approx([0.58, 0.62])  # the range of three runs
    assert not axes.collections


def test_a_score_far_below_the_random_policy_is_written(summary):
    axes = room_results.zero_shot_curves(summary_with(levels={("uvfa", "task"): -2.5}), YARDSTICK, "room-hard").axes[0]
    assert [text.get_text() for text in axes.texts] == ["UVFA −2.5 ↓"]
    assert axes.get_ylim()[0] > -1


@pytest.mark.parametrize("compare", ["sigma", "training set"])
def test_two_usfas_are_compared_by_their_ends_for_each_candidate_set(summary, compare):
    """Rows are the hard tasks and the whole set; the second method is drawn above the first."""
    if compare == "sigma":
        panels, after = room_results.sigma_comparison(summary, YARDSTICK).axes, room_results.BROAD
    else:
        _, *panels = room_results.training_set_comparison(room_tables.training(), summary, YARDSTICK).axes
        after = room_results.LARGE
    assert [axes.get_title() for axes in panels] == ["C = {w′}", "C = M", "C = M ∪ {w′}"]
    for axes, key, other in zip(panels, room_results.USFA, after, strict=True):
        ends = [one for one in axes.get_lines() if one.get_label() == "_end"]
        assert len(ends) == 2 * (len(HARD) + 1)
        levels = [room_tables.LEVELS[key], room_tables.LEVELS[other]]
        assert [float(one.get_xdata()[0]) for one in ends] == pytest.approx(levels * (len(HARD) + 1))
        assert ends[1].get_ydata()[0] < ends[0].get_ydata()[0]
        assert axes.get_xlim()[0] < 0 < 1 < axes.get_xlim()[1]


def test_training_set_begins_with_the_learning_curve_of_task_1000(summary):
    figure = room_results.training_set_comparison(room_tables.training(), summary, YARDSTICK)
    assert figure.axes[0].get_title() == "while training: w = 1000"
    assert labels(figure.axes[0]) - POLICIES == {"4 tasks", "8 tasks"}


def test_learning_curves_average_runs_that_log_at_different_frames():
    figure = room_results.learning_curves(room_tables.training(), YARDSTICK, NAMES)
    tasks = ("1000", "0100", "0010", "0001")
    assert titles(figure) == [f"{name}\nw = {task}" for name, task in zip(NAMES, tasks, strict=True)]
    for axes in figure.axes:
        assert labels(axes) == {look.label for look in room_results.AGENTS.values()} | POLICIES
        assert axes.get_ylim()[1] > line(axes, "oracle").get_ydata()[0]
    named = {text.get_text() for text in figure.axes[-1].texts}
    assert named == {look.label for look in room_results.AGENTS.values()} | POLICIES
    assert not figure.legends
    curve = line(figure.axes[0], "USFA")
    x, y = curve.get_xdata(), curve.get_ydata()
    assert len(x) <= 40
    assert (np.diff(x) > 0).all()
    np.testing.assert_allclose(y, 1 + 0.3 * (x - 0.001) / 0.04 + 1, atol=1e-6)  # the middle run of three
    assert max(axes.get_xticks()) == 4


def test_overview_shows_every_method_on_every_set_with_numbers(summary):
    figure = room_results.overview(summary)
    assert titles(figure) == list(room_results.SETS.values())
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert set(rows) == {method(*key).label for key in room_tables.LEVELS}
    for axes in figure.axes:
        numbers = {round(text.get_position()[1], 1): text.get_text() for text in axes.texts}
        shown = dict(zip(rows, (numbers[round(place, 1)] for place in axes.get_yticks()), strict=True))
        assert shown == {method(*key).label: f"{level:.2f}" for key, level in room_tables.LEVELS.items()}


def test_rules_are_compared_on_every_hard_task_and_on_all():
    scores = room_tables.scores(levels={("usfa", "train"): 0.6, ("uvfa", "task"): -2.5})
    scores = pd.concat([scores, scores[scores.rule == "cautious"].assign(rule="steady")])
    figure = room_results.rule_comparison(summary_of(scores, YARDSTICK), YARDSTICK, NAMES)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [*WORDS, "all hard tasks"]
    for rule, level in {"single": 0.5, "gpi": 0.6, "cautious": 0.65, "steady": 0.65}.items():
        marks = [line for line in axes.get_lines() if line.get_label() == room_results.RULES[rule].label]
        np.testing.assert_allclose([line.get_xdata() for line in marks], [[level]] * 9)
    assert [text.get_text() for text in axes.texts] == ["◂ UVFA −2.50"] * 9
    greedy = [line.get_xdata() for line in axes.get_lines() if line.get_label() == "_greedy"]
    np.testing.assert_allclose(greedy, [[0.3, 0.3]] * 9)
    rules = [look.label for look in room_results.RULES.values()]
    assert in_legend(figure) == ["UVFA", *rules, "greedy policy that sees the true state"]


def test_all_figures_but_one_are_by_eq_3():
    every_rule = summary_of(room_tables.scores(), YARDSTICK)
    figures = room_results.all_figures(room_tables.training(), every_rule, YARDSTICK)
    numbers = [text.get_text() for axes in figures["overview"].axes for text in axes.texts]
    assert sorted(numbers) == sorted(3 * [f"{level:.2f}" for level in room_tables.LEVELS.values()])


def test_weak_scores_get_a_shorter_axis_in_the_overview():
    overview = room_results.overview(summary_with(levels={("usfa", "train"): 0.1})).axes[0]
    assert overview.get_xlim()[1] < 0.5


# --- holes ---


def test_missing_agents_are_left_out(one_run):
    figure = room_results.zero_shot_curves(one_run, YARDSTICK, "room-easy")
    present = {method(*key).label for key in (*room_results.USFA, ("uvfa", "task"))}
    assert labels(figure.axes[0]) == present | POLICIES
    assert "_interval" not in {one.get_label() for one in figure.axes[0].get_lines()}  # one run has none
    overview = room_results.overview(one_run)
    assert {label.get_text() for label in overview.axes[0].get_yticklabels()} == present


def test_all_figures_of_a_quick_run_can_be_saved(one_run, tmp_path):
    """Warnings are errors here: nothing may be drawn from nothing."""
    figures = room_results.all_figures(room_tables.training(("usfa", "uvfa"), seeds=(0,)), one_run, YARDSTICK)
    for name, figure in figures.items():
        save(figure, tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_no_training_curve_yet_and_only_uvfa():
    training = pd.DataFrame(columns=["agent", "seed", "task", "frames", "score"])
    summary = summary_with(levels={("uvfa", "task"): -0.1}, seeds=(0,))
    figures = room_results.all_figures(training, summary, YARDSTICK)
    assert all(isinstance(figure, Figure) for figure in figures.values())
    assert {text.get_text() for text in figures["learning_curves"].axes[-1].texts} == POLICIES
    assert not [one for axes in figures["sigma"].axes for one in axes.get_lines() if one.get_label() == "_end"]


# --- what figures are ---


def test_a_table_gives_the_same_bytes_twice_and_is_left_alone(summary, tmp_path):
    before = summary.copy()
    for name in ("one.png", "two.png"):
        save(room_results.overview(summary), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    pd.testing.assert_frame_equal(summary, before)


def test_methods_of_one_figure_differ_in_colour_and_marker():
    methods = [
        [METHODS[key] for key in (*room_results.USFA, *others)]
        for others in (room_results.BASELINES, room_results.BROAD, room_results.LARGE)
    ]
    for looks in (*methods, [METHODS["uvfa", "task"], *room_results.RULES.values()]):
        assert len({look.colour for look in looks}) == len({look.marker for look in looks}) == len(looks)
    assert len({(look.colour, look.line) for look in room_results.AGENTS.values()}) == len(room_results.AGENTS)


def test_figures_are_drawn_without_torch_and_without_a_screen():
    code = (
        "import sys, types; package = types.ModuleType('usfa'); import importlib.util as u; "
        "package.__path__ = u.find_spec('usfa').submodule_search_locations; sys.modules['usfa'] = package; "
        "import usfa.figures.room; "
        "print('torch' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False"]

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


def summary_with(**changes):
    """By Eq. 3: figures are of one rule."""
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


@pytest.mark.parametrize(("name", "tasks"), [("room-hard", HARD), ("room-easy", room_tables.tasks_of("room-easy"))])
def test_zero_shot_has_a_panel_for_each_task_and_a_line_for_each_method(summary, name, tasks):
    figure = room_results.zero_shot_curves(summary, YARDSTICK, name)
    assert titles(figure) == [f"w′ = {task}" for task in tasks]
    for axes in figure.axes[: len(tasks)]:
        assert labels(axes) == MAIN | POLICIES
    shown = in_legend(figure)
    assert set(shown) == MAIN | POLICIES
    assert shown[-2:] == ["oracle", "random"]


def test_curves_show_returns_over_millions_of_frames(summary):
    figure = room_results.zero_shot_curves(summary, YARDSTICK, "room-hard")
    curve = line(figure.axes[0], "USFA, C = M")
    assert curve.get_xdata().tolist() == [0, 4]
    assert curve.get_ydata().tolist() == pytest.approx([1, 1 + 0.6 * 99])  # random 1, oracle 100
    assert "millions" in figure.axes[-1].get_xlabel()
    assert max(figure.axes[0].get_xticks()) == 4
    assert line(figure.axes[0], "oracle").get_ydata()[0] == 100
    assert line(figure.axes[0], "random").get_ydata()[0] == 1


def test_the_last_snapshot_has_its_interval_on_the_right(summary):
    axes = room_results.zero_shot_curves(summary, YARDSTICK, "room-hard").axes[0]
    assert len(axes.containers) == len(MAIN)
    segments = axes.containers[1].lines[2][0].get_segments()[0]
    assert segments[:, 0].min() > 4
    assert segments[:, 1].tolist() == pytest.approx([1 + 0.58 * 99, 1 + 0.62 * 99])  # the range of three runs


def test_sigma_shows_both_usfas_with_different_lines(summary):
    figure = room_results.sigma_comparison(summary, YARDSTICK)
    assert titles(figure) == [f"w′ = {task}" for task in HARD]
    assert (
        labels(figure.axes[0]) == {method(*key).label for key in (*room_results.USFA, *room_results.BROAD)} | POLICIES
    )
    styles = [line(figure.axes[0], f"USFA{sigma}, C = M").get_linestyle() for sigma in ("", " σ = 0.5")]
    assert styles == ["-", "--"]


def test_training_set_begins_with_the_learning_curve_of_task_1000(summary):
    figure = room_results.training_set_comparison(room_tables.training(), summary, YARDSTICK)
    assert titles(figure) == ["training task 1000", *(f"w′ = {task}" for task in HARD)]
    assert labels(figure.axes[0]) - POLICIES == {"while training on 4 tasks", "while training on 8 tasks"}
    assert (
        labels(figure.axes[1]) == {method(*key).label for key in (*room_results.USFA, *room_results.LARGE)} | POLICIES
    )


def test_learning_curves_average_runs_that_log_at_different_frames():
    figure = room_results.learning_curves(room_tables.training(), YARDSTICK)
    assert titles(figure) == [f"training task {task}" for task in ("1000", "0100", "0010", "0001")]
    for axes in figure.axes:
        assert labels(axes) == {look.label for look in room_results.AGENTS.values()} | POLICIES
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


def test_an_oracle_far_above_is_written_not_drawn():
    weak = summary_with(levels={("usfa", "train"): 0.1})
    axes = room_results.zero_shot_curves(weak, YARDSTICK, "room-hard").axes[0]
    assert labels(axes) == {"USFA, C = M", "random"}
    assert [text.get_text() for text in axes.texts] == ["oracle 100 ↑"]
    assert axes.get_ylim()[1] < 30
    overview = room_results.overview(weak).axes[0]
    assert overview.get_xlim()[1] < 0.5


# --- holes ---


def test_missing_agents_are_left_out(one_run):
    figure = room_results.zero_shot_curves(one_run, YARDSTICK, "room-easy")
    present = {method(*key).label for key in (*room_results.USFA, ("uvfa", "task"))}
    assert labels(figure.axes[0]) == present | POLICIES
    assert not figure.axes[0].containers  # one run has no interval
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
    assert in_legend(figures["learning_curves"]) == ["oracle", "random"]
    assert in_legend(figures["sigma"]) == ["oracle", "random"]


# --- what figures are ---


def test_a_table_gives_the_same_bytes_twice_and_is_left_alone(summary, tmp_path):
    before = summary.copy()
    for name in ("one.png", "two.png"):
        save(room_results.overview(summary), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    pd.testing.assert_frame_equal(summary, before)


def test_methods_of_one_figure_differ_in_colour_and_marker():
    for keys in (
        (*room_results.USFA, *room_results.BASELINES),
        (*room_results.USFA, *room_results.BROAD),
        (*room_results.USFA, *room_results.LARGE),
    ):
        looks = [METHODS[key] for key in keys]
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

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from usfa.figures import fronts, save
from usfa.tasks import simplex_lattice, spread_over_simplex

NAN = float("nan")


def front_of(w, values, optimal=NAN):
    w, values = np.asarray(w, dtype=np.float64), np.asarray(values, dtype=np.float64)
    dominated = [((values >= v).all(axis=1) & (values > v).any(axis=1)).any() for v in values]
    columns = {f"w{d + 1}": w[:, d] for d in range(w.shape[1])}
    columns |= {f"value{d + 1}": values[:, d] for d in range(w.shape[1])}
    utility = (w * values).sum(axis=1)
    return pd.DataFrame(
        {
            **columns,
            "utility": utility,
            "optimal": optimal,
            "nondominated": np.logical_not(dominated),
            "candidates": "task",
            "rule": "cautious:0.5",
            "gamma": 0.99,
            "episodes": 5,
        }
    )


def known_of(values, supported=True):
    values = np.asarray(values, dtype=np.float64)
    return pd.DataFrame({f"value{d + 1}": values[:, d] for d in range(values.shape[1])}).assign(supported=supported)


def indicators(known=5.5634, reference="0,-50"):
    rows = [("expected utility", -1.5, 4.0, known, ""), ("hypervolume", NAN, 812.3, known, reference)]
    return pd.DataFrame(rows, columns=["indicator", "agent", "best_of_set", "known", "reference"])


def some_front(features, count=30, best=2.0):
    """Random values for even preferences, some of them twice."""
    rng = np.random.default_rng(0)
    w, values = spread_over_simplex(count, features), rng.uniform(-1, 1, (count, features))
    values[::3] = values[0]
    return front_of(w, values, best)


def some_known(features):
    points = known_of(1 + np.eye(features))
    return points.assign(supported=[True] * (features - 1) + [False])


def drawn(features, known=True, count=30):
    return fronts.all_figures(some_front(features, count), some_known(features) if known else None, indicators())


# --- every figure ---


@pytest.mark.parametrize("known", [True, False], ids=["known", "not known"])
@pytest.mark.parametrize(("features", "names"), [(2, ["front", "utility"]), (3, ["front", "utility"]), (6, ["front"])])
def test_tables_give_figures_and_the_same_bytes_twice(features, names, known, tmp_path):
    figures = drawn(features, known)
    assert list(figures) == names
    for name, figure in figures.items():
        assert isinstance(figure, Figure)
        save(figure, tmp_path / "one.png")
        save(drawn(features, known)[name], tmp_path / "two.png")
        content = (tmp_path / "one.png").read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        assert len(content) > 10_000
        assert content == (tmp_path / "two.png").read_bytes()


@pytest.mark.parametrize("features", [2, 3, 4])
def test_captions_say_what_the_figure_depends_on(features):
    for figure in drawn(features).values():
        caption = " ".join(figure.get_supxlabel().splitlines())
        settings = "γ = 0.99, 30 preferences, 5 episodes each, C = task, rule cautious:0.5"
        results = "expected utility −1.5 of 5.563, hypervolume 812.3 of 5.563 with reference (0, −50)"
        assert caption == f"{settings} {results}"


def test_captions_leave_out_what_is_not_there():
    front = some_front(2).assign(episodes=1)
    caption = fronts.all_figures(front, None, indicators(NAN, ""))["front"].get_supxlabel()
    settings = "γ = 0.99, 30 preferences, 1 episode each, C = task, rule cautious:0.5"
    assert caption.splitlines() == [settings, "expected utility −1.5"]


@pytest.mark.parametrize("features", [2, 3, 5])
def test_one_value_for_everyone_can_be_drawn(features, tmp_path):
    """Warnings are errors here: no axis may be without length."""
    w = spread_over_simplex(10, features)
    for known in (None, known_of(np.ones((1, features)))):
        figures = fronts.all_figures(front_of(w, np.ones_like(w), 1.0), known, indicators())
        for name, figure in figures.items():
            save(figure, tmp_path / f"{name}.png")


def test_tables_are_left_alone():
    front, before = some_front(3), some_front(3)
    fronts.all_figures(front, some_known(3), indicators())
    pd.testing.assert_frame_equal(front, before)


def test_utility_is_drawn_over_the_simplex_only():
    for w in ([[1, 0], [0.5, 0.6], [0, 1]], [[1, 0], [2, -1], [0, 1]], [[1, 0], [0, 1]]):
        assert list(fronts.all_figures(front_of(w, np.eye(2)[[0] * (len(w) - 1) + [1]]), None, indicators())) == [
            "front"
        ]


# --- what they show ---


def offsets(axes):
    """The points of every scatter plot by its label."""
    return {
        dots.get_label(): np.asarray(dots.get_offsets()).tolist()
        for dots in axes.collections
        if dots.get_label()[0] != "_"
    }


def test_the_front_in_two_dimensions():
    w = [[1, 0], [0.6, 0.4], [0.4, 0.6], [0, 1]]
    front = front_of(w, [[3, 1], [3, 1], [0, 0], [1, 2]])
    known = known_of([[1, 3], [2, 2], [4, 1]], [True, False, True])
    figure = fronts.front_2d(front, known, indicators(reference=""), ("treasure", "time"))
    (axes,) = figure.axes
    assert offsets(axes) == {
        "known front, 3 points": [[1, 3], [4, 1]],
        "of these, best for no w": [[2, 2]],
        "agent, 2 points": [[3, 1], [1, 2]],
        "agent, 1 dominated": [[0, 0]],
    }
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("treasure", "time")
    left, bottom = axes.get_xlim()[0], axes.get_ylim()[0]
    border = axes.get_lines()[-1]
    assert list(zip(*border.get_data(), strict=True)) == [(left, 2), (1, 1), (3, bottom)]
    assert border.get_drawstyle() == "steps-post"
    sizes = {dots.get_label(): dots.get_sizes() for dots in axes.collections}["agent, 2 points"]
    assert sorted(sizes) == [8 + 110 / 4, 8 + 110 / 2]  # two preferences lead to (3, 1)


def test_the_region_of_the_hypervolume_begins_at_the_reference():
    front = front_of([[1, 0], [0.5, 0.5], [0, 1]], [[3, 1], [1, 2], [-1, 4]])  # the last is behind the reference
    figure = fronts.front_2d(front, None, indicators(reference="0,-5"), ("treasure", "time"))
    (axes,) = figure.axes
    assert offsets(axes)["reference point"] == [[0, -5]]
    assert list(zip(*axes.get_lines()[-1].get_data(), strict=True)) == [(0, 2), (1, 1), (3, -5)]
    region = axes.collections[-1].get_paths()[0].vertices
    assert region.min(axis=0).tolist() == [0, -5]
    assert region.max(axis=0).tolist() == [3, 2]
    assert axes.get_ylim()[0] < -5


def test_three_sides_of_the_front_in_space():
    front = front_of(np.eye(3), [[1, 2, 3], [3, 2, 1], [0, 0, 0]])
    figure = fronts.front_3d(front, None, indicators(), ("x", "y", "z"))
    space, *sides = figure.axes
    assert space.name == "3d"
    assert [(axes.get_xlabel(), axes.get_ylabel()) for axes in sides] == [("x", "y"), ("x", "z"), ("y", "z")]
    assert [offsets(axes)["agent, 2 points"] for axes in sides] == [
        [[1, 2], [3, 2]], [[1, 3], [3, 1]], [[2, 3], [2, 1]],
    ]  # fmt: skip


def test_parallel_lines_have_the_colour_of_the_largest_weight():
    values = np.array([[4, 0, 1, 0], [0, 8, 0, 1.0], [0, 0, 0, 0]])
    front = front_of(np.eye(4)[[0, 1, 2]], values)
    known = known_of([[2, 4, 2, 2]])
    figure = fronts.parallel_coordinates(front, known, indicators(), tuple("abcd"))
    (axes,) = figure.axes
    background, first, second, *axis_lines = axes.get_lines()
    assert background.get_ydata().tolist() == [0.5, 0.5, 1, 1]
    assert first.get_ydata().tolist() == [1, 0, 0.5, 0]
    assert second.get_ydata().tolist() == [0, 1, 0, 0.5]
    assert [to_hex(line.get_color()).upper() for line in (first, second)] == list(fronts.OBJECTIVES[:2])
    assert len(axis_lines) == 4
    assert [text.get_text() for text in axes.texts] == ["0", "4", "0", "8", "0", "2", "0", "2"]
    assert [label.get_text() for label in axes.get_xticklabels()] == list("abcd")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b", "known front, 1 points"]
    assert legend.get_title().get_text() == "agent, 2 points; largest weight on"


def test_more_objectives_than_hues_can_be_drawn():
    front = front_of(np.eye(12), np.eye(12))
    figure = fronts.all_figures(front, None, indicators())["front"]
    assert len(figure.axes[0].get_lines()) == 24


def test_utility_over_the_weight_of_the_first_objective():
    w = [[1, 0], [0.5, 0.5], [0, 1]]
    front = front_of(w, [[2, 0], [0, 1], [0, 2]], [3, 2, 2])
    (axes,) = fronts.utility_line(front, indicators(), ("a", "b")).axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert {name: line.get_ydata().tolist() for name, line in lines.items()} == {
        "best of all its policies": [2, 1, 2],
        "agent, asked for w": [2, 0.5, 2],
        "known optimum": [2, 2, 3],
    }
    assert lines["known optimum"].get_xdata().tolist() == [0, 0.5, 1]
    assert axes.get_xlabel() == "weight of a (the rest: b)"
    (alone,) = fronts.utility_line(front.assign(optimal=NAN), indicators(), ("a", "b")).axes
    assert len(alone.get_lines()) == 2


def test_maps_have_an_objective_in_each_corner():
    w = simplex_lattice(4, 3)
    front = front_of(w, np.tile([1.0, 2.0, 3.0], (len(w), 1)), (w @ [1, 2, 3]) + w[:, 0])
    figure = fronts.utility_maps(front, indicators(), ("left", "right", "top"))
    utility, loss = (axes for axes in figure.axes if axes.get_images())
    (picture,) = (image.get_array() for image in utility.get_images())
    assert [picture[0, 0], picture[0, -1], picture[-1, 200]] == [1, 2, 3]
    (lost,) = (image.get_array() for image in loss.get_images())
    assert lost[0, 0] == 1
    assert lost[0, -1] == pytest.approx(0)
    assert loss.get_images()[0].get_clim()[0] == 0
    places = {text.get_text(): text.get_position() for text in utility.texts}
    assert places["left"][0] < places["top"][0] < places["right"][0]
    assert places["top"][1] > places["left"][1]
    unknown = fronts.utility_maps(front.assign(optimal=NAN), indicators(), ("left", "right", "top"))
    assert len([axes for axes in unknown.axes if axes.get_images()]) == 1


def test_pixels_have_the_colour_of_the_nearest_preference():
    w = spread_over_simplex(40, 3)
    nearest = fronts._nearest_preference(w)
    centres = w @ fronts.TRIANGLE
    rows, columns = (
        np.rint(centres[:, 1] / fronts.TRIANGLE[2, 1] * 346).astype(int),
        np.rint(centres[:, 0] * 400).astype(int),
    )
    assert nearest[rows, columns].tolist() == list(range(40))


def test_fronts_are_drawn_without_torch_and_without_a_screen():
    code = (
        "import sys, types; package = types.ModuleType('usfa'); import importlib.util as u; "
        "package.__path__ = u.find_spec('usfa').submodule_search_locations; sys.modules['usfa'] = package; "
        "import usfa.figures.fronts; "
        "print('torch' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False"]

"""Figures are functions of tables: hand-made tables go in, figures come out."""

import itertools
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from usfa.errors import InputError
from usfa.figures import one_state, save, save_all, style, trip
from usfa.figures.learning import learning_curves
from usfa.figures.style import METHODS, PAGE, label_ends, method, spread, styled

AXIS = np.linspace(0, 1, 4)


def curves(snapshots=(0, 10, 20)):
    rows = []
    for (agent, candidates), tasks in itertools.product(trip.CURVES, ("trip-directions", "trip-diagonal")):
        for snapshot in (0,) if agent == "sf-gpi-exact" else snapshots:
            mean = 0.3 / (1 + snapshot)
            rows.append((agent, candidates, tasks, snapshot, mean, mean / 2, mean * 2))
    return pd.DataFrame(rows, columns=["agent", "candidates", "task_set", "snapshot", "mean", "low", "high"])


def maps():
    rows = [
        (agent, candidates, w1, w2, w1 + w2 - 0.1 * index, w1 + w2)
        for index, (agent, candidates) in enumerate(trip.MAPS)
        for w1, w2 in itertools.product(AXIS, AXIS)
    ]
    return pd.DataFrame(rows, columns=["agent", "candidates", "w1", "w2", "score", "optimal"])


def diagonal_scores(seeds=(0, 1)):
    rows = [
        (agent, candidates, seed, w1, 0.1 * w1 + 0.01 * seed)
        for agent, candidates in trip.CURVES
        for seed in ((0,) if agent == "sf-gpi-exact" else seeds)
        for w1 in AXIS
    ]
    return pd.DataFrame(rows, columns=["agent", "candidates", "seed", "w1", "gap"])


def bounds():
    rows = [
        (candidates, w1, w2, 0.2, 0.3, 0.5, 0.1)
        for candidates in ("train", "task")
        for w1, w2 in itertools.product(AXIS, AXIS)
    ]
    return pd.DataFrame(rows, columns=["candidates", "w1", "w2", "distance", "approximation", "total", "gap"])


def one_state_tables(seeds=(0, 1)):
    w = np.array([-2.0, -0.2, 0.0, 1.0, 2.0])
    values = [pd.DataFrame({"seed": s, "w": w, "optimal": w.clip(0), "uvfa": w / 2 + 0.1 * s}) for s in seeds]
    evaluations = pd.DataFrame({"z": [2.0, 1.0, -1.0], "value": [-0.2, -0.2, 0.0], "trusted": [False, False, True]})
    return pd.concat(values, ignore_index=True), evaluations


def returns_table():
    names = ("UVFA", "USFA, C = {w′}", "USFA, C = M")
    rows = [(name, seed, w, w, abs(w)) for name in names for seed in (0, 1) for w in (-1.0, 0.0, 1.0)]
    return pd.DataFrame(rows, columns=["method", "seed", "w", "score", "optimal"])


FIGURES = {
    "overview": lambda: trip.overview(curves(), 6, 0.05),
    "performance_maps": lambda: trip.performance_maps(maps()),
    "gap_maps": lambda: trip.gap_maps(maps()),
    "diagonal": lambda: trip.diagonal(curves(), diagonal_scores()),
    "diagonal of one seed": lambda: trip.diagonal(curves(), diagonal_scores((0,))),
    "bound_maps": lambda: trip.bound_maps(bounds(), ("train", "task")),
    "generalisation": lambda: one_state.generalisation(*one_state_tables(), -0.2),
    "generalisation of one seed": lambda: one_state.generalisation(*one_state_tables((0,)), -0.2),
    "returns": lambda: one_state.returns(returns_table()),
}


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_a_table_gives_a_figure_and_the_same_bytes_twice(draw, tmp_path):
    for name in ("one.png", "two.png"):
        figure = draw()
        assert isinstance(figure, Figure)
        assert figure.axes
        save(figure, tmp_path / name)
    content = (tmp_path / "one.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(content) > 10_000
    assert content == (tmp_path / "two.png").read_bytes()


def test_saved_figures_have_the_resolution_of_the_style_also_outside_its_context(tmp_path, monkeypatch):
    """A figure of 3 × 2 inches at 250 dpi; the context of drawing has ended when it is saved."""
    monkeypatch.undo()  # of the fewer pixels
    assert style.DPI == 250
    with styled():
        figure = Figure(figsize=(3, 2))
        figure.subplots().plot([0, 1])
    save(figure, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        width, height = picture.size
    assert width == pytest.approx(250 * 3, rel=0.2)  # margins are cut
    assert height == pytest.approx(250 * 2, rel=0.2)


def test_figures_are_also_vectors_with_the_same_bytes_twice(tmp_path):
    for folder in ("one", "two"):
        save_all({"gap": trip.overview(curves(), 6, 0.05)}, tmp_path / folder, ("pdf", "svg"))
    for name, start in (("gap.pdf", b"%PDF-"), ("gap.svg", b"<?xml")):
        content = (tmp_path / "one" / name).read_bytes()
        assert content.startswith(start)
        assert content == (tmp_path / "two" / name).read_bytes()
    with pytest.raises(InputError, match=r"ends in '\.jpg'; expected one of png, pdf, svg"):
        save(trip.overview(curves(), 6, 0.05), tmp_path / "gap.jpg")


def test_every_text_is_readable_at_the_size_of_a_paper():
    """No figure is wider than a page, and no text is smaller than 7 points."""
    for name, draw in FIGURES.items():
        figure = draw()
        assert figure.get_size_inches()[0] <= style.PAGE, name
        shown = [text for text in figure.findobj(Text) if text.get_text()]
        assert min(text.get_fontsize() for text in shown) >= 7, name


def test_labels_at_the_ends_of_lines_do_not_overlap_and_keep_their_order():
    assert spread([0.1, 0.9], 0.1) == [0.1, 0.9]
    assert spread([0.5, 0.5, 0.9], 0.1) == pytest.approx([0.45, 0.55, 0.9])
    assert spread([0.52, 0.5, 0.58], 0.1) == pytest.approx([0.1 * 16 / 3, 0.1 * 13 / 3, 0.1 * 19 / 3])
    assert spread([0.0, 0.0], 0.1) == pytest.approx([0.0, 0.1])  # never below the axes
    axes = Figure().subplots()
    axes.set_ylim(10, 20)
    label_ends(axes, [(11, "low", "red"), (19, "high", "blue"), (25, "beyond", "green")])
    places = {text.get_text(): text.get_position()[1] for text in axes.texts}
    assert places["low"] == pytest.approx(0.1)
    assert places["high"] == pytest.approx(0.9)
    assert places["beyond"] == pytest.approx(1.0)


def test_tables_are_left_alone():
    table, before = maps(), maps()
    trip.gap_maps(table)
    trip.performance_maps(table)
    pd.testing.assert_frame_equal(table, before)


def test_curves_show_their_numbers():
    axes = trip.overview(curves(), 6, 0.05).axes[1]
    lines = {line.get_label(): line for line in axes.get_lines() if line.get_label() != "_leader"}
    assert set(lines) == {METHODS[chosen].label for chosen in trip.CURVES}
    gaps = [0.3 if chosen == style.EXACT else 0.3 / 21 for chosen in trip.CURVES]
    named = [f"{METHODS[chosen].label}  {gap:.4f}" for chosen, gap in zip(trip.CURVES, gaps, strict=True)]
    assert [text.get_text() for text in axes.texts] == named
    usfa = lines[method("usfa", "task").label]
    assert usfa.get_xdata().tolist() == [0, 10, 20]
    assert usfa.get_ydata().tolist() == pytest.approx([0.3, 0.3 / 11, 0.3 / 21])


def test_maps_show_w1_to_the_right_and_w2_upwards():
    """Element (row, column) of the image is (w2, w1), and the origin is below."""
    axes = trip.performance_maps(maps().assign(score=lambda t: t.w1 * 2, optimal=lambda t: t.w2)).axes
    image = axes[1].get_images()[0]
    assert image.origin == "lower"
    np.testing.assert_allclose(image.get_array(), np.broadcast_to(2 * AXIS, (4, 4)))
    np.testing.assert_allclose(axes[0].get_images()[0].get_array(), np.broadcast_to(AXIS[:, None], (4, 4)))


def test_methods_look_different():
    assert len({look.colour for look in METHODS.values()}) == len(METHODS)
    assert len({look.label for look in METHODS.values()}) == len(METHODS)
    assert method("mine", "train").label == "mine, C = train"


def test_figures_are_drawn_without_torch_and_without_a_screen():
    code = (
        "import sys, types; package = types.ModuleType('usfa'); import importlib.util as u; "
        "package.__path__ = u.find_spec('usfa').submodule_search_locations; sys.modules['usfa'] = package; "
        "import usfa.figures.trip, usfa.figures.one_state; "
        "print('torch' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(("sets", "shape"), [(1, (1, 1)), (3, (1, 3)), (4, (2, 3))])
def test_learning_curves_fit_a_page_and_write_the_last_values(sets, shape):
    rows = [
        (label, f"set-{number}", frames, mean, mean - 0.1, mean + 0.1)
        for label, mean in (("runs/a", 0.25), ("runs/b", 0.5))
        for number in range(sets)
        for frames in (0, 100)
    ]
    table = pd.DataFrame(rows, columns=["label", "task_set", "frames", "mean", "low", "high"])
    figure = learning_curves(table)
    assert figure.get_size_inches()[0] <= PAGE
    assert len(figure.axes) == sets
    assert figure.axes[0].get_subplotspec().get_gridspec().get_geometry() == shape
    for axes in figure.axes:
        assert [text.get_text() for text in axes.texts] == ["0.250", "0.500"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["runs/a", "runs/b"]

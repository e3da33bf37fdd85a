"""Figures are functions of tables: hand-made tables go in, figures come out."""

import itertools
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from usfa.figures import one_state, save, trip
from usfa.figures.style import METHODS, method

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


def test_tables_are_left_alone():
    table, before = maps(), maps()
    trip.gap_maps(table)
    trip.performance_maps(table)
    pd.testing.assert_frame_equal(table, before)


def test_curves_show_their_numbers():
    lines = {line.get_label(): line for line in trip.overview(curves(), 6, 0.05).axes[1].get_lines()}
    assert set(lines) == {METHODS[chosen].label for chosen in trip.CURVES}
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

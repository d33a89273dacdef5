"""Pictures of sweeps and laws: which axes they have, and labels that do not overlap."""

import itertools
import math

import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from txjax.report.log_axis import label_log_axis
from txjax.report.sweep_plots import parallel, per_axis
from txjax.report.sweep_table import Group
from txjax.report.theme import LIGHT

LR, DECAY = "optimizer.peak_lr", "optimizer.weight_decay"
LOSS = "eval/valid/loss"


def groups(settings: list[dict]) -> list[Group]:
    """A group for each setting, best first."""
    return [Group([], values, 1.0 + number, math.nan, 1) for number, values in enumerate(settings)]


def labels(figure: Figure) -> list[list[str]]:
    """The visible labels of the x axis of each panel, which must not overlap."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return [_separate(axes) for axes in figure.axes]


def _separate(axes: Axes) -> list[str]:
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticklabels() if low <= tick.get_position()[0] <= high and tick.get_text()]
    boxes = [tick.get_window_extent() for tick in ticks]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes)), [tick.get_text() for tick in ticks]
    return [tick.get_text() for tick in ticks]


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (6728, 228000, ["1e4", "3e4", "1e5"]),
        (4e-3, 1.4e-2, ["0.005", "0.007", "0.01"]),
        (1.1e4, 1.3e4, ["1.1e4", "1.15e4", "1.2e4", "1.25e4", "1.3e4"]),
        (1e11, 1.1e12, ["1e11", "2e11", "5e11", "1e12"]),
        (1e18, 1e22, ["1e18", "1e19", "1e20", "1e21", "1e22"]),
    ],
)
def test_labels_of_logarithmic_axes(low, high, texts):
    """Few round numbers, also over one or two decades, in a panel of three inches."""
    figure = Figure(figsize=(3, 2))
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    label_log_axis(axes.xaxis)
    assert labels(figure) == [texts]


def test_axes_of_a_sweep():
    """Values of a grid, round numbers of samples, and long names of components in lines."""
    rates = [1e-3, 2e-3, 3e-3, 5e-3, 7e-3, 1e-2]
    assert labels(per_axis(groups([{LR: rate} for rate in rates]), LOSS, LIGHT)) == [
        ["0.001", "0.002", "0.003", "0.005", "0.007", "0.01"]
    ]
    samples = [{LR: 0.0002092 * 1.5**n, DECAY: (7 * n % 16) / 53} for n in range(16)]
    rate, decay = labels(per_axis(groups(samples), LOSS, LIGHT))
    assert rate == ["0.0005", "0.002", "0.005", "0.02", "0.05"] and decay == ["0", "0.06", "0.12", "0.18", "0.24"]
    kinds = ["Attention(window=128, kernel='splash')", "LinearAttention(features=elu)"]
    (names,) = labels(per_axis(groups([{"model.mixer": kind} for kind in kinds]), LOSS, LIGHT))
    assert names == ["Attention(window=128,\nkernel='splash')", "LinearAttention(\nfeatures=elu)"]


def test_many_words_are_all_written():
    names = [f"an_arm_of_a_study_{number}" for number in range(12)]
    assert labels(per_axis(groups([{"variant": name} for name in names]), LOSS, LIGHT)) == [sorted(names)]


def test_a_line_joins_the_best_of_shared_values_alone():
    """Samples have no second point at a value, so that a line would join single points."""
    shared = groups([{LR: rate, DECAY: decay} for decay in (0, 0.1) for rate in (1e-3, 1e-2)])
    samples = groups([{LR: 0.001 * n, DECAY: (7 * n % 16) / 53} for n in range(1, 9)])
    color = LIGHT.lines[1]
    for made, lines in ((shared, 1), (samples, 0)):
        panels = per_axis(made, LOSS, LIGHT).axes
        assert [sum(line.get_color() == color for line in axes.get_lines()) for axes in panels] == [lines, lines]


def test_parallel_coordinates_leave_out_derived_axes():
    """Heads and rates follow from the width; the checkpoints' steps from the steps. What is left has short names."""
    settings = [
        {"model.width": 16 * n, "model.heads": n, LR: 0.1 / n, "num_steps": steps, "evals.valid.every_steps": steps}
        for n in (1, 2, 3)
        for steps in (100, 200)
    ]
    assert labels(parallel(groups(settings), LOSS, LIGHT)) == [["width", "num_steps", LOSS]]
    samples = [{LR: 0.001 * n, DECAY: (7 * n % 16) / 53, "model.kind": "ab"[n % 2]} for n in range(1, 9)]
    assert labels(parallel(groups(samples), LOSS, LIGHT)) == [["peak_lr", "weight_decay", "kind", LOSS]]

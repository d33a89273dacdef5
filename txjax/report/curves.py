"""Draws the curves of runs as a picture: a grid of panels, labels at the ends of lines."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from txjax.numbers import compact
from txjax.report.panels import Line, Panel, run_panels
from txjax.report.png import DPI
from txjax.report.runs import Run
from txjax.report.theme import WORDS, Theme, style_axes

NICE = [1, 2, 2.5, 5, 10]  # steps between ticks
TITLE = 0.3  # inches of the line with the names of the runs
NAMED = 4  # runs whose names are in that line; of more it has the number


@rc_context(WORDS)
def draw(runs: Sequence[Run], theme: Theme) -> Figure:
    """The figure: the names of the runs, the panel of the loss, the others in rows below it."""
    loss, *small = run_panels(runs, theme)
    columns = 2 if len(small) in (2, 4) else 3
    rows = math.ceil(len(small) / columns)
    inches = [loss.inches, *(small[i * columns].inches for i in range(rows))]
    layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.12)
    figure = Figure(figsize=(12, sum(inches) + TITLE), dpi=DPI, facecolor=theme.paper, layout=layout)
    names = " · ".join(run.name for run in runs) if len(runs) <= NAMED else f"{len(runs)} runs"
    figure.suptitle(names, x=0.015, ha="left", fontsize=11, color=theme.faint)
    grid = figure.add_gridspec(1 + rows, columns, height_ratios=inches)
    _draw_panel(loss, figure.add_subplot(grid[0, :]), theme)
    for i, panel in enumerate(small):
        _draw_panel(panel, figure.add_subplot(grid[1 + i // columns, i % columns]), theme)
    return figure


def _draw_panel(panel: Panel, axes: Axes, theme: Theme) -> None:
    title = f"{panel.title}  (thick: evaluation, thin: training)" if panel.crowded else panel.title
    style_axes(axes, theme, title)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=NICE))
    axes.yaxis.set_major_locator(MaxNLocator(6 if panel.inches > 3 else 4, steps=NICE))
    axes.xaxis.set_major_formatter(lambda step, _: compact(step))
    axes.yaxis.set_major_formatter(lambda value, _: compact(value))
    axes.set_xlabel("step", fontsize=9, color=theme.faint)
    for line in sorted(panel.lines, key=lambda line: line.measured):
        _draw_line(panel, axes, line, theme)
    axes.margins(x=0.01)
    if panel.bottom is not None:
        axes.set_ylim(bottom=panel.bottom)
    labelled = [line for line in panel.lines if line.label is not None and (line.measured or not panel.crowded)]
    _label_ends(axes, labelled, panel.inches)


def _draw_line(panel: Panel, axes: Axes, line: Line, theme: Theme) -> None:
    style: dict[str, Any] = {"color": line.color, "solid_capstyle": "round"}
    if line.measured:
        marker = "o" if len(line.steps) <= 40 else ""
        axes.plot(line.steps, line.values, **style, lw=2.2, marker=marker, ms=5, mec=theme.paper, mew=1)
    elif (average := panel.average(line)) is not None:
        width, opacity = (0.9, 0.7) if panel.crowded else (1.6, 1)
        axes.plot(line.steps, line.values, **style, lw=0.7, alpha=0.25)
        axes.plot(line.steps, average, **style, lw=width, alpha=opacity)
    else:
        axes.plot(line.steps, line.values, **style, lw=1.6, marker="o" if len(line.steps) == 1 else "")


def _label_ends(axes: Axes, lines: Sequence[Line], inches: float) -> None:
    """Writes each line's label and last value beside its end, shifted so that they do not overlap."""
    low, high = axes.get_ylim()
    at = [(line.values[-1] - low) / (high - low) for line in lines]
    order = sorted(range(len(lines)), key=lambda i: at[i])
    for below, above in zip(order, order[1:], strict=False):
        at[above] = max(at[above], at[below] + 0.21 / inches)
    down = max(max(at, default=0.0) - 1.0, 0.0)
    for y, line in zip(at, lines, strict=True):
        text = f"{line.label} {compact(line.values[-1])}".strip()
        axes.text(1.015, y - down, text, transform=axes.transAxes, color=line.color, fontsize=9, va="center")

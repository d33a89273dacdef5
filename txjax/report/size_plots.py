"""Plots over the width: the coordinate check, and the best learning rates."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from txjax.mup.coordinate_check import Check, Coordinates
from txjax.mup.lr_transfer import Point, Transfer, average_seeds
from txjax.report.log_axis import label_log_axis
from txjax.report.theme import Theme, style_axes

LABELLED = 4  # number of labelled lines in a panel, the steepest


def draw_coordinates(checks: Mapping[str, tuple[Sequence[Coordinates], Check]], output: str, theme: Theme) -> Figure:
    """Plots sizes (top) and changes (bottom) of every module over the width after the last update, a column a check."""
    figure = Figure(figsize=(1.5 + 5.2 * len(checks), 7.4), dpi=110, facecolor=theme.paper, layout="constrained")
    panels = figure.subplots(2, len(checks), squeeze=False, sharey="row")
    for column, (label, (rows, check)) in enumerate(checks.items()):
        last = max(row.step for row in rows)
        for panel, name in zip(panels[:, column], ("size", "change"), strict=True):
            style_axes(panel, theme, f"{label}: {name} after {last} updates", 10)
            _modules(panel, [row for row in rows if row.step == last], name, check, output, theme)
        panels[1, column].set_xlabel("width", fontsize=9, color=theme.faint)
    for panel, name in zip(panels[:, 0], ("mean |activation|", "mean |activation - first|"), strict=True):
        panel.set_ylabel(name, fontsize=9, color=theme.faint)
    return figure


def _modules(axes: Axes, rows: Sequence[Coordinates], name: str, check: Check, output: str, theme: Theme) -> None:
    widths = sorted({row.width for row in rows})
    slopes = {g.module: getattr(g, name) for g in check.growths}
    # Longer paths first: a module with the same output as its last submodule gets no second label.
    steep = sorted((m for m in slopes if slopes[m] and m != output), key=lambda m: (-slopes[m][0], -len(m)))
    named = {slopes[m]: m for m in reversed([output, *steep])}
    colors = dict(zip([m for m in (output, *steep) if m in named.values()][:LABELLED], theme.lines, strict=False))
    for module in dict.fromkeys(row.module for row in rows):
        samples = [[getattr(row, name) for row in rows if (row.module, row.width) == (module, w)] for w in widths]
        values = [float(np.mean(norms)) for norms in samples]
        if min(values) <= 0 or not np.isfinite(values).all():
            continue
        if module not in colors:
            axes.plot(widths, values, color=theme.faint, lw=0.8, alpha=0.45)
            continue
        label = f"{module} {slopes[module][0]:+.2f}" if slopes.get(module) else module
        axes.plot(widths, values, color=colors[module], lw=2, marker="o", ms=4, mec=theme.paper, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    label_log_axis(axes.yaxis)
    _widths(axes, widths)
    axes.margins(y=0.3)
    axes.legend(fontsize=8, frameon=False, labelcolor=theme.ink, loc="upper left")


def draw_transfer(points: Sequence[Point], transfer: Transfer, metric: str, theme: Theme) -> Figure:
    """Plots loss over learning rate, a line for each width, and the best rates over the width."""
    figure = Figure(figsize=(11, 4.4), dpi=110, facecolor=theme.paper, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1))
    style_axes(left, theme, f"{metric} over the learning rate", 10)
    style_axes(right, theme, "best learning rate over the width", 10)
    runs, _ = average_seeds(points)
    for color, optimum in zip(_shades(theme, len(transfer.optima)), transfer.optima, strict=True):
        measured = [p for p in runs if p.width == optimum.width]
        left.plot(
            [p.lr for p in measured],
            [p.loss for p in measured],
            color=color,
            lw=1.6,
            marker="o",
            ms=4,
            label=optimum.width,
        )
        if optimum.parabola:
            left.plot([optimum.lr], [optimum.loss], color=color, marker="*", ms=13, mec=theme.paper)
            right.plot([optimum.width], [optimum.lr], color=color, marker="*", ms=13, mec=theme.paper)
    left.set_xscale("log", base=2)
    left.set_xlabel("learning rate", fontsize=9, color=theme.faint)
    label_log_axis(left.xaxis)
    left.legend(title="width", fontsize=8, frameon=False, labelcolor=theme.ink)
    right.set_xscale("log", base=2)
    right.set_yscale("log", base=2)
    right.set_xlabel("width", fontsize=9, color=theme.faint)
    label_log_axis(right.yaxis)
    widths = sorted({p.width for p in points})
    _widths(right, widths)
    rates = sorted({p.lr for p in points})
    right.set_ylim(rates[0] / 1.2, rates[-1] * 1.2)
    if transfer.slope is not None:
        known = [o for o in transfer.optima if not o.edge]
        middle = [math.exp(np.mean([math.log(v) for v in values])) for values in _columns(known)]
        line = [middle[1] * (w / middle[0]) ** transfer.slope for w in widths]
        right.plot(widths, line, color=theme.faint, lw=1, ls="--")
    return figure


def _columns(optima: Sequence) -> tuple[list[float], list[float]]:
    return [o.width for o in optima], [o.lr for o in optima]


def _shades(theme: Theme, count: int) -> list[str]:
    return [theme.lines[i % len(theme.lines)] for i in range(count)]


def _widths(axes: Axes, widths: Sequence[int]) -> None:
    axes.set_xticks(list(widths), [str(width) for width in widths])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())

"""Plots of a sweep: a metric against each axis, parallel coordinates, and the curves of all points."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from txjax.report.axis_scale import Scale, wrap_label
from txjax.report.panels import Panel, line_of
from txjax.report.png import DPI
from txjax.report.sweep_axes import axes_of, independent_axes
from txjax.report.sweep_table import SEED, Group, Row
from txjax.report.theme import WORDS, Theme, shade, style_axes
from txjax.sweep.names import labels

BROAD = 24  # characters of a line of a label of parallel coordinates


@rc_context(WORDS)
def per_axis(groups: Sequence[Group], metric: str, theme: Theme, most: bool = False) -> Figure:
    """One panel for each axis: every mean with its standard error, and a line through the best at each shared value.

    Args:
      most: whether larger is better.
    """
    groups = [group for group in groups if math.isfinite(group.mean)]
    paths = axes_of(groups) or [SEED]
    columns = min(3, len(paths))
    rows = math.ceil(len(paths) / columns)
    figure = Figure(figsize=(4.2 * columns, 3.4 * rows), dpi=DPI, facecolor=theme.paper, layout=_layout())
    for i, path in enumerate(paths):
        axes = figure.add_subplot(rows, columns, i + 1)
        style_axes(axes, theme)
        scale = Scale([group.values.get(path) for group in groups])
        x = [scale(group.values.get(path)) for group in groups]
        y = [group.mean for group in groups]
        bars = [0.0 if math.isnan(group.error) else group.error for group in groups]
        axes.errorbar(x, y, yerr=bars, fmt="o", ms=4, alpha=0.55, color=theme.lines[0], elinewidth=1)
        pick = max if most else min
        best = {at: pick(value for other, value in zip(x, y, strict=True) if other == at) for at in sorted(set(x))}
        if len(paths) == 1 or len(best) <= len(x) / 2:  # a sampled axis has no best at each value
            axes.plot(list(best), list(best.values()), color=theme.lines[1], lw=1.8)
        scale.label(axes)
        axes.set_xlabel(path, fontsize=9, color=theme.faint)
        if i % columns == 0:
            axes.set_ylabel(metric, fontsize=9, color=theme.faint)
    return figure


@rc_context(WORDS)
def parallel(groups: Sequence[Group], metric: str, theme: Theme) -> Figure:
    """Parallel coordinates: a line for each mean over seeds, coloured by rank; the best are dark and on top.

    Args:
      groups: best first.
    """
    groups = [group for group in groups if math.isfinite(group.mean)]
    paths = independent_axes(groups)
    scales = [Scale([group.values.get(path) for group in groups]) for path in paths]
    means = [group.mean for group in groups]
    figure = Figure(figsize=(2.2 + 2.0 * (len(paths) + 1), 4.4), dpi=DPI, facecolor=theme.paper, layout=_layout())
    axes = figure.add_subplot()
    axes.set_facecolor(theme.paper)
    axes.spines[:].set_visible(False)
    axes.set_yticks([])
    last = Scale(means)
    for rank, group in reversed(list(enumerate(groups))):
        values = [scale.share(group.values.get(path)) for scale, path in zip(scales, paths, strict=True)]
        axes.plot(
            range(len(paths) + 1), [*values, last.share(group.mean)], color=shade(theme, rank, len(groups)), lw=1.6
        )
    behind = {"facecolor": theme.paper, "edgecolor": "none", "pad": 1.0, "alpha": 0.8}
    for i, scale in enumerate([*scales, last]):
        axes.axvline(i, color=theme.grid, lw=1.2, zorder=0)
        for text, share in scale.marks():
            axes.text(i + 0.03, share, wrap_label(text, BROAD), fontsize=8, color=theme.ink, va="center", bbox=behind)
    axes.set_xticks(range(len(paths) + 1), [*labels(paths).values(), metric], fontsize=9, color=theme.ink)
    axes.tick_params(length=0)
    axes.set_xlim(-0.1, len(paths) + 0.35)
    return figure


def sweep_panels(rows: Sequence[Row], metrics: Sequence[str], theme: Theme) -> list[Panel]:
    """One panel for each metric, with a line for every point that logged it, coloured by rank.

    Args:
      rows: best first.
    """
    panels = []
    for metric in metrics:
        colors = [shade(theme, rank, len(rows)) for rank in range(len(rows))]
        lines = [line_of(row.run, metric, color, row.name, None) for row, color in zip(rows, colors, strict=True)]
        lines = [line for line in lines if line.steps]
        low, high = np.percentile([value for line in lines for value in line.values], [0, 98])
        margin = (
            0.04 * (high - low) or 1.0
        )  # without the largest 2%, so that a diverged run does not flatten the others
        panels.append(Panel(metric, lines, 4.0, smooth=False, bottom=float(low - margin), top=float(high + margin)))
    return panels


@rc_context(WORDS)
def curves(panels: Sequence[Panel], theme: Theme) -> Figure:
    """The panels side by side; the best lines are on top."""
    figure = Figure(figsize=(6.0 * len(panels), panels[0].inches), dpi=DPI, facecolor=theme.paper, layout=_layout())
    for i, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), i + 1)
        style_axes(axes, theme, panel.title)
        for line in reversed(panel.lines):
            marker = "o" if len(line.steps) == 1 else ""
            axes.plot(line.steps, line.values, color=line.color, lw=1.4, marker=marker, ms=4)
        axes.set_ylim(panel.bottom, panel.top)
        axes.set_xlabel("step", fontsize=9, color=theme.faint)
    return figure


def _layout() -> ConstrainedLayoutEngine:
    return ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)

"""Plots the curves of runs: losses in a large panel, other metrics in small ones, labels at the ends of lines."""

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from txjax.numbers import compact
from txjax.report.png import DPI
from txjax.report.runs import Run

NICE = [1, 2, 2.5, 5, 10]  # steps between ticks
WORDS: dict[Any, Any] = {"text.parse_math": False}  # a `$` in a name starts no formula
TITLE = 0.3  # inches of the line with the names of the runs
LAYER_METRIC = re.compile(r"train/(?P<name>.+)/layer_(?P<layer>\d+)")
TASK_LOSS = re.compile(r"train/(?P<task>[^/]+)/loss")
NAMED = 4  # runs whose names are in that line; of more it has the number
SMOOTH_ABOVE = 150  # lines with more points also get a moving average


@dataclasses.dataclass(frozen=True)
class Theme:
    """Colours of background, text and lines, and matplotlib's colormap for ranks, best to worst."""

    paper: str
    ink: str
    faint: str
    grid: str
    lines: tuple[str, ...]
    ranks: str


LIGHT = Theme(
    "#ffffff",
    "#1f2933",
    "#6b7785",
    "#e6e9ee",
    ("#2563d9", "#e8590c", "#0b9a8d", "#9440c9", "#c98a00", "#d6336c", "#5c7a29", "#51606f"),
    "viridis",
)
DARK = Theme(
    "#171b21",
    "#e6eaf0",
    "#93a0b0",
    "#2b323c",
    ("#6ea8fe", "#ff9257", "#3fd0c0", "#c48cf0", "#f2c14e", "#ff7eb0", "#a9d06a", "#a8b5c4"),
    "viridis_r",
)


def style_axes(axes: Axes, theme: Theme, title: str = "", size: float = 11) -> None:
    """Applies the common style: a left-aligned title (of this font size), a pale grid, one spine."""
    axes.set_title(title, loc="left", fontsize=size, fontweight="bold", color=theme.ink, pad=10)
    axes.set_facecolor(theme.paper)
    axes.grid(color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(theme.faint)
    axes.tick_params(which="both", colors=theme.faint, labelsize=9, length=0, pad=6)


@dataclasses.dataclass(frozen=True)
class Line:
    """One metric of one run.

    Attributes:
      label: at its end, before the last value. If None, there is neither.
      measured: from an evaluation, which is not noisy.
    """

    steps: list[int]
    values: list[float]
    label: str | None
    color: str
    measured: bool = False


@rc_context(WORDS)
def draw(runs: Sequence[Run], theme: Theme) -> Figure:
    """The figure: names of runs, train and eval losses, more eval metrics, learning rate, gradient norm, throughput.

    Losses of several tasks and metrics of each layer (`nn.sow_aux`) are there for a single run.
    """
    speed = "tokens" if any("perf/tokens_per_s" in run.metrics() for run in runs) else "examples"
    loss = Panel("loss", _lines(runs, theme, "train/loss", "/loss"), inches=4.2)
    small = [
        Panel("loss by task", _task_lines(runs, theme)),
        *(Panel(name, _lines(runs, theme, f"train/{name}", f"/{name}")) for name in _scores(runs)),
        *(Panel(f"{name} by layer", lines) for name, lines in _layer_lines(runs, theme).items()),
        Panel("learning rate", _lines(runs, theme, "train/lr"), smooth=False),
        Panel("gradient norm", _lines(runs, theme, "train/grad_norm")),
        Panel(f"{speed} per second", _lines(runs, theme, f"perf/{speed}_per_s"), bottom=0.0),
    ]
    small = [panel for panel in small if panel.lines]
    columns = 2 if len(small) in (2, 4) else 3
    rows = math.ceil(len(small) / columns)
    inches = [loss.inches, *(small[i * columns].inches for i in range(rows))]
    layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.12)
    figure = Figure(figsize=(12, sum(inches) + TITLE), dpi=DPI, facecolor=theme.paper, layout=layout)
    names = " · ".join(run.name for run in runs) if len(runs) <= NAMED else f"{len(runs)} runs"
    figure.suptitle(names, x=0.015, ha="left", fontsize=11, color=theme.faint)
    grid = figure.add_gridspec(1 + rows, columns, height_ratios=inches)
    loss.draw(figure.add_subplot(grid[0, :]), theme)
    for i, panel in enumerate(small):
        panel.draw(figure.add_subplot(grid[1 + i // columns, i % columns]), theme)
    return figure


def _scores(runs: Sequence[Run]) -> list[str]:
    """Names of eval metrics other than the loss and its duplicates."""
    names = {}
    for run in runs:
        for key in run.metrics():
            room, _, name = key.rpartition("/")
            if room.startswith("eval/") and name != "loss" and run.series(key) != run.series(f"{room}/loss"):
                names[name] = True
    return list(names)


def _lines(runs: Sequence[Run], theme: Theme, key: str, evals: str | None = None) -> list[Line]:
    """The lines of a metric and of the eval metrics that end in `evals`; colours are runs, or metrics of one run."""
    lines = []
    for i, run in enumerate(runs):
        measured = [k for k in run.metrics() if evals and k.startswith("eval/") and k.endswith(evals)]
        for j, name in enumerate(k for k in (key, *measured) if run.series(k)[0]):
            source = name.split("/")[1 if name in measured else 0] if evals else ""
            label = f"{run.name} {source}" if len(runs) > 1 else source
            color = theme.lines[(i if len(runs) > 1 else j) % len(theme.lines)]
            lines.append(Line(*run.series(name), label.strip(), color, measured=name in measured))
    return lines


def _task_lines(runs: Sequence[Run], theme: Theme) -> list[Line]:
    """The losses of several tasks that train together. None of several runs."""
    if len(runs) > 1:
        return []
    tasks = [match["task"] for match in map(TASK_LOSS.fullmatch, runs[0].metrics()) if match]
    colors = [theme.lines[i % len(theme.lines)] for i in range(len(tasks))]
    return [Line(*runs[0].series(f"train/{task}/loss"), task, color) for task, color in zip(tasks, colors, strict=True)]


def _layer_lines(runs: Sequence[Run], theme: Theme) -> dict[str, list[Line]]:
    """The lines of metrics of each layer, by their names: one a layer, coloured by depth. None of several runs."""
    lines: dict[str, list[Line]] = {}
    if len(runs) > 1:
        return lines
    keys = [match for match in map(LAYER_METRIC.fullmatch, runs[0].metrics()) if match]
    for name in dict.fromkeys(key["name"] for key in keys):
        layers = sorted(int(key["layer"]) for key in keys if key["name"] == name)
        ends = {layers[0], layers[-1]}
        lines[name] = [
            Line(
                *runs[0].series(f"train/{name}/layer_{layer}"),
                f"layer {layer}" if layer in ends else None,
                shade(theme, rank, len(layers)),
            )
            for rank, layer in enumerate(layers)
        ]
    return lines


def shade(theme: Theme, rank: int, count: int) -> str:
    """The colour of the line with this rank (0 is the best, or the first) among `count`."""
    return to_hex(colormaps[theme.ranks](rank / count))


@dataclasses.dataclass(frozen=True)
class Panel:
    """One panel: its lines, its height, whether noisy lines get a moving average, the bottom of its y axis."""

    title: str
    lines: Sequence[Line]
    inches: float = 2.7
    smooth: bool = True
    bottom: float | None = None

    def draw(self, axes: Axes, theme: Theme) -> None:
        # With many lines, training's are thin, pale and unlabelled.
        crowded = len(self.lines) > 3 and any(line.measured for line in self.lines)
        title = f"{self.title}  (thick: evaluation, thin: training)" if crowded else self.title
        style_axes(axes, theme, title)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=NICE))
        axes.yaxis.set_major_locator(MaxNLocator(6 if self.inches > 3 else 4, steps=NICE))
        axes.xaxis.set_major_formatter(lambda step, _: compact(step))
        axes.yaxis.set_major_formatter(lambda value, _: compact(value))
        axes.set_xlabel("step", fontsize=9, color=theme.faint)
        for line in sorted(self.lines, key=lambda line: line.measured):
            self._draw_line(axes, line, theme, crowded)
        axes.margins(x=0.01)
        if self.bottom is not None:
            axes.set_ylim(bottom=self.bottom)
        labelled = [line for line in self.lines if line.label is not None and (line.measured or not crowded)]
        _label_ends(axes, labelled, self.inches)

    def _draw_line(self, axes: Axes, line: Line, theme: Theme, crowded: bool) -> None:
        style: dict[str, Any] = {"color": line.color, "solid_capstyle": "round"}
        if line.measured:
            marker = "o" if len(line.steps) <= 40 else ""
            axes.plot(line.steps, line.values, **style, lw=2.2, marker=marker, ms=5, mec=theme.paper, mew=1)
        elif self.smooth and len(line.steps) > SMOOTH_ABOVE:
            axes.plot(line.steps, line.values, **style, lw=0.7, alpha=0.25)
            axes.plot(
                line.steps, _smooth(line.values), **style, lw=0.9 if crowded else 1.6, alpha=0.7 if crowded else 1
            )
        else:
            axes.plot(line.steps, line.values, **style, lw=1.6, marker="o" if len(line.steps) == 1 else "")


def _smooth(values: Sequence[float]) -> np.ndarray:
    """Centred moving average over about 1/50 of the points; the window shrinks towards both ends."""
    i = np.arange(len(values))
    half = np.minimum(max(len(values) // 100, 1), np.minimum(i, len(values) - 1 - i))
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return (sums[i + half + 1] - sums[i - half]) / (2 * half + 1)


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

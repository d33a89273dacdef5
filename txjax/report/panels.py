"""What is plotted of runs: losses in a large panel, other metrics in small ones, a line a metric and run."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from txjax.report.runs import Run
from txjax.report.theme import Theme, shade

LAYER_METRIC = re.compile(r"train/(?P<name>.+)/layer_(?P<layer>\d+)")
SMOOTH_ABOVE = 150  # noisy lines with more points also get a moving average
TASK_LOSS = re.compile(r"train/(?P<task>[^/]+)/loss")


@dataclasses.dataclass(frozen=True)
class Line:
    """One metric of one run.

    Attributes:
      steps: of the finite values, increasing.
      values: finite.
      gaps: the steps whose values aren't finite.
      color: of the theme.
      name: in a legend.
      label: at its end, before the last value. If None, there is neither.
      measured: from an evaluation, which is not noisy.
    """

    steps: list[int]
    values: list[float]
    gaps: list[int]
    color: str
    name: str
    label: str | None
    measured: bool = False


@dataclasses.dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
      title: above it.
      lines: in the order of a legend.
      inches: its height.
      smooth: whether noisy lines get a moving average.
      bottom: of its y axis. If None, it follows from the values.
      top: the largest value that its y axis has. If None, all are shown.
    """

    title: str
    lines: Sequence[Line]
    inches: float = 2.7
    smooth: bool = True
    bottom: float | None = None
    top: float | None = None

    @property
    def crowded(self) -> bool:
        """Whether it has many lines, so that training's are thin, pale and unlabelled."""
        return len(self.lines) > 3 and any(line.measured for line in self.lines)

    def average(self, line: Line) -> list[float] | None:
        """The moving average of a line that is noisy, at its steps. None of any other line."""
        if line.measured or not self.smooth or len(line.steps) <= SMOOTH_ABOVE:
            return None
        return _moving_average(line.values).tolist()


def run_panels(runs: Sequence[Run], theme: Theme) -> list[Panel]:
    """The panels of runs: train and eval losses, more eval metrics, learning rate, gradient norm, throughput.

    Losses of several tasks and metrics of each layer (`nn.sow_aux`) are there for a single run. The first panel, of the
    loss, is there without lines, too.
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
    return [loss, *(panel for panel in small if panel.lines)]


def line_of(run: Run, key: str, color: str, name: str, label: str | None, measured: bool = False) -> Line:
    """The line of one metric of a run."""
    return Line(*run.series(key), run.gaps(key), color, name, label, measured)


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
            label = (f"{run.name} {source}" if len(runs) > 1 else source).strip()
            color = theme.lines[(i if len(runs) > 1 else j) % len(theme.lines)]
            lines.append(line_of(run, name, color, label or name, label, name in measured))
    return lines


def _task_lines(runs: Sequence[Run], theme: Theme) -> list[Line]:
    """The losses of several tasks that train together. None of several runs."""
    if len(runs) > 1:
        return []
    tasks = [match["task"] for match in map(TASK_LOSS.fullmatch, runs[0].metrics()) if match]
    colors = [theme.lines[i % len(theme.lines)] for i in range(len(tasks))]
    return [
        line_of(runs[0], f"train/{task}/loss", color, task, task) for task, color in zip(tasks, colors, strict=True)
    ]


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
            line_of(
                runs[0],
                f"train/{name}/layer_{layer}",
                shade(theme, rank, len(layers)),
                f"layer {layer}",
                f"layer {layer}" if layer in ends else None,
            )
            for rank, layer in enumerate(layers)
        ]
    return lines


def _moving_average(values: Sequence[float]) -> np.ndarray:
    """Centred moving average over about 1/50 of the points; the window shrinks towards both ends."""
    i = np.arange(len(values))
    half = np.minimum(max(len(values) // 100, 1), np.minimum(i, len(values) - 1 - i))
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return (sums[i + half + 1] - sums[i - half]) / (2 * half + 1)

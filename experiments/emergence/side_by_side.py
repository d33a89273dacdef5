"""Draws and prints accuracy and log-likelihood of each skill over the parameters, from the folder of the sweep.

Draws the log-likelihood over the updates, too.

python experiments/emergence/side_by_side.py runs/emergence
"""

import collections
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from txjax.report.theme import LIGHT, style_axes
from txjax.scaling.run_records import read_records

SKILLS = {"addition": "addition", "copying": "copying", "in_context_regression": "in-context regression"}
LIKELIHOOD = "answer_log_likelihood"


class Panel(NamedTuple):
    """The scores of a row of panels by their labels, what they are multiplied by; the y axis's label and its ends."""

    scores: dict[str, str]
    scale: float
    up: str
    ends: tuple[float, float] | None = None


PANELS = (
    Panel({"whole answers": "exact_match", "single tokens": "token_accuracy"}, 100, "right, %", (-3, 103)),
    Panel({"whole answers": LIKELIHOOD}, 1, "log-likelihood, nats"),
)


Runs = dict[int, list[dict[str, Any]]]


def by_size(folder: Path, curves: bool) -> Runs:
    """The last records of finished runs by their parameters, or with `curves` all evaluations."""
    found = collections.defaultdict[int, list[dict[str, Any]]](list)
    for run in read_records(folder, curves).rows:
        found[run["parameters"]].append(run)
    return dict(sorted(found.items()))


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """The mean over the seeds and its standard error; 0 for a single run."""
    return statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def over_sizes(runs: Runs) -> Figure:
    """Lines are means, points are seeds."""
    figure = Figure(figsize=(10.5, 6), dpi=160, facecolor=LIGHT.paper, layout="constrained")
    grid = figure.subplots(len(PANELS), len(SKILLS), sharex=True)
    for panel, row in zip(PANELS, grid, strict=True):
        row[0].set_ylabel(panel.up, fontsize=9, color=LIGHT.faint)
        for (skill, title), axes in zip(SKILLS.items(), row, strict=True):
            style_axes(axes, LIGHT, title)
            for color, (label, score) in zip(LIGHT.lines, panel.scores.items(), strict=False):
                values = [[panel.scale * run[f"eval/{skill}/{score}"] for run in same] for same in runs.values()]
                axes.plot(list(runs), [statistics.mean(each) for each in values], color=color, lw=1.6, label=label)
                seeds = [(size, value) for size, each in zip(runs, values, strict=True) for value in each]
                axes.plot(*zip(*seeds, strict=True), "o", color=color, ms=4, alpha=0.6)
            axes.set_xscale("log")
            axes.set_ylim(panel.ends)
    for axes in grid[-1]:
        axes.set_xlabel("parameters", fontsize=9, color=LIGHT.faint)
    grid[0, 0].legend(fontsize=8, frameon=False)
    return figure


def over_updates(runs: Runs) -> Figure:
    """A line for each run, a colour for each size."""
    figure = Figure(figsize=(11.5, 3.4), dpi=160, facecolor=LIGHT.paper, layout="constrained")
    panels = figure.subplots(1, len(SKILLS), sharex=True)
    panels[0].set_ylabel("log-likelihood, nats", fontsize=9, color=LIGHT.faint)
    for (skill, title), axes in zip(SKILLS.items(), panels, strict=True):
        style_axes(axes, LIGHT, title)
        axes.set_xlabel("updates", fontsize=9, color=LIGHT.faint)
        for color, (size, rows) in zip(LIGHT.lines, runs.items(), strict=False):
            for number, name in enumerate(dict.fromkeys(row["run"] for row in rows)):
                curve = [(row["step"], row[f"eval/{skill}/{LIKELIHOOD}"]) for row in rows if row["run"] == name]
                label = f"{size:,}" if number == 0 else None
                axes.plot(*zip(*curve, strict=True), color=color, lw=1.4, alpha=0.8, label=label)
    lines = panels[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside right center", fontsize=8, frameon=False, title="parameters", title_fontsize=8)
    return figure


def main(folder: Path) -> None:
    runs = by_size(folder, curves=False)
    for size, same in runs.items():
        cells = [f"{size:,} ({len(same)} seeds)"]
        for skill in SKILLS:
            exact = mean_and_error([100 * run[f"eval/{skill}/exact_match"] for run in same])
            nats = mean_and_error([run[f"eval/{skill}/{LIKELIHOOD}"] for run in same])
            cells += ["{:.1f} ± {:.1f}%".format(*exact), "{:.2f} ± {:.2f}".format(*nats)]
        print(*cells, sep=" | ")
    over_sizes(runs).savefig(Path(__file__).with_name("side_by_side.png"))
    over_updates(by_size(folder, curves=True)).savefig(Path(__file__).with_name("over_updates.png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

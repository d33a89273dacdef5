"""Draws and prints accuracy and log-likelihood of each skill over the parameters, from the folder of the sweep.

python experiments/emergence/side_by_side.py runs/emergence
"""

import collections
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from txjax.report.curves import LIGHT, dress
from txjax.scaling.run_records import read_records

SKILLS = ("addition", "copying", "in_context_regression")


class Panel(NamedTuple):
    """The scores of a row of panels by their labels, what a score is multiplied by, and the label of the y axis."""

    scores: dict[str, str]
    scale: float
    up: str


PANELS = (
    Panel({"whole answers": "exact_match", "single tokens": "token_accuracy"}, 100, "right, %"),
    Panel({"whole answers": "answer_log_likelihood"}, 1, "log-likelihood, nats"),
)


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """The mean over the seeds and its standard error; 0 for a single run."""
    return statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def draw(runs: dict[int, list[dict[str, Any]]]) -> Figure:
    figure = Figure(figsize=(10.5, 6), dpi=160, facecolor=LIGHT.paper, layout="constrained")
    grid = figure.subplots(len(PANELS), len(SKILLS), sharex=True, sharey="row")
    for panel, row in zip(PANELS, grid, strict=True):
        row[0].set_ylabel(panel.up, fontsize=9, color=LIGHT.faint)
        for skill, axes in zip(SKILLS, row, strict=True):
            dress(axes, LIGHT, skill.replace("_", " "))
            for color, (label, score) in zip(LIGHT.lines, panel.scores.items(), strict=False):
                values = [[panel.scale * run[f"eval/{skill}/{score}"] for run in same] for same in runs.values()]
                axes.plot(list(runs), [statistics.mean(each) for each in values], color=color, lw=1.6, label=label)
                seeds = [(size, value) for size, each in zip(runs, values, strict=True) for value in each]
                axes.plot(*zip(*seeds, strict=True), "o", color=color, ms=4, alpha=0.6)
            axes.set_xscale("log")
    for axes in grid[-1]:
        axes.set_xlabel("parameters", fontsize=9, color=LIGHT.faint)
    grid[0, 0].legend(fontsize=8, frameon=False)
    return figure


def main(folder: Path) -> None:
    found = collections.defaultdict[int, list[dict[str, Any]]](list)
    for run in read_records(folder).rows:
        found[run["parameters"]].append(run)
    runs = dict(sorted(found.items()))
    for size, same in runs.items():
        cells = [f"{size:,} ({len(same)} seeds)"]
        for skill in SKILLS:
            exact = mean_and_error([100 * run[f"eval/{skill}/exact_match"] for run in same])
            nats = mean_and_error([run[f"eval/{skill}/answer_log_likelihood"] for run in same])
            cells += ["{:.1f} ± {:.1f}%".format(*exact), "{:.2f} ± {:.2f}".format(*nats)]
        print(*cells, sep=" | ")
    draw(runs).savefig(Path(__file__).with_name("side_by_side.png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Draws and prints accuracy and log-likelihood of each skill over the parameters, from the folder of the sweep.

python experiments/emergence/side_by_side.py runs/emergence
"""

import collections
import statistics
import sys
from pathlib import Path

from matplotlib.figure import Figure

from txjax.report.curves import LIGHT, dress
from txjax.scaling.run_records import read_records

SKILLS = ("addition", "copying", "in_context_regression")
SCORES = {
    "exact_match": "right answers, %",
    "token_accuracy": "right tokens, %",
    "answer_log_likelihood": "log-likelihood of an answer, nats",
}


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """The mean over the seeds and its standard error, 0 of a single run."""
    return statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def main(folder: Path) -> None:
    runs = collections.defaultdict[int, list[dict]](list)
    for row in read_records(folder).rows:
        runs[row["parameters"]].append(row)
    sizes = sorted(runs)
    figure = Figure(figsize=(10.5, 9), dpi=160, facecolor=LIGHT.paper, layout="constrained")
    panels = figure.subplots(len(SKILLS), len(SCORES), sharex=True)
    for skill, row in zip(SKILLS, panels, strict=True):
        for (score, up), axes in zip(SCORES.items(), row, strict=True):
            scale = 100 if "%" in up else 1
            values = {n: [scale * run[f"eval/{skill}/{score}"] for run in runs[n]] for n in sizes}
            means, errors = zip(*(mean_and_error(values[n]) for n in sizes), strict=True)
            dress(axes, LIGHT, skill.replace("_", " "))
            axes.errorbar(sizes, means, errors, color=LIGHT.lines[0], marker="o", ms=4, lw=1.6)
            for n in sizes:
                axes.plot([n] * len(values[n]), values[n], "o", color=LIGHT.lines[1], ms=3, alpha=0.7)
            axes.set_xscale("log")
            axes.set_ylabel(up, fontsize=9, color=LIGHT.faint)
            cells = (f"{mean:.2f} ± {error:.2f}" for mean, error in zip(means, errors, strict=True))
            print(skill, score, *cells, sep=" | ")
    for axes in panels[-1]:
        axes.set_xlabel("parameters", fontsize=9, color=LIGHT.faint)
    print("parameters", *sizes, sep=" | ")
    print("seeds", *(len(runs[n]) for n in sizes), sep=" | ")
    figure.savefig(Path(__file__).with_name("side_by_side.png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

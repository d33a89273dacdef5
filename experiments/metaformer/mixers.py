"""Draws and prints accuracy by mixer, from what `txjax report FOLDER --json` printed.

python experiments/metaformer/mixers.py runs/mixers.json
"""

import collections
import json
import statistics
import sys
from pathlib import Path

from matplotlib.figure import Figure

from txjax.report.theme import LIGHT, style_axes

METRIC = "eval/test/accuracy"


def main(report: Path) -> None:
    scores = collections.defaultdict[str, list[float]](list)
    milliseconds = collections.defaultdict[str, list[float]](list)
    for point in json.loads(report.read_text(encoding="utf-8"))["points"]:
        mixer = point["values"]["model.mixer"]
        scores[mixer].append(100 * point["metrics"][METRIC])
        milliseconds[mixer].append(point["metrics"]["perf/step_ms"])
    order = sorted(scores, key=lambda mixer: statistics.mean(scores[mixer]))
    figure = Figure(figsize=(6.4, 2.6), dpi=160, facecolor=LIGHT.paper, layout="constrained")
    axes = figure.add_subplot()
    style_axes(axes, LIGHT, "accuracy by mixer: each seed, and the mean")
    for row, mixer in enumerate(order):
        runs = scores[mixer]
        mean, error = statistics.mean(runs), statistics.stdev(runs) / len(runs) ** 0.5
        axes.plot(runs, [row] * len(runs), "o", color=LIGHT.lines[row], ms=5, alpha=0.6)
        axes.plot([mean], [row], "|", color=LIGHT.lines[row], ms=22, mew=2)
        print(mixer, f"{mean:.1f} ± {error:.1f}%", f"{statistics.median(milliseconds[mixer]):.0f} ms", sep=" | ")
    axes.set_yticks(range(len(order)), order)
    axes.set_ylim(-0.6, len(order) - 0.4)
    axes.set_xlabel("accuracy on the test images, %", fontsize=9, color=LIGHT.faint)
    figure.savefig(Path(__file__).with_name("mixers.png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

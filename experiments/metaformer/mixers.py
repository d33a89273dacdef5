"""Draws the accuracy of each mixer, from what `txjax report runs/mixers --json` printed; prints it, too.

python experiments/metaformer/mixers.py runs/mixers.json
"""

import collections
import json
import statistics
import sys
from pathlib import Path

from matplotlib.figure import Figure

from txjax.report.curves import LIGHT, dress

SCORE = "eval/test/accuracy"


def main(report: Path) -> None:
    scores = collections.defaultdict[str, list[float]](list)
    for point in json.loads(report.read_text())["points"]:
        scores[point["values"]["model.attention"].split("(")[0]].append(100 * point["metrics"][SCORE])
    ordered = sorted(scores.items(), key=lambda pair: statistics.mean(pair[1]))
    figure = Figure(figsize=(5.6, 2.6), dpi=160, facecolor=LIGHT.paper, layout="constrained")
    axes = figure.add_subplot()
    dress(axes, LIGHT, "one block, four mixers of tokens")
    for row, (mixer, found) in enumerate(ordered):
        mean, error = statistics.mean(found), statistics.stdev(found) / len(found) ** 0.5
        axes.plot(found, [row] * len(found), "o", ms=4, color=LIGHT.lines[0], alpha=0.5)
        axes.errorbar(mean, row, xerr=error, fmt="|", ms=14, color=LIGHT.lines[1], lw=1.6)
        print(f"| {mixer} | {mean:.1f} ± {error:.1f} |")
    axes.set_yticks(range(len(ordered)), [mixer for mixer, _ in ordered])
    axes.set_ylim(-0.6, len(ordered) - 0.4)
    axes.set_xlabel("accuracy on the test images, %", fontsize=9, color=LIGHT.faint)
    figure.savefig(Path(__file__).with_name("mixers.png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Draws loss over the length of the windows, from what `txjax report runs/positions --json` printed; prints it, too."""

import collections
import json
import statistics
import sys
from pathlib import Path

from matplotlib.figure import Figure

from txjax.report.curves import LIGHT, dress

LENGTHS = (128, 256, 512, 1024)


def main(report: Path) -> None:
    losses: dict[str, list[list[float]]] = collections.defaultdict(list)
    for point in json.loads(report.read_text())["points"]:
        way = point["values"]["model.positions"]
        losses[way].append([point["metrics"][f"eval/{length}/loss"] for length in LENGTHS])
    figure = Figure(figsize=(6.4, 4.4), dpi=160, facecolor=LIGHT.paper, layout="constrained")
    axes = figure.add_subplot()
    dress(axes, LIGHT, "trained on windows of 128 bytes")
    for i, (way, runs) in enumerate(sorted(losses.items(), key=lambda pair: statistics.mean(r[-1] for r in pair[1]))):
        means = [statistics.mean(column) for column in zip(*runs, strict=True)]
        errors = [statistics.stdev(column) / len(column) ** 0.5 for column in zip(*runs, strict=True)]
        axes.errorbar(LENGTHS, means, errors, color=LIGHT.lines[i], marker="o", ms=4, lw=1.6, label=way)
        print(way, *(f"{mean:.3f} ± {error:.3f}" for mean, error in zip(means, errors, strict=True)), sep=" | ")
    axes.set_xscale("log", base=2)
    axes.set_xticks(LENGTHS, [str(length) for length in LENGTHS])
    axes.set_xlabel("length of the windows it reads", fontsize=9, color=LIGHT.faint)
    axes.set_ylabel("held-out loss, nats a byte", fontsize=9, color=LIGHT.faint)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(Path(__file__).with_name("lengths.png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Draws loss over length, from what `txjax report runs/... --json` printed; prints it, too.

python experiments/positions/lengths.py runs/positions.json
python experiments/positions/lengths.py runs/positions_translation.json translation
"""

import collections
import json
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from txjax.report.theme import LIGHT, style_axes


class Picture(NamedTuple):
    """The lengths that name the evaluations, and the texts of the picture."""

    lengths: tuple[int, ...]
    title: str
    across: str
    up: str


PICTURES = {
    "lengths": Picture(
        (128, 256, 512, 1024),
        "trained on windows of 128 bytes",
        "length of the windows it reads",
        "held-out loss, nats a byte",
    ),
    "translation": Picture(
        (16, 24, 32, 48),
        "trained on pairs of at most 16 tokens",
        "most tokens of the pairs it reads",
        "held-out loss, nats a token",
    ),
}


def main(report: Path, name: str = "lengths") -> None:
    picture, losses = PICTURES[name], collections.defaultdict[str, list[list[float]]](list)
    for point in json.loads(report.read_text(encoding="utf-8"))["points"]:
        way = point["values"]["model.positions"]
        losses[way].append([point["metrics"][f"eval/{length}/loss"] for length in picture.lengths])
    figure = Figure(figsize=(6.4, 4.4), dpi=160, facecolor=LIGHT.paper, layout="constrained")
    axes = figure.add_subplot()
    style_axes(axes, LIGHT, picture.title)
    for i, (way, runs) in enumerate(sorted(losses.items(), key=lambda pair: statistics.mean(r[-1] for r in pair[1]))):
        means = [statistics.mean(column) for column in zip(*runs, strict=True)]
        errors = [statistics.stdev(column) / len(column) ** 0.5 for column in zip(*runs, strict=True)]
        axes.errorbar(picture.lengths, means, errors, color=LIGHT.lines[i], marker="o", ms=4, lw=1.6, label=way)
        print(way, *(f"{mean:.3f} ± {error:.3f}" for mean, error in zip(means, errors, strict=True)), sep=" | ")
    axes.set_xscale("log", base=2)
    axes.set_xticks(picture.lengths, [str(length) for length in picture.lengths])
    axes.set_xlabel(picture.across, fontsize=9, color=LIGHT.faint)
    axes.set_ylabel(picture.up, fontsize=9, color=LIGHT.faint)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(Path(__file__).with_name(f"{name}.png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

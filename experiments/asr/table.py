"""Prints the study's tables and draws the branches' weights, from what `txjax report FOLDER --json` printed.

python experiments/asr/table.py runs/asr.json
"""

import collections
import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from txjax.report.theme import LIGHT, style_axes

RATES = ("eval/known/cer", "eval/unseen/cer", "eval/test/cer")
WEIGHT = "train/mixer_weight/layer_"
Points = dict[tuple[str, ...], list[dict[str, Any]]]


def main(report: Path) -> None:
    points: Points = collections.defaultdict(list)
    for point in json.loads(report.read_text(encoding="utf-8"))["points"]:
        if point["state"] != "finished":
            continue
        values = point["values"]
        augmented = str(values["objective.augment"]) != "None"
        changes_speed = str(values["data.speed"]) != "None"
        points[values["variant"], "masks" if augmented else "", "speed" if changes_speed else ""].append(
            point["metrics"]
        )
    for (variant, *augmentations), runs in points.items():
        rates = [rate(run[name] for run in runs) if name in runs[0] else "" for name in RATES]
        print(variant, " + ".join(filter(None, augmentations)) or "none", *rates, sep=" | ")
    draw_weights({data: points[f"branchformer_{data}", "", "speed"] for data in ("digits", "prompts")})


def rate(values: Iterable[float]) -> str:
    """The mean of several runs and its standard error."""
    rates = list(values)
    return f"{statistics.mean(rates):.3f} ± {statistics.stdev(rates) / len(rates) ** 0.5:.3f}"


def draw_weights(runs: dict[str, Sequence[dict[str, Any]]]) -> None:
    """The weight of attention in each layer of the Branchformers, by data: each seed, and the mean."""
    figure = Figure(figsize=(6.4, 3.2), dpi=160, facecolor=LIGHT.paper, layout="constrained")
    axes = figure.add_subplot()
    style_axes(axes, LIGHT, "weight of attention in the merge, by layer: each seed, and the mean")
    for color, (data, metrics) in zip(LIGHT.lines, runs.items(), strict=False):
        names = sorted(name for name in metrics[0] if name.startswith(WEIGHT))
        by_layer = [[run[name] for run in metrics] for name in names]
        for layer, weights in enumerate(by_layer):
            axes.plot([layer] * len(weights), weights, "o", color=color, ms=4, alpha=0.5)
        axes.plot([statistics.mean(weights) for weights in by_layer], color=color, label=data)
    axes.set_xticks(range(len(by_layer)))
    axes.set_xlabel("layer", fontsize=9, color=LIGHT.faint)
    axes.set_ylim(0, 1)
    axes.legend(fontsize=8, frameon=False)
    figure.savefig(Path(__file__).with_name("branch_weights.png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

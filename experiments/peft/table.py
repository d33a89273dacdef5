"""Prints what each arm trains, stores and scores, and draws the score over the share of the weights trained.

python experiments/peft/table.py runs/peft

The folder has `TASK_rates` (their checkpoints are those without what is frozen) and `TASK_seeds` of each task.
"""

import math
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

from arm_runs import ArmRun, arm_runs
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from txjax.report.theme import LIGHT, style_axes

TITLES = {"text": "banking77, ten questions an intent", "vision": "fashion_mnist, a hundred images a class"}
TICKS = (0.2, 0.5, 1, 2, 5, 10, 20)
LINES = {"full": "full fine-tuning", "probe": "linear probe", "scratch": "from scratch"}


class Size(NamedTuple):
    """Parameters by what becomes of them, and bytes.

    Attributes:
      trained: apart from the head.
      encoder: parameters of the encoder, without adapters.
      training: bytes of gradients and moments.
      saved: bytes of a checkpoint without what is frozen.
    """

    trained: int
    head: int
    encoder: int
    training: int
    saved: int

    @property
    def share(self) -> float:
        return 100 * self.trained / self.encoder


def size(run: ArmRun, encoder: int) -> Size:
    shapes = {path: math.prod(shape) for path, (shape, _) in run.arrays().items()}

    def count(start: str) -> int:
        return sum(number for path, number in shapes.items() if path.startswith(start))

    head, trained = count("weights/params/head/"), count("weights/params/")
    moments = count("training/opt_state/")
    saved = sum(path.stat().st_size for path in run.step.rglob("*") if path.is_file())
    return Size(trained - head, head, encoder, 4 * (trained + moments), saved)  # all of them are float32


def by_arm(runs: list[ArmRun]) -> dict[str, list[ArmRun]]:
    return {arm: [run for run in runs if run.arm == arm] for arm in dict.fromkeys(run.arm for run in runs)}


def mean_and_error(runs: list[ArmRun]) -> tuple[float, float]:
    """The mean of the scores in percent, and its standard error; 0 for a single run."""
    scores = [100 * run.score for run in runs]
    return statistics.mean(scores), statistics.stdev(scores) / len(scores) ** 0.5 if len(scores) > 1 else 0.0


def panel(axes: Any, title: str, sizes: dict[str, Size], seeds: dict[str, list[ArmRun]]) -> None:
    """Points are means, bars standard errors; lines the arms that train all weights, or none; names at the side."""
    style_axes(axes, LIGHT, title)
    axes.set_xscale("log")
    axes.set_xlabel("share of the encoder's weights trained, % (head apart)", fontsize=9, color=LIGHT.faint)
    for color, style, (arm, label) in zip(LIGHT.lines, ("-", "--", ":"), LINES.items(), strict=False):
        if arm in seeds:
            mean, error = mean_and_error(seeds[arm])
            axes.axhspan(mean - error, mean + error, color=color, alpha=0.12, lw=0)
            axes.axhline(mean, color=color, ls=style, lw=1.4, label=label)
    axes.set_xlim(0.15, 30)
    axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axes.xaxis.set_minor_locator(NullLocator())
    points = sorted((*mean_and_error(runs), arm) for arm, runs in seeds.items() if arm not in LINES)
    low, high = axes.get_ylim()
    gap, at = 0.045 * (high - low), low
    for i, (mean, error, arm) in enumerate(points):
        axes.errorbar(sizes[arm].share, mean, error, fmt="o", color=LIGHT.lines[3], ms=4.5, lw=1.2)
        at = max(min(mean, high - gap * (len(points) - i)), at + gap)
        axes.annotate(
            arm.replace("_", " "),
            (sizes[arm].share, mean),
            (1.03, (at - low) / (high - low)),
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            color=LIGHT.ink,
            arrowprops={"arrowstyle": "-", "color": LIGHT.faint, "lw": 0.5, "shrinkB": 3},
            annotation_clip=False,
        )


def main(folder: Path) -> None:
    figure = Figure(figsize=(11.5, 4.6), dpi=160, facecolor=LIGHT.paper, layout="constrained")
    panels = figure.subplots(1, len(TITLES))
    panels[0].set_ylabel("accuracy on the test set, %", fontsize=9, color=LIGHT.faint)
    for axes, (task, title) in zip(panels, TITLES.items(), strict=True):
        light, seeds = by_arm(arm_runs(folder / f"{task}_rates")), by_arm(arm_runs(folder / f"{task}_seeds"))
        encoder = size(light["full"][0], 0).trained
        sizes = {arm: size(runs[0], encoder) for arm, runs in light.items()}
        print(f"\n| {task} | trained | % of {encoder:,} | rate | test accuracy, % | training, kB | checkpoint, kB |")
        print("|---|---|---|---|---|---|---|")
        scores = {arm: mean_and_error(runs) for arm, runs in seeds.items()}
        for arm, own in sorted(sizes.items(), key=lambda each: scores.get(each[0], (0, 0)), reverse=True):
            cells = [arm, f"{own.trained:,}", f"{own.share:.3g}"]
            cells += [f"{seeds[arm][0].rate:g}", "{:.1f} ± {:.1f}".format(*scores[arm])] if arm in seeds else ["-", "-"]
            print("|", " | ".join([*cells, f"{own.training / 1e3:,.0f}", f"{own.saved / 1e3:,.0f}"]), "|")
        print(f"\nThe head, trained in all, has {sizes['full'].head:,} parameters more.")
        panel(axes, title, sizes, seeds)
    panels[1].legend(fontsize=8, frameon=False, loc="lower left", bbox_to_anchor=(0, 0.42))
    figure.savefig(Path(__file__).with_name("share.png"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The in-context learning curve as PNG: accuracy over the number of demonstrations."""

import io
from collections.abc import Mapping, Sequence

import numpy as np

from txjax.eval.pictures import DPI, INK

LINE = "#2563d9"
FLOOR = "#e8590c"


def shot_curve(accuracies: Mapping[int, Sequence[float]], floor: float) -> bytes:
    """A PNG of the mean accuracy and its standard error over the seeds, by number of demonstrations.

    Args:
      accuracies: of each seed, by number.
      floor: the accuracy of the most frequent class, a dashed line.
    """
    from matplotlib.figure import Figure

    shots = sorted(accuracies)
    means = [np.mean(accuracies[count]) for count in shots]
    errors = [standard_error(accuracies[count]) for count in shots]
    figure = Figure(figsize=(5.2, 3.4), dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    axes.axhline(floor, color=FLOOR, lw=1.2, ls="--", label=f"most frequent class {floor:.3f}")
    axes.errorbar(shots, means, errors, color=LINE, lw=1.8, marker="o", ms=4, capsize=3, label="accuracy")
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xticks(shots, [str(count) for count in shots])
    axes.minorticks_off()
    axes.set_xlabel("demonstrations", color=INK)
    axes.patch.set_alpha(0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(colors=INK)
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, transparent=True)
    return file.getvalue()


def standard_error(values: Sequence[float]) -> float:
    """The standard error of a mean; 0 for one value."""
    return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0

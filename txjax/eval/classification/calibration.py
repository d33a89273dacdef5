"""Whether the probabilities of a classifier are the shares of examples that it gets right."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from txjax.eval.classification.classifier_evaluator import Classified
from txjax.eval.evaluator import Context
from txjax.eval.pictures import INK, plot, style_axes
from txjax.eval.results import Rows, means
from txjax.types import config_field

RIGHT = "#3b82d6"  # readable on white and on black, as INK is
GAP = "#e8590c"  # the same


@dataclasses.dataclass
class Calibration(Classified):
    """The calibration of a classifier, and a reliability diagram in `pictures/NAME/STEP.png` and in the report.

    Scores: `ece`, the expected calibration error (Guo et al. 2017, eq. 3): the mean distance of accuracy and
    confidence, the probability of the predicted class, over bins of the confidence of equal width; `nll`, the mean of
    -log of the right class's probability, in nats; `brier` (Brier 1950), the mean squared distance of the probabilities
    and the right class's one-hot vector, from 0 to 2.

    Attributes:
      bins: of the confidence. The paper has 15.
    """

    bins: int = config_field(15, at_least=1)

    def rescore(self, rows: Rows) -> dict[str, float]:
        proper_scores = means({name: rows[name] for name in ("nll", "brier")})
        return {"ece": reliability(rows["confidence"], rows["accuracy"], self.bins).error()} | proper_scores

    def show(self, context: Context, step: int, rows: Rows) -> None:
        diagram = reliability(rows["confidence"], rows["accuracy"], self.bins)
        context.write("pictures", step, "png", plot((5.2, 5.6), lambda figure: draw(figure, diagram)))


class Reliability(NamedTuple):
    """Examples by the confidence of their prediction.

    Attributes:
      examples: int64 [bins], the examples of each bin; bin m of M has confidences above m / M, up to (m + 1) / M.
      right: float64 [bins], how many of them are right.
      confidence: float64 [bins], the sum of their confidences.
    """

    examples: np.ndarray
    right: np.ndarray
    confidence: np.ndarray

    def error(self) -> float:
        """The expected calibration error."""
        return float(np.abs(self.right - self.confidence).sum() / max(self.examples.sum(), 1))


def reliability(confidence: Float[np.ndarray, "N"], right: Bool[np.ndarray, "N"], bins: int) -> Reliability:
    """The bins of predictions of these confidences, some of which are right."""
    number = np.clip(np.ceil(confidence.astype(np.float64) * bins).astype(np.int64) - 1, 0, bins - 1)
    sums = (np.bincount(number, values.astype(np.float64), minlength=bins) for values in (right, confidence))
    return Reliability(np.bincount(number, minlength=bins), *sums)


def draw(figure: Any, diagram: Reliability) -> None:
    """The reliability diagram (Guo et al. 2017, figure 1): accuracy by confidence, and how many examples have which."""
    bins = len(diagram.examples)
    total = max(int(diagram.examples.sum()), 1)
    edges = np.arange(bins) / bins
    width = 1 / bins
    full = diagram.examples > 0
    accuracy, confidence = (x[full] / diagram.examples[full] for x in (diagram.right, diagram.confidence))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    bars = {"width": width, "align": "edge", "linewidth": 0.6, "edgecolor": INK}
    upper.bar(edges[full], accuracy, color=RIGHT, alpha=0.75, label="accuracy", **bars)
    apart = {"bottom": np.minimum(accuracy, confidence), "height": np.abs(confidence - accuracy)}
    upper.bar(edges[full], **apart, color=GAP, alpha=0.45, hatch="//", label="gap to the mean confidence", **bars)
    upper.plot((0, 1), (0, 1), color=INK, linestyle="--", linewidth=1)
    upper.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy")
    upper.legend(loc="upper left", frameon=False, labelcolor=INK, fontsize=9)
    shares = diagram.examples / total
    lower.bar(edges, shares, color=RIGHT, alpha=0.75, **bars)
    lower.set(xlabel="confidence", ylabel="examples", ylim=(0, 1.05 * max(shares.max(), width)))
    lower.yaxis.set_major_formatter("{x:.0%}")
    means = diagram.right.sum() / total, diagram.confidence.sum() / total
    title = f"ECE {diagram.error():.4f}\naccuracy {means[0]:.4f}, mean confidence {means[1]:.4f}, {total:,} examples"
    style_axes(upper, title)
    style_axes(lower)
    figure.align_ylabels()

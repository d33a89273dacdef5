"""Pictures of the classes that a classifier confuses."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from txjax.eval.pictures import INK, plot, style_axes

MOST = 24  # classes of a matrix that can be read
PAIRS = 20  # shown of more classes
LONG = 22  # letters of a name
ROW = 6  # mistakes in a row
# Inches.
WIDTH = 7.5  # of the picture
TILE = 1.45  # of a mistake's row
LETTER = 0.08
WRONG = "#e8590c"
RIGHT = "#3b82d6"


class Mistake(NamedTuple):
    """A wrong prediction.

    Attributes:
      example: its number in the set.
      label, predicted: names of the classes.
      confidence: the probability of the predicted class.
      image: float [H W C] from 0 to 1. If None, it has none.
      text: "" if it has none.
    """

    example: int
    label: str
    predicted: str
    confidence: float
    image: Float[np.ndarray, "H W C"] | None = None
    text: str = ""

    def __str__(self) -> str:
        head = f"example {self.example}: {self.label}, predicted {self.predicted} ({self.confidence:.4f})"
        return f"{head}\n{self.text}" if self.text else head


def draw(
    labels: Int[np.ndarray, "N"],
    predicted: Int[np.ndarray, "N"],
    classes: Int[np.ndarray, "..."],
    names: Sequence[str],
    mistakes: Sequence[Mistake],
) -> bytes:
    """A PNG of the confusion matrix of some classes, or of their most confused pairs, above images of mistakes.

    Args:
      classes: the numbers that occur.
      names: of all classes, by number.
    """
    number = np.searchsorted(classes, labels), np.searchsorted(classes, predicted)
    counts = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(counts, number, 1)
    class_names = [short(names[label]) for label in classes]
    images = [mistake for mistake in mistakes if mistake.image is not None]
    rows = -(-len(images) // ROW)
    height = min(7.5, 1.2 + 0.42 * len(class_names)) if len(class_names) <= MOST else 0.6 + 0.26 * PAIRS

    def paint(figure: Any) -> None:
        heights = (height, TILE * rows) if rows else (height,)
        upper, *lower = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        (matrix if len(class_names) <= MOST else pairs)(upper.subplots(), counts, class_names)
        for part in lower:
            axes = part.subplots(rows, ROW, squeeze=False).ravel()
            for tile in axes:
                tile.axis("off")
            for tile, mistake in zip(axes, images, strict=False):
                show(tile, mistake)

    return plot((WIDTH, height + TILE * rows), paint)


def matrix(axes: Any, counts: Int[np.ndarray, "K K"], names: Sequence[str]) -> None:
    """The confusion matrix: true classes downwards, predicted ones to the right; nothing where there are none."""
    from matplotlib.colors import to_rgb

    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    strength = np.sqrt(shares)[..., None]
    strong = np.where(np.eye(len(names), dtype=bool)[..., None], to_rgb(RIGHT), to_rgb(WRONG))
    axes.imshow(np.concatenate([1 - strength * (1 - strong), counts[..., None] > 0], -1), aspect="auto")
    turned = max(map(len, names)) * LETTER > WIDTH / len(names)
    axes.set_xticks(range(len(names)), names, rotation=90 * turned)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="predicted", ylabel="true")
    style = {"ha": "center", "va": "center", "fontsize": 9 if len(names) <= 12 else 6}
    for row, column in np.argwhere(counts > 0):
        colour = "black" if shares[row, column] < 0.5 else "white"
        axes.text(column, row, str(counts[row, column]), color=colour, **style)
    style_axes(axes, "confusion matrix: examples, shaded by their share of the true class")


def pairs(axes: Any, counts: Int[np.ndarray, "K K"], names: Sequence[str]) -> None:
    """The most confused pairs of classes as bars."""
    apart = np.where(np.eye(len(names), dtype=bool), 0, counts)
    order = np.argsort(-apart, axis=None, kind="stable")[:PAIRS]
    confused = [
        (row, column) for row, column in zip(*np.unravel_index(order, apart.shape), strict=True) if apart[row, column]
    ]
    values = [int(apart[pair]) for pair in confused]
    axes.barh(range(len(confused)), values, color=WRONG, alpha=0.75)
    axes.set_yticks(range(len(confused)), [f"{names[row]} \u2192 {names[column]}" for row, column in confused])
    axes.invert_yaxis()
    axes.set_xlabel("examples")
    for i, (row, _) in enumerate(confused):
        axes.text(values[i], i, f" {values[i]} of {counts[row].sum()}", va="center", fontsize=8, color=INK)
    axes.set_xlim(0, 1.25 * max(values, default=1))
    style_axes(axes, "most confused: true \u2192 predicted")


def show(axes: Any, mistake: Mistake) -> None:
    """A mistake's image with its classes above."""
    image = mistake.image
    assert image is not None
    axes.imshow(np.broadcast_to(image.clip(0, 1), (*image.shape[:2], 3)), interpolation="nearest")
    title = f"{short(mistake.label, 18)}\n\u2192 {short(mistake.predicted, 16)} {mistake.confidence:.2f}"
    axes.set_title(title, fontsize=8, color=INK, pad=3)


def short(name: str, most: int = LONG) -> str:
    """A name of at most so many letters."""
    return name if len(name) <= most else f"{name[: most - 1]}\u2026"

"""What the pictures of an inspection share: colours, and grids of small panels with names of rows and columns."""

import textwrap
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from txjax.report.png import png
from txjax.report.theme import LIGHT, WORDS

INK = (0.95, 0.35, 0.0)  # of maps over pictures: more is less transparent
TEXT_HEAT = "Blues"  # of maps of texts, whose labels are dark on white
DPI = 140

Area = tuple[float, float, float, float]  # of a picture: the first and the last row, the first and the last column


def panels(
    rows: Sequence[str],
    columns: Sequence[str],
    draw: Callable[[Axes, int, int], None],
    inches: float,
    title: str,
    labels: Sequence[Sequence[str]] = ((), ()),
    gap: float = 0.06,
) -> bytes:
    """A PNG of a grid of square panels; names of rows are on the left, of columns above.

    Args:
      draw: draws the panel of a row and a column.
      inches: side of a panel.
      labels: of the ticks on the left, and of those at the bottom.
      gap: between panels, inside `inches`.
    """
    margin, below = (0.075 * max(map(len, words), default=0) + 0.05 * bool(words) for words in labels)
    left = 0.15 + 0.08 * max(map(len, rows), default=0) + margin
    above = 0.3 + 0.14 * (any(columns) + max(name.count("\n") for name in columns))
    title = textwrap.fill(title, max(30, int((left + len(columns) * inches) / 0.084)))
    above += 0.17 * title.count("\n")
    width = max(left + len(columns) * inches, 0.086 * max(map(len, title.splitlines()))) + 0.1
    height = len(rows) * inches + above + below + 0.02
    with rc_context(WORDS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a text may have characters that the font lacks
        figure = Figure(figsize=(width, height), dpi=DPI, facecolor=LIGHT.paper)
        figure.text(0.06 / width, 1 - 0.08 / height, title, va="top", fontsize=10, fontweight="bold", color=LIGHT.ink)
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                x = left + j * inches
                y = height - above - (i + 1) * inches + gap
                side = inches - gap
                axes = figure.add_axes((x / width, y / height, side / width, side / height))
                axes.set_xticks([])
                axes.set_yticks([])
                axes.spines[:].set_visible(False)
                draw(axes, i, j)
                style: dict[str, Any] = {"fontsize": 7, "color": LIGHT.ink}
                if j == 0 and labels[0]:
                    axes.set_yticks(range(len(labels[0])), labels[0], **style)
                if i == len(rows) - 1 and labels[1]:
                    axes.set_xticks(range(len(labels[1])), labels[1], rotation=90, **style)
                axes.tick_params(length=0, pad=2)
                if i == 0:
                    axes.set_title(column, fontsize=8, color=LIGHT.faint, pad=3)
                if j == 0:
                    axes.set_ylabel(row, fontsize=8, color=LIGHT.faint, rotation=0, ha="right", va="center", labelpad=4)
        return png(figure)


def heat(
    axes: Axes, weights: Float[np.ndarray, "L S"], extent: tuple[float, float, float, float] | None = None
) -> None:
    """A map of a sequence: queries downwards, keys to the right. The colour is by the square root of the weight.

    Args:
      extent: its left, right, bottom and top on the axes. If None, a token is 1 wide and high.
    """
    style: dict[str, Any] = {"cmap": TEXT_HEAT, "norm": PowerNorm(0.5, 0, 1), "interpolation": "nearest"}
    axes.imshow(weights, aspect="auto", extent=extent, **style)


def over_image(
    axes: Axes,
    image: Float[np.ndarray, "H W C"],
    heat: Float[np.ndarray, "rows columns"] | None,
    low: float = 0.0,
    area: Area | None = None,
    high: float | None = None,
) -> None:
    """A picture; with `heat`, a map of any grid that covers it, in grey under it, from `low` to `high`.

    Args:
      high: if None, the map's maximum.
      area: the part of the picture that the map covers. If None, all.
    """
    height, width = image.shape[:2]
    extent = (0, width, height, 0)
    shown = image if image.shape[2] == 3 and heat is None else image.mean(2)
    axes.imshow(shown, cmap="gray", vmin=0, vmax=1, extent=extent, interpolation="nearest")
    if heat is not None:
        top, bottom, left, right = area or (0, height, 0, width)
        axes.imshow(heat_colors(heat, low, high), extent=(left, right, bottom, top), interpolation="nearest")
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)


def heat_colors(
    heat: Float[np.ndarray, "rows columns"], low: float = 0.0, high: float | None = None
) -> Float[np.ndarray, "rows columns 4"]:
    """The colours of a map over a picture, more transparent where it is less, from `low` to `high`, or its maximum."""
    span = (float(heat.max()) if high is None else high) - low
    strength = np.clip((heat - low) / span, 0, 1) if span > 0 else np.zeros_like(heat)
    return np.concatenate([np.broadcast_to(INK, (*heat.shape, 3)), 0.85 * strength[..., None]], -1)


def short(path: str) -> str:
    """The path of an attention without what all have: `decoder/cross`."""
    return path.replace("layers/block/", "")

"""Grids of images, and plots, as PNG."""

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from txjax.data import Dataset
from txjax.errors import UserError

SIDE = 96  # the minimum height of an image in the picture, in pixels
GAP = 4
INK = "#7b8794"  # readable on white and on black, since the background is transparent
DPI = 100
LINE = 12  # pixels of a line of text beside a box


class Outline(NamedTuple):
    """A box on an image.

    Attributes:
      box: float [4], (top, left, bottom, right) as fractions of the image.
      number: of its colour: boxes of one number are alike.
      text: above the box, or in it where there is no room.
    """

    box: Float[np.ndarray, "4"]
    number: int
    text: str


def check_images(data: Dataset) -> None:
    """Raises UserError if the data set's images can't be shown: of other channels, or without `mean` and `std`."""
    spec = data.spec()
    channels = spec["images" if "images" in spec else "image"].shape[-1]
    if channels not in (1, 3):
        raise UserError("eval.data", "images of 1 or 3 channels", channels)
    if not (hasattr(data, "mean") and hasattr(data, "std")):
        raise UserError("eval.data", "images with `mean` and `std`", type(data).__name__)


def can_show(data: Dataset) -> bool:
    """Whether `check_images` lets them pass."""
    try:
        check_images(data)
    except UserError:
        return False
    return True


def pixels(data: Dataset, images: Float[np.ndarray, "*N H W C"]) -> Float[np.ndarray, "*N H W C"]:
    """Images with values from 0 to 1, from normalised ones of a data set."""
    mean, deviation = (np.asarray(getattr(data, name), np.float32) for name in ("mean", "std"))
    return images * deviation + mean


def plot(inches: tuple[float, float], draw: Callable[[Any], None]) -> bytes:
    """A PNG of what `draw` puts on matplotlib's figure of this width and height, which is cut to its content."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    file = io.BytesIO()
    with rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a name may have characters that the font lacks
        figure = Figure(figsize=inches, dpi=DPI, layout="constrained")
        draw(figure)
        figure.savefig(file, format="png", transparent=True, bbox_inches="tight")
    return file.getvalue()


def style_axes(axes: Any, title: str = "") -> None:
    """Gives matplotlib's axes the colours of a picture whose background is transparent, and a title."""
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.tick_params(colors=INK, labelsize=8)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)


def frame_image(axes: Any, image: Float[np.ndarray, "H W C"], colour: str, text: str) -> None:
    """Shows an image of values from 0 to 1 on matplotlib's axes, with a frame and a text below it in a colour."""
    axes.imshow(np.clip(image, 0, 1).squeeze(), cmap="gray", vmin=0, vmax=1)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set(color=colour, linewidth=1.5)
    axes.set_xlabel(text, fontsize=8, color=colour)


def grid(
    rows: Mapping[str, Float[np.ndarray, "N H W C"]], outlines: Mapping[str, Sequence[Sequence[Outline]]] | None = None
) -> bytes:
    """A PNG of rows of images, each row with its name; images are enlarged by an integer factor.

    Args:
      rows: images with values from 0 to 1 and one or three channels, by name; every row has the same number and size.
      outlines: boxes on each image of a row, by its name. If None, there are none.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    count, height, width, _ = next(iter(rows.values())).shape
    scale = max(1, -(-SIDE // height))
    high = height * scale + GAP
    wide = width * scale + GAP
    margin = 10 + 8 * max(3, *map(len, rows))
    size = margin + count * wide - GAP, len(rows) * high - GAP
    # 410 / 100 * 100 is less than 410, and sizes in pixels are rounded down.
    figure = Figure(figsize=((size[0] + 0.01) / DPI, (size[1] + 0.01) / DPI), dpi=DPI)
    FigureCanvasAgg(figure)  # which measures the labels
    for i, (name, images) in enumerate(rows.items()):
        bottom = size[1] - (i + 1) * high + GAP
        figure.text(
            (margin - 12) / size[0],
            (bottom + (high - GAP) / 2) / size[1],
            name,
            color=INK,
            fontsize=10,
            ha="right",
            va="center",
        )
        for j, image in enumerate(images):
            tile = np.repeat(np.repeat(np.broadcast_to(image, (height, width, 3)), scale, 0), scale, 1)
            left = margin + j * wide
            figure.figimage(np.round(255 * np.clip(tile, 0, 1)).astype(np.uint8), left, bottom)
            for outline in (outlines or {}).get(name, [()] * count)[j]:
                top, start, end, right = outline.box.clip(0, 1)
                corner = (left + start * width * scale) / size[0], (bottom + (1 - end) * height * scale) / size[1]
                sides = (right - start) * width * scale / size[0], (end - top) * height * scale / size[1]
                colour = f"C{outline.number % 10}"
                figure.add_artist(Rectangle(corner, *sides, fill=False, edgecolor=colour, linewidth=1.2))
                side = "bottom" if top * height * scale >= LINE else "top"  # above the box, or in it at the upper edge
                label = figure.text(corner[0], corner[1] + sides[1], outline.text, color=colour, fontsize=7, va=side)
                _keep_inside(label, left, left + wide - GAP)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, transparent=True)
    return file.getvalue()


def _keep_inside(label: Any, left: float, right: float) -> None:
    """Moves a label so that it ends before `right`, in pixels, and shrinks one that is wider than the room."""
    width = label.get_window_extent().width
    if width > right - left:
        label.set_fontsize(label.get_fontsize() * (right - left) / width)
    beyond = label.get_window_extent().x1 - right
    if beyond > 0:
        x, _ = label.get_position()
        label.set_x(x - beyond / (DPI * label.figure.get_figwidth()))

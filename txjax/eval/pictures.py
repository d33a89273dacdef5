"""Grids of images as PNG."""

import io
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

SIDE = 96  # the minimum height of an image in the picture, in pixels
GAP = 4
INK = "#7b8794"  # readable on white and on black, since the background is transparent
DPI = 100


def grid(rows: Mapping[str, Float[np.ndarray, "N H W C"]]) -> bytes:
    """A PNG of rows of images, each row with its name; images are enlarged by an integer factor.

    Args:
      rows: images with values from 0 to 1 and one or three channels, by name; every row has the same number and size.
    """
    from matplotlib.figure import Figure

    count, height, width, _ = next(iter(rows.values())).shape
    scale = max(1, -(-SIDE // height))
    high, wide = height * scale + GAP, width * scale + GAP
    margin = 10 + 8 * max(map(len, rows))
    size = margin + count * wide - GAP, len(rows) * high - GAP
    figure = Figure(figsize=(size[0] / DPI, size[1] / DPI), dpi=DPI)
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
            figure.figimage(np.round(255 * np.clip(tile, 0, 1)).astype(np.uint8), margin + j * wide, bottom)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, transparent=True)
    return file.getvalue()

"""Captions with their nearest images, as PNG."""

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from txjax.eval.pictures import INK, frame_image, plot

RIGHT = "#2e8b57"
LETTERS = 22  # of a line of a caption
SIDE = 1.4  # of an image, in inches


class NearImage(NamedTuple):
    """An image that a caption finds.

    Attributes:
      pixels: from 0 to 1.
      similarity: the cosine.
      is_right: whether the caption is one of the image's.
    """

    pixels: Float[np.ndarray, "H W C"]
    similarity: float
    is_right: bool


class SearchedCaption(NamedTuple):
    """A caption with what it finds.

    Attributes:
      image: pixels from 0 to 1 of the caption's image.
      rank: of its image, from 1.
      nearest: the nearest first.
    """

    caption: str
    image: Float[np.ndarray, "H W C"]
    rank: int
    nearest: Sequence[NearImage]


def caption_rows(captions: Sequence[SearchedCaption]) -> bytes:
    """A row for each caption, as PNG: its image with its rank, and the nearest ones; right ones have green frames."""
    columns = 1 + max(len(caption.nearest) for caption in captions)

    def draw(figure: Any) -> None:
        for i, (caption, image, rank, nearest) in enumerate(captions):
            axes = figure.add_subplot(len(captions), columns, i * columns + 1)
            frame_image(axes, image, INK, f"rank {rank}")
            lines = textwrap.wrap(caption, LETTERS)
            axes.set_ylabel("\n".join(lines), fontsize=9, color=INK, rotation=0, ha="right", va="center")
            for j, near in enumerate(nearest, 1):
                axes = figure.add_subplot(len(captions), columns, i * columns + 1 + j)
                frame_image(axes, near.pixels, RIGHT if near.is_right else INK, f"{near.similarity:.2f}")
                if not i:
                    axes.set_title("nearest" if j == 1 else f"{j}", fontsize=9, color=INK)

    return plot((2 + columns * SIDE, len(captions) * (SIDE + 0.3)), draw)

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
      rank: of its image, from 1; of one of its images where it has several.
      images: how many are searched.
      nearest: the nearest first.
    """

    caption: str
    image: Float[np.ndarray, "H W C"]
    rank: int
    images: int
    nearest: Sequence[NearImage]


def caption_rows(captions: Sequence[SearchedCaption]) -> bytes:
    """A row for each caption, as PNG: its image with its rank, and the nearest ones; right ones have green frames."""
    columns = 1 + max(len(caption.nearest) for caption in captions)

    def draw(figure: Any) -> None:
        for i, searched in enumerate(captions):
            tiles = [(searched.image, INK, f"rank {searched.rank} of {searched.images}")]
            for near in searched.nearest:
                tiles.append((near.pixels, RIGHT if near.is_right else INK, f"{near.similarity:.2f}"))
            for j, tile in enumerate(tiles):
                axes = figure.add_subplot(len(captions), columns, i * columns + j + 1)
                frame_image(axes, *tile)
                if not i:
                    axes.set_title(("its image", "nearest")[j] if j < 2 else str(j), fontsize=9, color=INK)
                if not j:
                    lines = textwrap.wrap(searched.caption, LETTERS)
                    axes.set_ylabel("\n".join(lines), fontsize=9, color=INK, rotation=0, ha="right", va="center")

    return plot((2 + columns * SIDE, len(captions) * (SIDE + 0.3)), draw)

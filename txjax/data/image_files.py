"""Decoding of image files by Pillow, the same with and without OpenCV, which TFDS would prefer."""

import io
import warnings
from typing import Any

import numpy as np

MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}  # Pillow's names, by the number of channels
WIDE = ("I", "F")  # the beginnings of Pillow's modes of more than 8 bits a channel
# Pillow's readers of the formats that images of data have. Others are never asked: that of PostScript starts a program.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
PNG_DEPTH = 24  # the byte of a PNG file with the bits of a channel
TIFF_DEPTH = 258  # the tag of a TIFF file with the bits of each channel


class UnreadableImage(ValueError):
    """A file that is no whole image of 8 bits a channel."""


def _bits(picture: Any, content: bytes) -> int:
    """The bits of a channel in the file; Pillow keeps 8 of 16 in colours."""
    if picture.format == "PNG":
        return content[PNG_DEPTH]
    return max(picture.tag_v2.get(TIFF_DEPTH, (8,))) if picture.format == "TIFF" else 8


def decode_image(content: bytes, channels: int) -> np.ndarray:
    """An image file as uint8 [H W channels]: palettes are looked up, grey is repeated, an alpha channel is dropped.

    Raises:
      UnreadableImage: it is damaged, truncated, of a kind that is not among `FORMATS`, or has more than 8 bits a
        channel.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd metadata, which say nothing about the pixels
            with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
                if picture.mode.startswith(WIDE) or _bits(picture, content) > 8:
                    raise UnreadableImage(f"{picture.mode} pixels of more than 8 bits a channel")
                pixels = np.asarray(picture.convert(MODES[channels]))
    except UnreadableImage:
        raise
    except Exception as error:  # Pillow raises many types for damaged files
        lines = str(error).splitlines() or [""]
        raise UnreadableImage(f"{type(error).__name__}: {lines[0]}"[:120]) from error
    return pixels[..., None] if pixels.ndim == 2 else pixels

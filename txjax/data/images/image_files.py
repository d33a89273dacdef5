"""Decoding of image files by Pillow, the same with and without OpenCV, which TFDS would prefer."""

import contextlib
import io
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Int, UInt8

from txjax.data.images.image_ends import ends_early
from txjax.data.images.pixels import to_array

MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}  # Pillow's names, by the number of channels
WIDE = ("I", "F")  # the beginnings of Pillow's modes of more than 8 bits a channel
# Pillow's readers of the formats that images of data have. Others are never asked: that of PostScript starts a program.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
PNG_DEPTH = 24  # the byte of a PNG file with the bits of a channel
PNG_HEADER = slice(12, 16)  # where the name of its first chunk is
TIFF_DEPTH = 258  # the tag of a TIFF file with the bits of each channel
MOST_PIXELS = 2**28 // 3  # of an image, as Pillow's own limit is before a process changes it: 89 million

# Rows and columns, as far as a set declares them.
Size = tuple[int | None, int | None]


class UnreadableImage(ValueError):
    """A file that is no whole image of 8 bits a channel."""


def decode_image(content: bytes, channels: int, size: Size = (None, None)) -> UInt8[np.ndarray, "H W C"]:
    """An image file as uint8 [H W C]: palettes are looked up, grey is repeated, an alpha channel is dropped.

    Args:
      size: the rows and columns that it must have. Where they are None, at most `MOST_PIXELS` pixels.

    Raises:
      UnreadableImage: it is damaged, ends early, is of a kind that is not among `FORMATS`, has more than 8 bits a
        channel, or another size.
    """
    with _open_picture(content, size) as picture:
        if picture.mode.startswith(WIDE) or _bits(picture, content) > 8:
            raise UnreadableImage(f"{picture.mode} pixels of more than 8 bits a channel")
        return to_array(_whole(picture, content).convert(MODES[channels]))


def decode_mask(content: bytes, size: Size = (None, None)) -> Int[np.ndarray, "H W"]:
    """The numbers in the first channel of an image file, of up to 16 bits; of a palette, which colour it is.

    Raises:
      UnreadableImage: as `decode_image` does, but for the bits.
    """
    with _open_picture(content, size) as picture:
        if picture.mode.startswith("F"):
            raise UnreadableImage("pixels that are no whole numbers")
        return to_array(_whole(picture, content))[..., 0].astype(np.int32)


@contextlib.contextmanager
def _open_picture(content: bytes, size: Size) -> Iterator[Any]:
    """Pillow's picture of a file, of which only the header is read. Errors inside are raised as UnreadableImage."""
    from PIL import Image, ImageFile

    ImageFile.LOAD_TRUNCATED_IMAGES = False  # a process may have set it, and images would end in black rows
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd metadata, which say nothing about the pixels
            with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
                if picture.format == "PNG" and content[PNG_HEADER] != b"IHDR":
                    raise UnreadableImage("a PNG that does not begin with its header")
                _check_size(picture, size)
                yield picture
    except UnreadableImage:
        raise
    except Exception as error:  # Pillow raises many types for damaged files
        lines = str(error).splitlines() or [""]
        raise UnreadableImage(f"{type(error).__name__}: {lines[0]}"[:120]) from error


def _check_size(picture: Any, size: Size) -> None:
    """Raises UnreadableImage for another size than the declared one, or too large a one, before memory is taken."""
    width, height = picture.size
    for number, declared in zip((height, width), size, strict=True):
        if declared not in (None, number):
            rows, columns = ("any" if side is None else side for side in size)
            raise UnreadableImage(f"{height} x {width} pixels instead of {rows} x {columns}")
    if None in size and height * width > MOST_PIXELS:
        raise UnreadableImage(f"{height} x {width} pixels, and at most {MOST_PIXELS:,} are decoded")


def _whole(picture: Any, content: bytes) -> Any:
    """The picture, decoded. Raises UnreadableImage if the file's data end before its pixels do."""
    picture.load()
    if ends_early(picture, content):
        raise UnreadableImage("the data end before the last row, truncated")
    return picture


def _bits(picture: Any, content: bytes) -> int:
    """The bits of a channel in the file; Pillow keeps 8 of 16 in colours."""
    if picture.format == "PNG":
        return content[PNG_DEPTH]
    return max(picture.tag_v2.get(TIFF_DEPTH, (8,))) if picture.format == "TIFF" else 8

"""Whether the data of an image file reach its last pixel; where they do not, Pillow leaves one colour and no error."""

import io
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

# By the fifth number of a PNG's header, its kind of colours: how many channels a pixel has in the file.
_PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
# The passes of an interlaced PNG: the first column and row, and the steps between columns and between rows.
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_PIECE = 1 << 20  # bytes that are inflated at a time
_GREY = 128  # what the decoder of JPEG puts where the data have ended
_END = b"\xff\xd9"  # the last marker of a JPEG
_FILLING = bytes(range(1, 250))  # data that no marker interrupts


def ends_early(picture: Any, content: bytes) -> bool:
    """Whether the data of a decoded file end before its pixels do, though the file has its end.

    Only files whose last pixels have the colour that would be there instead are examined further.

    Args:
      picture: Pillow's, decoded and not yet converted.
      content: its file.
    """
    width, height = picture.size
    if picture.format == "PNG":
        last_row = np.asarray(picture.crop((0, height - 1, width, height)))
        return (_is_interlaced(content) or not last_row.any()) and not _inflates_whole(picture.size, content)
    if picture.format in ("JPEG", "MPO"):
        corner = picture.crop((width - 1, height - 1, width, height))
        grey = abs(int(np.asarray(corner.convert("L")).item()) - _GREY) <= 2
        unsure = grey or picture.mode == "CMYK" or "progressive" in picture.info
        return unsure and _depends_on_what_follows(picture, content)
    return False


def _is_interlaced(content: bytes) -> bool:
    return content[28] == 1


def _inflates_whole(size: tuple[int, int], content: bytes) -> bool:
    """Whether the compressed data of a PNG have all rows (PNG specification, 7.2 and 8.1)."""
    width, height = size
    bits = content[24] * _PNG_CHANNELS[content[25]]
    passes = _PASSES if _is_interlaced(content) else ((0, 0, 1, 1),)
    needed = 0
    for left, top, column_step, row_step in passes:
        columns = -(-(width - left) // column_step)
        rows = -(-(height - top) // row_step)
        needed += rows * (1 + (columns * bits + 7) // 8) if columns > 0 and rows > 0 else 0
    inflater = zlib.decompressobj()
    inflated = 0
    for data in _png_data(content):
        while data and inflated < needed:
            inflated += len(inflater.decompress(data, _PIECE))
            data = inflater.unconsumed_tail
    return inflated >= needed


def _png_data(content: bytes) -> Iterator[bytes]:
    """The compressed data of a PNG, chunk by chunk."""
    position = 8
    while position + 8 <= len(content):
        start = position + 8
        position = start + int.from_bytes(content[position : position + 4]) + 4
        if content[start - 4 : start] == b"IDAT":
            yield content[start : position - 4]


def _depends_on_what_follows(picture: Any, content: bytes) -> bool:
    """Whether a JPEG has other pixels with further data before its last marker: then its own do not reach the end."""
    from PIL import Image

    end = content.rfind(_END)
    with Image.open(io.BytesIO(content[:end] + _FILLING + content[end:]), formats=("JPEG",)) as filled:
        return not np.array_equal(np.asarray(filled), np.asarray(picture))

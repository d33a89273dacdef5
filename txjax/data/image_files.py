"""Decoding of image files by Pillow, the same with and without OpenCV, which TFDS would prefer."""

import io
import warnings

import numpy as np

MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}  # Pillow's names, by the number of channels
WIDE = ("I", "F")  # the beginnings of Pillow's modes of more than 8 bits a channel


class UnreadableImage(ValueError):
    """A file that is no whole image of 8 bits a channel."""


def decode_image(content: bytes, channels: int) -> np.ndarray:
    """An image file as uint8 [H W channels]: palettes are looked up, grey is repeated, an alpha channel is dropped.

    Raises:
      UnreadableImage: it is damaged, truncated, of an unknown kind, or has more than 8 bits a channel.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd metadata, which say nothing about the pixels
            with Image.open(io.BytesIO(content)) as picture:
                if picture.mode.startswith(WIDE):
                    raise UnreadableImage(f"{picture.mode} pixels of more than 8 bits a channel")
                pixels = np.asarray(picture.convert(MODES[channels]))
    except UnreadableImage:
        raise
    except Exception as error:  # Pillow raises many types for damaged files
        lines = str(error).splitlines() or [""]
        raise UnreadableImage(f"{type(error).__name__}: {lines[0]}"[:120]) from error
    return pixels[..., None] if pixels.ndim == 2 else pixels

"""Images by record: decoded once where they are small, transformed, normalised."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from txjax.data.images.image_data import ImageData
from txjax.data.images.image_records import ImageRecords, Normaliser
from txjax.data.images.transforms import Transform
from txjax.errors import UserError

MEMORY = 256 << 20  # bytes of decoded images; an image that fits into its share of them is decoded once

# An image uint8 [H W C], None if its record is left out, and the record's other features; {} if it is damaged.
Decoded = tuple[np.ndarray | None, dict[str, Any]]


class ImageReader:
    """The images of some records of a split, as examples have them."""

    def __init__(self, data: ImageData, records: ImageRecords, count: int):
        """
        Args:
          count: the number of records that are read.
        """
        self._data = data
        self._records = records
        self._normalised = Normaliser(data.mean, data.std, *data.shape[1:])
        self._kept: dict[int, Decoded] = {}
        self._largest = MEMORY // max(1, count)  # bytes of an image that is kept

    def __getstate__(self) -> dict[str, Any]:
        """For worker processes, each of which keeps its own decoded images."""
        return vars(self) | {"_kept": {}}

    def read(self, number: int, transforms: Sequence[Transform], rng: np.random.Generator) -> Decoded:
        """The image of a record, float32 [H W C], or None if it is left out, and the record's other features.

        Raises:
          UserError: after the transforms it has another shape than `data.shape`.
        """
        pixels, record = self._kept.get(number) or self._decode(number)
        if pixels is None or pixels.nbytes <= self._largest:
            self._kept[number] = pixels, record
        if pixels is None:
            return None, record
        for transform in transforms:
            pixels = transform(pixels, rng)
        if pixels.shape != tuple(self._data.shape):
            hint = "set shape, or resize by transforms=(Resize(size), CenterCrop(size), Channels(count))"
            expected = f"{pixels.shape} as of {self._records.place(number)}"
            raise UserError("data.shape", expected, tuple(self._data.shape), hint=hint)
        return self._normalised(pixels), record

    def _decode(self, number: int) -> Decoded:
        """An image as it is stored in the set, and the record's other features."""
        pixels, record = self._records[number]
        return pixels, {name: value for name, value in record.items() if name != self._data.image_feature}

"""Records with an image: decoded, or left out if that fails; and normalised."""

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np

from txjax.data.images.image_files import MODES, UnreadableImage, decode_image, decode_mask
from txjax.data.sources.record_places import describe_place
from txjax.data.sources.record_source import RecordSplit
from txjax.data.tfds import records
from txjax.errors import UserError

logger = logging.getLogger(__name__)


class ImageRecords:
    """The records of a split of images.

    Attributes:
      name: the data set's full name, config and version included.
      fingerprint: of the split.
    """

    def __init__(
        self,
        split: RecordSplit,
        image_feature: str,
        features: Iterable[str],
        corrupt: str,
        masks_feature: str | None = None,
    ):
        """
        Args:
          split: where the records are.
          features: those that are read besides the image.
          corrupt: "refuse" or "skip", see `Images`.
          masks_feature: an image feature of which a record has the file.
        """
        files = [image_feature] if masks_feature is None else [image_feature, masks_feature]
        self._records = split.open(features, encoded=files)
        self._feature = image_feature
        self._corrupt = corrupt
        stated = split.check()
        self._files = split.open(["file"]) if "file" in stated else None
        *self._size, stored = stated[image_feature].shape
        self._channels = stored if stored in MODES else 3
        self._left_out: set[int] = set()  # numbers of records that are not used
        self.name = self._records.name
        self.fingerprint = self._records.fingerprint

    def __len__(self) -> int:
        return len(self._records)

    def place(self, number: int) -> str:
        """The set, the file and the number of a record in it, and the image's own file in a folder, for messages."""
        return describe_place(self._records, number, self._files)

    def __getitem__(self, number: int) -> tuple[np.ndarray | None, dict[str, Any]]:
        """An image as stored in the set, uint8 [H W C], and its record. If it is None, the record is left out."""
        record: dict[str, Any] = {}
        try:
            record = self._records[number]
            return decode_image(record[self._feature], self._channels, tuple(self._size)), record
        except records.ChangedData:
            raise
        except (records.CorruptData, UnreadableImage) as error:
            if self._corrupt == "refuse" and isinstance(error, records.CorruptData):
                raise  # no file inside the record, but the record itself
            self.leave_out(number, "images that can be decoded", str(error), "cannot be decoded")
            return None, record

    def mask(self, number: int, content: bytes, size: tuple[int, int]) -> np.ndarray | None:
        """The mask of a record from its file, int32 [H W], of this size. If None, the record is left out."""
        try:
            return decode_mask(content, size)
        except UnreadableImage as error:
            expected = f"masks that can be decoded, of the image's size {size}"
            self.leave_out(number, expected, str(error), "has damaged masks or masks of another size")
            return None

    def leave_out(self, number: int, expected: str, got: str, why: str) -> None:
        """Counts a record that cannot be used. Raises UserError, naming it, unless such records are skipped."""
        place = self.place(number)
        if self._corrupt == "refuse":
            raise UserError("data.corrupt", expected, f"{place}: {got}", hint='"skip" as data.corrupt leaves such out')
        if number not in self._left_out:
            self._left_out.add(number)
            logger.warning("%s %s and is left out (%d so far): %s", place, why, len(self._left_out), got)


class Normaliser:
    """(pixel / 255 - mean) / std as one product and one sum over whole rows, which is faster than over channels."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...], width: int, channels: int):
        rows_std, rows_mean = (np.tile(np.broadcast_to(x, channels), width) for x in (std, mean))
        self._scale = (1 / (255 * rows_std)).astype(np.float32)
        self._shift = (-rows_mean / rows_std).astype(np.float32)

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """uint8 [H W C] -> float32 [H W C]."""
        image = pixels.reshape(len(pixels), -1).astype(np.float32)
        image *= self._scale
        image += self._shift
        return image.reshape(pixels.shape)


def check_normalisation(mean: tuple[float, ...], std: tuple[float, ...], channels: int) -> None:
    """Raises UserError for means or deviations that don't fit the channels."""
    for field, values in (("mean", mean), ("std", std)):
        if len(values) not in (1, channels):
            raise UserError(f"data.{field}", f"1 or {channels} numbers, one per channel", values)
    if min(std) <= 0:
        raise UserError("data.std", "numbers above 0", std)


def check_pixels(name: str, features: Any) -> None:
    """Raises UserError if there is no image feature of this name, or one that has no bytes."""
    image = records.check_feature("data.image_feature", name, features, ("Image",))
    if np.dtype(image.np_dtype) != np.uint8:
        raise UserError("data.image_feature", "images of uint8", f"images of {np.dtype(image.np_dtype)}")

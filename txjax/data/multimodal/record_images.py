"""The images of a record, from an image feature or a sequence of images: files, decoded, transformed, normalised."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float32

from txjax.data.images.image_files import MODES, UnreadableImage, decode_image
from txjax.data.images.image_records import Normaliser, check_pixels
from txjax.data.images.transforms import Transform
from txjax.data.tfds import records
from txjax.data.tokenizers.tokenizer import as_string
from txjax.errors import UserError

FILES = "files"  # the feature with the paths of a record's images, which not all sets have


@dataclasses.dataclass(frozen=True)
class RecordImages:
    """How the images of records are read.

    Attributes:
      feature: the name of an image feature, or of a sequence of images. If empty, records have no images.
      stated: the set's features, of TFDS.
    """

    feature: str
    stated: Any

    def check(self) -> None:
        """Raises UserError if there is no such feature, or it has no images of bytes."""
        if not self.feature:
            return
        records.check_feature("data.image_feature", self.feature, self.stated, ("Image", "Sequence"))
        check_pixels(self.feature, {self.feature: self._image()})

    def names(self) -> tuple[str, ...]:
        """The features that are read besides the files of the images."""
        return tuple(name for name in (FILES,) if self.feature and name in self.stated)

    def encoded(self) -> tuple[str, ...]:
        """The features that are read as files."""
        return (self.feature,) if self.feature else ()

    def files(self, record: dict[str, Any]) -> list[bytes]:
        """The contents of the files of a record's images."""
        if not self.feature:
            return []
        content = record[self.feature]
        return [content] if isinstance(content, bytes) else list(content)

    def decode(self, record: dict[str, Any]) -> list[np.ndarray]:
        """The images of a record, uint8 [H W C]. Raises UnreadableImage, which names the file, for a damaged one."""
        if not self.feature:
            return []
        *size, stored = self._image().shape
        pixels = []
        for number, content in enumerate(self.files(record)):
            try:
                pixels.append(decode_image(content, stored if stored in MODES else 3, tuple(size)))
            except UnreadableImage as error:
                raise UnreadableImage(f"{image_name(record, number)}: {error}") from error
        return pixels

    def _image(self) -> Any:
        """The feature of one image."""
        feature = self.stated[self.feature]
        return getattr(feature, "feature", feature)


def image_name(record: dict[str, Any], number: int) -> str:
    """The path of an image of a record, or its number, for messages."""
    return as_string(record[FILES][number]) if FILES in record else f"image {number + 1}"


@dataclasses.dataclass(frozen=True)
class ImageStack:
    """Images as an array, zeros where there are fewer.

    Attributes:
      count: I, how many there are place for.
      shape: height, width and channels, after the transforms.
      transforms: of each image.
      normaliser: of its pixels.
    """

    count: int
    shape: tuple[int, int, int]
    transforms: tuple[Transform, ...]
    normaliser: Normaliser

    def build(self, images: list[np.ndarray], place: str, rng: np.random.Generator) -> Float32[np.ndarray, "I H W C"]:
        """The images of a record, uint8 [H W C] each.

        Args:
          place: the record, for messages.

        Raises:
          UserError: an image has another shape after the transforms.
        """
        stack = np.zeros((self.count, *self.shape), np.float32)
        for number, pixels in enumerate(images):
            for transform in self.transforms:
                pixels = transform(pixels, rng)
            if pixels.shape != tuple(self.shape):
                hint = "set shape, or resize by transforms=(PadSquare(), Stretch(size))"
                raise UserError("data.shape", f"{pixels.shape} as of {place}", tuple(self.shape), hint=hint)
            stack[number] = self.normaliser(pixels)
        return stack

"""Examples with the images of other examples: what a score without the right image is."""

import dataclasses
from typing import Any

import jax
import numpy as np

from txjax.data.dataset import Dataset, Example, Source
from txjax.data.keys import Key
from txjax.errors import UserError

IMAGE_KEYS = ("image", "images", "extent")


@dataclasses.dataclass
class ShuffledImages(Dataset):
    """The examples of a data set, each with the image of another one.

    If a score of a model of images and texts stays as it is, then the model doesn't use the image. The examples are a
    random cycle, always the same for so many, in which each has the image of the next one.

    An example: as in `data`.

    Attributes:
      data: any data set whose examples have an image beside other things.
    """

    data: Dataset

    @property
    def tokenizer(self) -> Any:
        """The data set's tokenizer, or None if it has none."""
        return getattr(self.data, "tokenizer", None)

    @property
    def classes(self) -> int | None:
        """The data set's number of classes, or None if it has none."""
        return getattr(self.data, "classes", None)

    def class_names(self) -> tuple[str, ...] | None:
        return self.data.class_names()

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return self.data.spec()

    def keys(self) -> dict[str, Key]:
        return self.data.keys()

    def vocab(self) -> int | None:
        return self.data.vocab()

    def check(self) -> None:
        try:
            self.data.check()
        except UserError as error:
            raise error.with_path("data.data", "data") from None
        if not set(IMAGE_KEYS) & set(self.data.spec()):
            raise UserError("data.data", "a data set with images", type(self.data).__name__)

    def open(self) -> Source:
        self.check()
        try:
            return ShuffledSource(self.data.open())
        except UserError as error:
            raise error.with_path("data.data", "data") from None


class ShuffledSource:
    """A source whose examples have the images of others."""

    def __init__(self, source: Source):
        self._source = source
        cycle = np.random.default_rng(0).permutation(len(source))
        self._next = np.empty_like(cycle)
        self._next[cycle] = np.roll(cycle, -1)
        self.fingerprint = f"{source.fingerprint} with shuffled images"

    def __len__(self) -> int:
        return len(self._source)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        other = self._source.example(int(self._next[index]), epoch, rng)
        images = {key: other[key] for key in IMAGE_KEYS if key in other}
        return self._source.example(index, epoch, rng) | images

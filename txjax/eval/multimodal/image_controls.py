"""Other images for the questions of a set: how much an answer depends on the right one."""

import dataclasses
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from txjax.data.dataset import Example
from txjax.data.loading.buckets import Bucketed
from txjax.data.multimodal.conversations import ConversationSource

IMAGE_KEYS = ("image", "images")


@dataclasses.dataclass
class ImageControl:
    """Base of the ways to replace the images of all questions.

    Attributes:
      name: the end of the names of the scores.
    """

    name: ClassVar[str]

    def replace(self, source: ConversationSource) -> Bucketed:
        """The same examples with other images."""
        raise NotImplementedError


@dataclasses.dataclass
class ImagesOfOthers(ImageControl):
    """Each question has the images of another, which has as many of them.

    Attributes:
      seed: of the order in which the images take their places.
    """

    name: ClassVar[str] = "shuffled"
    seed: int = 0

    def replace(self, source: ConversationSource) -> Bucketed:
        return _OtherImages(source, draw_partners(source.image_counts, self.seed))


@dataclasses.dataclass
class BlankImages(ImageControl):
    """All values of all images are 0, which is the mean pixel of the normalisation: the text alone can be used.

    The tokens stay as they are, so that a model reads a text as long as those of its training.
    """

    name: ClassVar[str] = "blank"

    def replace(self, source: ConversationSource) -> Bucketed:
        return _OtherImages(source, None)


def draw_partners(counts: Int[np.ndarray, "N"], seed: int) -> Int[np.ndarray, "N"]:
    """The example whose images each example gets: another with as many images. One that is alone keeps its own.

    Args:
      counts: the images of each example.
    """
    partners = np.arange(len(counts))
    rng = np.random.default_rng(seed)
    for count in np.unique(counts):
        circle = rng.permutation(np.flatnonzero(counts == count))
        partners[circle] = np.roll(circle, 1)
    return partners


class _OtherImages(Bucketed):
    """Examples with the images of their partners, or with zeros.

    Args:
      partners: of each example. If None, images are zeros.
    """

    def __init__(self, source: ConversationSource, partners: Int[np.ndarray, "N"] | None):
        self._source = source
        self._partners = partners
        self.fingerprint = source.fingerprint
        self.lengths = source.lengths
        self.buckets = source.buckets
        self.sort_batches = source.sort_batches

    def __len__(self) -> int:
        return len(self._source)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        example = self._source.example(index, epoch, rng)
        if self._partners is None:
            others = {key: np.zeros_like(example[key]) for key in IMAGE_KEYS if key in example}
        else:
            partner = self._source.example(int(self._partners[index]), epoch, rng)
            others = {key: partner[key] for key in IMAGE_KEYS if key in partner}
        return example | others

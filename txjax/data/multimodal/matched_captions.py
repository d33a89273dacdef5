"""Images with captions to pretrain on: an image's own caption, or that of another image."""

import dataclasses

import jax
import numpy as np

from txjax.data.dataset import Example
from txjax.data.images.captioned_images import CaptionedImages, CaptionedSource
from txjax.types import spec


@dataclasses.dataclass
class MatchedCaptions(CaptionedImages):
    """ViLBERT's alignment task (Lu et al. 2019, 3.2): does the caption describe the image?

    With probability 1/2 the caption is that of another example, drawn uniformly, in every epoch another one.

    An example: as in `CaptionedImages`, but weights float32 [L], 1 for tokens of the caption, or all 0 if the image was
    left out; and next_sentence int32 [], 1 if the caption is the image's, 0 if it is another one's.
    """

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return super().spec() | {"weights": spec((self.length,), "float32"), "next_sentence": spec((), "int32")}

    def examples(self) -> CaptionedSource:
        return MatchedCaptionSource(self)


class MatchedCaptionSource(CaptionedSource):
    """The images of a split, each with a caption of its own or of another one."""

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        example = super().example(index, epoch, rng)
        other = (index + int(rng.integers(1, max(len(self), 2)))) % len(self)
        matched = rng.random() < 0.5 or other == index
        if not matched:
            example |= self.caption(other, rng)
        weights = example["weights"] * self.is_text(example["segments"])
        return example | {"weights": weights, "next_sentence": np.array(matched, np.int32)}

"""Pairs of an image and a caption to choose from: the right one, and some that have a caption or an image of others."""

import dataclasses

import jax
import numpy as np

from txjax.data.dataset import Example
from txjax.data.images.captioned_images import CaptionedImages, CaptionedSource
from txjax.types import spec

_ROWS = ("tokens", "segments", "image")
CHOICES = 4


@dataclasses.dataclass
class CaptionChoices(CaptionedImages):
    """ViLBERT's task to learn retrieval by (Lu et al. 2019, 3.3): which of four pairs belongs together?

    The first choice is the image with its caption. The others are wrong: the image with the caption of another
    example, another example's image with the caption, and the image with one more caption of others, in the place of
    the paper's hard negative. Examples are drawn uniformly, in every epoch other ones.

    An example: choice_image float32 [4 H W C]; choice_tokens, choice_segments int32 [4 L], as in `CaptionedImages`;
    label int32 [], 0; weights float32 [], 1, or 0 if one of the images was left out.
    """

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        pair = super().spec()
        choices = {f"choice_{key}": spec((CHOICES, *pair[key].shape), pair[key].dtype.name) for key in _ROWS}
        return {"id": pair["id"], "label": spec((), "int32"), "weights": pair["weights"]} | choices

    def examples(self) -> CaptionedSource:
        return CaptionChoiceSource(self)


class CaptionChoiceSource(CaptionedSource):
    """The images of a split, each with choices."""

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        pair = super().example(index, epoch, rng)
        first, second, third = (index + rng.integers(1, max(len(self), 2), CHOICES - 1)) % len(self)
        other = super().example(int(second), epoch, rng)
        pairs = [
            pair,
            pair | self.caption(int(first), rng),
            pair | {"image": other["image"]},
            pair | self.caption(int(third), rng),
        ]
        rows = {f"choice_{key}": np.stack([choice[key] for choice in pairs]) for key in _ROWS}
        weights = np.minimum(pair["weights"], other["weights"])
        return rows | {"label": np.array(0, np.int32), "weights": weights}

"""Images with captions and a model of two towers for tests of evaluations, without files and fast to compile."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from txjax.data import Bytes, CaptionedImages
from txjax.nn import PairFeatures, unit_length
from txjax.types import spec

from helpers.arrays import numbers
from helpers.evaluations import IMAGES

LENGTH = 6
CONTENTS = 40
_rng = np.random.default_rng(6)
IMAGE_NUMBERS = np.sort(_rng.integers(0, len(IMAGES), 90))
TEXTS = _rng.integers(0, CONTENTS, len(IMAGE_NUMBERS))  # fewer than examples: some are those of several images
WEIGHTS = (np.arange(len(IMAGE_NUMBERS)) % 9 != 4).astype(np.float32)
TABLE = numbers(300, 5, seed=8)
np.add.at(TABLE, TEXTS, IMAGES.reshape(len(IMAGES), -1)[IMAGE_NUMBERS, :5])  # so that texts are like their images


@dataclasses.dataclass
class CaptionedPictures(CaptionedImages):
    """90 pairs of one of 53 pictures and one of 40 texts, with any tokens where there is padding."""

    tokenizer: Bytes = dataclasses.field(default_factory=lambda: Bytes(("[CLS]", "[SEP]")))
    length: int = LENGTH

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        text = {key: spec((self.length,), "int32") for key in ("tokens", "segments")}
        image = {"image": spec((4, 4, 1), "float32"), "weights": spec((), "float32")}
        return {"id": spec((), "int32")} | image | text

    def check(self) -> None:
        pass

    def open(self) -> "CaptionedPictureSource":
        return CaptionedPictureSource()


class CaptionedPictureSource:
    fingerprint = "pairs"
    image_numbers = IMAGE_NUMBERS

    def __len__(self) -> int:
        return len(IMAGE_NUMBERS)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {"image": IMAGES[IMAGE_NUMBERS[index]], "weights": WEIGHTS[index]} | self.caption(index, rng)

    def caption(self, index: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        tokens = np.array([TEXTS[index], 7, index, index + 1, index + 2, index + 3], np.int32)
        return {"tokens": tokens, "segments": (np.arange(LENGTH) < 2).astype(np.int32)}


class Towers(nn.Module):
    """Features of an image are its first pixels, those of a text the mean over its tokens of rows of a table."""

    @nn.compact
    def __call__(self, image=None, tokens=None, segments=None, train=False):
        scale = self.param("scale", nn.initializers.ones, ())[None, None]
        from_image = None if image is None else unit_length(image.reshape(len(image), -1)[:, :5] * scale)
        from_text = None
        if tokens is not None:
            weights = (segments > 0).astype(jnp.float32)[:, :, None]
            from_text = unit_length((jnp.asarray(TABLE)[tokens] * weights).sum(1) * scale)
        rows = jnp.ones(len(tokens if image is None else image))
        return PairFeatures(from_image, from_text, rows, rows)

"""Mixing of two images: mixup, CutMix, and a random choice between them.

The second example is any of the data set, drawn with the example's own generator, so a batch does not depend on how it
is split over hosts. (timm mixes a batch with its own reverse.) Reading it doubles the cost of an example.
"""

import dataclasses

import numpy as np

from txjax.errors import UserError
from txjax.types import config_field


@dataclasses.dataclass
class Mixing:
    """Base class: mixes two normalized images."""

    def check(self) -> None:
        """Raises UserError for invalid settings."""

    def __call__(self, image: np.ndarray, other: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """The mixed image, float32 [H W C], and the share of `image` in it. Both images may be written to."""
        raise NotImplementedError


@dataclasses.dataclass
class Mixup(Mixing):
    """Mixup: share * image + (1 - share) * other, share ~ Beta(alpha, alpha) (Zhang et al. 2018, 2)."""

    alpha: float = config_field(0.8, above=0)

    def __call__(self, image: np.ndarray, other: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        share = np.float32(rng.beta(self.alpha, self.alpha))
        image -= other  # in place: new arrays cost more than the arithmetic
        image *= share
        image += other
        return image, float(share)


@dataclasses.dataclass
class CutMix(Mixing):
    """CutMix: replaces a box of the image by the other image (Yun et al. 2019, 3.1).

    With lambda ~ Beta(alpha, alpha) the box has the image's aspect ratio and the fraction 1 - lambda of its area, and
    its center is uniform. It is clipped at the image's border; `share` is the fraction of `image` that remains.
    """

    alpha: float = config_field(1.0, above=0)

    def __call__(self, image: np.ndarray, other: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        height, width, _ = image.shape
        side = np.sqrt(1 - rng.beta(self.alpha, self.alpha))
        rows = int(height * side)
        columns = int(width * side)
        top = int(rng.integers(height)) - rows // 2
        left = int(rng.integers(width)) - columns // 2
        box = slice(max(top, 0), max(top + rows, 0)), slice(max(left, 0), max(left + columns, 0))
        image[box] = other[box]
        return image, 1 - image[box][..., 0].size / (height * width)


@dataclasses.dataclass
class OneOf(Mixing):
    """One of several mixings, drawn per example; timm switches between mixup and CutMix per batch.

    Attributes:
      ways: the mixings.
      weights: the relative frequency of each.
    """

    ways: tuple[Mixing, ...] = config_field(factory=lambda: (Mixup(), CutMix()))
    weights: tuple[float, ...] = (1.0, 1.0)

    def check(self) -> None:
        if not self.ways:
            raise UserError("data.mix.ways", "at least one mixing", self.ways)
        for way in self.ways:
            way.check()
        if len(self.weights) != len(self.ways) or min(self.weights) < 0 or sum(self.weights) == 0:
            raise UserError("data.mix.weights", f"{len(self.ways)} numbers of at least 0, not all 0", self.weights)

    def __call__(self, image: np.ndarray, other: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        way = rng.choice(len(self.ways), p=np.array(self.weights) / sum(self.weights))
        return self.ways[way](image, other, rng)

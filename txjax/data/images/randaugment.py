"""RandAugment: a few random operations of the same magnitude."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from txjax.data.images.pixels import to_array, to_picture
from txjax.data.images.transforms import Transform
from txjax.errors import require
from txjax.types import config_field

GREY = 128  # fills pixels from outside the image
Operation = Callable[[Any, float], Any]


@dataclasses.dataclass
class RandAugment(Transform):
    """Applies `layers` operations, drawn with replacement from the published fourteen (Cubuk et al. 2020, 3).

    Magnitude 0 changes nothing (except AutoContrast and Equalize, which have no magnitude) and 10 is the strongest:

        Identity, AutoContrast, Equalize
        ShearX, ShearY          by up to 0.3
        TranslateX, TranslateY  by up to 0.45 of the side
        Rotate                  by up to 30 degrees
        Brightness, Color, Contrast, Sharpness   factor 1 +- up to 0.9
        Posterize               keeps 8 down to 4 bits
        Solarize                inverts pixels above a threshold of 256 down to 0

    The direction is random. Geometric operations are bilinear, with grey outside. These are torchvision's ranges and
    timm's "increasing" ones; in the paper's code three operations become weaker with the magnitude. timm's
    `rand-m9-mstd0.5-inc1` is `RandAugment(magnitude=9, deviation=0.5, probability=0.5)`, except for two operations that
    timm adds to the paper's (Invert, SolarizeAdd).

    Attributes:
      layers: N of the paper.
      magnitude: M of the paper, from 0 to 10.
      deviation: the standard deviation of each operation's magnitude, normal around `magnitude`, clipped to 0..10.
      probability: the probability that a drawn operation is applied.
    """

    layers: int = config_field(2, at_least=0)
    magnitude: float = config_field(9.0, at_least=0, at_most=10)
    deviation: float = config_field(0.0, at_least=0)
    probability: float = config_field(1.0, at_least=0, at_most=1)

    def check(self) -> None:
        require("PIL", "pillow", "data.transforms")

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        picture = to_picture(image, "RandAugment")
        for name in rng.choice(list(OPERATIONS), self.layers):
            happens = rng.random() < self.probability
            direction = rng.choice((-1, 1))
            magnitude = float(np.clip(rng.normal(self.magnitude, self.deviation), 0, 10))
            if happens:
                picture = OPERATIONS[name](picture, direction * magnitude / 10)
        return to_array(picture)


def _warp(matrix: Callable[[Any, float], tuple[float, ...]]) -> Operation:
    """The operation whose affine matrix (a, b, c, d, e, f) maps a point of the result to one of the picture."""

    def operation(picture: Any, strength: float) -> Any:
        from PIL import Image

        fill = GREY if picture.mode == "L" else (GREY,) * 3
        return picture.transform(
            picture.size,
            Image.Transform.AFFINE,
            matrix(picture, strength),
            resample=Image.Resampling.BILINEAR,
            fillcolor=fill,
        )

    return operation


def _rotate(picture: Any, strength: float) -> Any:
    from PIL import Image

    fill = GREY if picture.mode == "L" else (GREY,) * 3
    return picture.rotate(30 * strength, resample=Image.Resampling.BILINEAR, fillcolor=fill)


def _enhance(name: str) -> Operation:
    def operation(picture: Any, strength: float) -> Any:
        from PIL import ImageEnhance

        return getattr(ImageEnhance, name)(picture).enhance(1 + 0.9 * strength)

    return operation


def _ops(name: str, *settings: Callable[[float], int]) -> Operation:
    """A function of Pillow's ImageOps, with arguments computed from the magnitude in [0, 1]."""

    def operation(picture: Any, strength: float) -> Any:
        from PIL import ImageOps

        return getattr(ImageOps, name)(picture, *(config_field(abs(strength)) for config_field in settings))

    return operation


# name: (picture, strength in [-1, 1]) -> picture
OPERATIONS: dict[str, Operation] = {
    "Identity": lambda picture, strength: picture,
    "AutoContrast": _ops("autocontrast"),
    "Equalize": _ops("equalize"),
    "Rotate": _rotate,
    "Solarize": _ops("solarize", lambda m: round(256 * (1 - m))),
    "Color": _enhance("Color"),
    "Posterize": _ops("posterize", lambda m: round(8 - 4 * m)),
    "Contrast": _enhance("Contrast"),
    "Brightness": _enhance("Brightness"),
    "Sharpness": _enhance("Sharpness"),
    "ShearX": _warp(lambda picture, s: (1, 0.3 * s, 0, 0, 1, 0)),
    "ShearY": _warp(lambda picture, s: (1, 0, 0, 0.3 * s, 1, 0)),
    "TranslateX": _warp(lambda picture, s: (1, 0, 0.45 * s * picture.width, 0, 1, 0)),
    "TranslateY": _warp(lambda picture, s: (1, 0, 0, 0, 1, 0.45 * s * picture.height)),
}

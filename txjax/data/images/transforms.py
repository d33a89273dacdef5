"""Image transforms before normalization: their base, channels, erasing. `geometric` has crops, flips and resizing."""

import dataclasses

import numpy as np

from txjax.data.images.pixels import to_array, to_picture
from txjax.data.images.random_boxes import check_box, draw_box
from txjax.errors import UserError, require
from txjax.types import config_field


@dataclasses.dataclass
class Transform:
    """Base class: transforms an image, uint8 [H W C]. All randomness comes from `rng`, keyed by example and epoch."""

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The new image, uint8 [H W C]; the argument is not changed."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises UserError if this transform cannot be used."""

    def choose(self, rng: np.random.Generator) -> "tuple[Transform, ...]":
        """The transforms that are applied: itself, unless it is a choice among others."""
        return (self,)


@dataclasses.dataclass
class Either(Transform):
    """One of two sequences of transforms, each with probability 1/2.

    Attributes:
      first, second: the sequences, such as (RandomCrop(), Resize(64)).
    """

    first: tuple[Transform, ...] = ()
    second: tuple[Transform, ...] = ()

    def check(self) -> None:
        for transform in (*self.first, *self.second):
            transform.check()

    def choose(self, rng: np.random.Generator) -> tuple[Transform, ...]:
        chosen = (self.first, self.second)[int(rng.integers(2))]
        return tuple(part for transform in chosen for part in transform.choose(rng))

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        for transform in self.choose(rng):
            image = transform(image, rng)
        return image


@dataclasses.dataclass
class RandomErasing(Transform):
    """Fills a random box with uniform noise in [0, 255] per value (Zhong et al. 2020, algorithm 1, RE-R).

    The box is drawn as in `RandomResizedCrop`, as in timm (the paper draws width : height uniformly); if ten boxes
    don't fit, nothing is erased. timm erases after normalization, with normal noise.

    Attributes:
      probability: the probability of erasing.
      area: the range of the box's area, as a fraction of the image's.
      ratio: the range of width : height.
    """

    probability: float = config_field(0.25, at_least=0, at_most=1)
    area: tuple[float, float] = (0.02, 1 / 3)
    ratio: tuple[float, float] = (0.3, 10 / 3)

    def check(self) -> None:
        check_box("RandomErasing", self.area, self.ratio)

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if rng.random() >= self.probability:
            return image
        box = draw_box(rng, image.shape[0], image.shape[1], self.area, self.ratio)
        if box is None:
            return image
        top, left, height, width = box
        image = image.copy()
        image[top : top + height, left : left + width] = rng.integers(
            256, size=(height, width, image.shape[2]), dtype=np.uint8
        )
        return image


@dataclasses.dataclass
class Channels(Transform):
    """Converts an image to `count` channels: grey to color by repetition, color to grey by ITU-R 601's luma.

    An alpha channel (a second or fourth one) is dropped.
    """

    count: int = config_field(3, choices=(1, 3))

    def check(self) -> None:
        require("PIL", "pillow", "data.transforms")

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if image.shape[2] == self.count:
            return image
        picture = to_picture(image, "Channels", (1, 2, 3, 4))
        return to_array(picture.convert("L" if self.count == 1 else "RGB"))


@dataclasses.dataclass
class Multiply(Transform):
    """Multiplies all values by `factor`: for images whose values are not 0 to 255."""

    factor: int = config_field(255, at_least=1, at_most=255)

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if int(image.max(initial=0)) * self.factor > 255:
            raise UserError("data.transforms", f"values of at most {255 // self.factor} for Multiply", int(image.max()))
        return image * np.uint8(self.factor)

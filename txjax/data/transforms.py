"""Image transforms before normalization: crop, flip, resize, channels, erasing."""

import dataclasses
import math
from typing import Any

import numpy as np

from txjax.types import UserError, config_field, require

Box = tuple[int, int, int, int]  # top, left, height, width


@dataclasses.dataclass
class Transform:
    """Base class: transforms an image, uint8 [H W C]. All randomness comes from `rng`, keyed by example and epoch."""

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The new image, uint8 [H W C]; the argument is not changed."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises UserError if this transform cannot be used."""


@dataclasses.dataclass
class PadCrop(Transform):
    """Pads every side with `pad` black pixels and crops to the old size at a random position."""

    pad: int = config_field(1, at_least=0)

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        top, left = rng.integers(2 * self.pad + 1, size=2)
        height, width, channels = image.shape
        padded = np.zeros((height + 2 * self.pad, width + 2 * self.pad, channels), np.uint8)
        padded[self.pad : self.pad + height, self.pad : self.pad + width] = image
        return padded[top : top + height, left : left + width]


@dataclasses.dataclass
class Flip(Transform):
    """Swaps left and right with probability 1/2."""

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if rng.random() >= 0.5:
            return image
        flipped = np.empty_like(image)
        for channel in range(image.shape[2]):  # four times as fast as all at once
            flipped[..., channel] = image[:, ::-1, channel]
        return flipped


@dataclasses.dataclass
class Resize(Transform):
    """Resizes the shorter side to `size` pixels, bicubic and antialiased; the aspect ratio is kept."""

    size: int = config_field(224, at_least=1)

    def check(self) -> None:
        require("PIL", "pillow", "data.transforms")

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        height, width, _ = image.shape
        scale = self.size / min(height, width)
        return resized(image, round(height * scale), round(width * scale))


@dataclasses.dataclass
class Stretch(Transform):
    """Resizes to `size` x `size` pixels, bicubic and antialiased, whatever the aspect ratio."""

    size: int = config_field(224, at_least=1)

    def check(self) -> None:
        require("PIL", "pillow", "data.transforms")

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return resized(image, self.size, self.size)


@dataclasses.dataclass
class CenterCrop(Transform):
    """Crops the central `size` x `size` pixels."""

    size: int = config_field(224, at_least=1)

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        top, left = (image.shape[0] - self.size) // 2, (image.shape[1] - self.size) // 2
        if min(top, left) < 0:
            hint = "put Resize before it"
            raise UserError("data.transforms", f"CenterCrop of at most {min(image.shape[:2])}", self.size, hint=hint)
        return image[top : top + self.size, left : left + self.size]


@dataclasses.dataclass
class RandomResizedCrop(Transform):
    """Crops a random box and resizes it to `size` x `size` pixels, bicubic and antialiased (Szegedy et al. 2015, 6).

    Its area is uniform in `area` times the image's, its width : height log-uniform in `ratio`, its position uniform. If
    ten such boxes don't fit, it is the largest central box with width : height in `ratio`, as in torchvision.
    """

    size: int = config_field(224, at_least=1)
    area: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def check(self) -> None:
        require("PIL", "pillow", "data.transforms")
        check_box("RandomResizedCrop", self.area, self.ratio)

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        box = draw_box(rng, image.shape[0], image.shape[1], self.area, self.ratio)
        top, left, height, width = box or middle_box(image.shape[0], image.shape[1], self.ratio)
        return resized(image[top : top + height, left : left + width], self.size, self.size)


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


def draw_box(
    rng: np.random.Generator, height: int, width: int, area: tuple[float, float], ratio: tuple[float, float]
) -> Box | None:
    """A random box in an image: area uniform, width : height log-uniform, position uniform. None if ten don't fit."""
    for _ in range(10):
        pixels = rng.uniform(*area) * height * width
        shape = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
        rows, columns = round(math.sqrt(pixels / shape)), round(math.sqrt(pixels * shape))
        if 0 < rows <= height and 0 < columns <= width:
            return int(rng.integers(height - rows + 1)), int(rng.integers(width - columns + 1)), rows, columns
    return None


def middle_box(height: int, width: int, ratio: tuple[float, float]) -> Box:
    """The largest central box of an image with width : height in `ratio`."""
    rows, columns = height, width
    if width < ratio[0] * height:
        rows = round(width / ratio[0])
    elif width > ratio[1] * height:
        columns = round(height * ratio[1])
    return (height - rows) // 2, (width - columns) // 2, rows, columns


def check_box(owner: str, area: tuple[float, float], ratio: tuple[float, float]) -> None:
    """Raises UserError for invalid ranges."""
    if not (len(area) == 2 and 0 < area[0] <= area[1] <= 1):
        raise UserError("data.transforms", f"{owner}.area to be two ascending numbers in (0, 1]", area)
    if not (len(ratio) == 2 and 0 < ratio[0] <= ratio[1]):
        raise UserError("data.transforms", f"{owner}.ratio to be two ascending numbers above 0", ratio)


def to_picture(image: np.ndarray, owner: str, channels: tuple[int, ...] = (1, 3)) -> Any:
    """An image, uint8 [H W C], as Pillow's. Raises UserError, naming `owner`, for other numbers of channels."""
    from PIL import Image

    if image.shape[2] not in channels:
        hint = "" if owner == "Channels" else "put Channels(count) before it"
        expected = f"images of {' or '.join(map(str, channels))} channels for {owner}"
        raise UserError("data.transforms", expected, f"{image.shape[2]} channels", hint=hint)
    return Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)


def to_array(picture: Any) -> np.ndarray:
    """A Pillow image as uint8 [H W C]."""
    array = np.asarray(picture)
    return array[..., None] if array.ndim == 2 else array


def resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """The image at another size, bicubic and antialiased."""
    from PIL import Image

    return to_array(to_picture(image, "resizing").resize((width, height), Image.Resampling.BICUBIC))

"""Geometric transforms of images: crop, flip, resize. Each is a `View`, by which boxes and masks follow the pixels."""

import dataclasses

import numpy as np

from txjax.data.images.random_boxes import check_box, draw_box, middle_box
from txjax.data.images.transforms import Transform
from txjax.data.images.views import View
from txjax.errors import UserError, require
from txjax.types import config_field


@dataclasses.dataclass
class Geometric(Transform):
    """Base class: shows a part of an image."""

    def view(self, height: int, width: int, rng: np.random.Generator) -> View:
        """The part of an image of this size that is shown."""
        raise NotImplementedError

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.view(image.shape[0], image.shape[1], rng).of_image(image)


@dataclasses.dataclass
class PadCrop(Geometric):
    """Pads every side with `pad` black pixels and crops to the old size at a random position."""

    pad: int = config_field(1, at_least=0)

    def view(self, height: int, width: int, rng: np.random.Generator) -> View:
        top, left = rng.integers(2 * self.pad + 1, size=2)
        return View.crop(int(top) - self.pad, int(left) - self.pad, height, width)


@dataclasses.dataclass
class Flip(Geometric):
    """Swaps left and right with probability 1/2."""

    def view(self, height: int, width: int, rng: np.random.Generator) -> View:
        return View.whole(height, width, mirrored=bool(rng.random() < 0.5))


@dataclasses.dataclass
class Resize(Geometric):
    """Resizes the shorter side to `size` pixels, bicubic and antialiased; the aspect ratio is kept."""

    size: int = config_field(224, at_least=1)

    def check(self) -> None:
        require("PIL", "pillow", "data.transforms")

    def view(self, height: int, width: int, rng: np.random.Generator) -> View:
        scale = self.size / min(height, width)
        return View.whole(height, width, round(height * scale), round(width * scale))


@dataclasses.dataclass
class ResizeWithin(Geometric):
    """Resizes so that the shorter side is one of `sides`, or less where the longer one would pass `longest`.

    As DETR's training does (Carion et al. 2020, appendix A.4); the aspect ratio is kept, bicubic and antialiased.
    """

    sides: tuple[int, ...] = (800,)
    longest: int = config_field(1333, at_least=1)

    def check(self) -> None:
        require("PIL", "pillow", "data.transforms")
        if not self.sides or min(self.sides) < 1:
            raise UserError("data.transforms", "ResizeWithin.sides to be one or more numbers above 0", self.sides)

    def view(self, height: int, width: int, rng: np.random.Generator) -> View:
        side = self.sides[int(rng.integers(len(self.sides)))]
        scale = min(side / min(height, width), self.longest / max(height, width))
        return View.whole(height, width, max(1, int(height * scale)), max(1, int(width * scale)))


@dataclasses.dataclass
class Stretch(Geometric):
    """Resizes to `size` x `size` pixels, bicubic and antialiased, whatever the aspect ratio."""

    size: int = config_field(224, at_least=1)

    def check(self) -> None:
        require("PIL", "pillow", "data.transforms")

    def view(self, height: int, width: int, rng: np.random.Generator) -> View:
        return View.whole(height, width, self.size, self.size)


@dataclasses.dataclass
class CenterCrop(Geometric):
    """Crops the central `size` x `size` pixels."""

    size: int = config_field(224, at_least=1)

    def view(self, height: int, width: int, rng: np.random.Generator) -> View:
        top = (height - self.size) // 2
        left = (width - self.size) // 2
        if min(top, left) < 0:
            hint = "put Resize before it"
            raise UserError("data.transforms", f"CenterCrop of at most {min(height, width)}", self.size, hint=hint)
        return View.crop(top, left, self.size, self.size)


@dataclasses.dataclass
class RandomCrop(Geometric):
    """Crops a random box whose sides are uniform from `smallest` to `largest` pixels, or the image's if smaller.

    As DETR's training does (Carion et al. 2020, appendix A.4).
    """

    smallest: int = config_field(384, at_least=1)
    largest: int = config_field(600, at_least=1)

    def check(self) -> None:
        if self.largest < self.smallest:
            raise UserError("data.transforms", f"RandomCrop.largest of at least {self.smallest}", self.largest)

    def view(self, height: int, width: int, rng: np.random.Generator) -> View:
        rows, columns = (
            int(rng.integers(min(self.smallest, side), min(self.largest, side), endpoint=True))
            for side in (height, width)
        )
        top, left = (int(rng.integers(most, endpoint=True)) for most in (height - rows, width - columns))
        return View.crop(top, left, rows, columns)


@dataclasses.dataclass
class RandomResizedCrop(Geometric):
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

    def view(self, height: int, width: int, rng: np.random.Generator) -> View:
        box = draw_box(rng, height, width, self.area, self.ratio) or middle_box(height, width, self.ratio)
        return View(*box, self.size, self.size)

"""An image with annotated boxes, which follow its pixels through transforms."""

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from txjax.data.images.geometric import Geometric
from txjax.data.images.transforms import Transform
from txjax.data.images.views import View

ROUNDING = 1e-6  # of an image's side: a box that reaches beyond it by less is not reported


@dataclasses.dataclass(frozen=True)
class Annotations:
    """Boxes of an image, of N objects or N crowds.

    Attributes:
      boxes: (top, left, bottom, right) as fractions of the image.
      labels: the class of each.
      areas: of what of each is in the image, in pixels of the stored image.
      masks: 1 inside each object, else 0. If None, there are none.
      attributes: the attribute of each, -1 for none. If None, there are none.
    """

    boxes: Float[np.ndarray, "N 4"]
    labels: Int[np.ndarray, "N"]
    areas: Float[np.ndarray, "N"]
    masks: Int[np.ndarray, "N H W"] | None = None
    attributes: Int[np.ndarray, "N"] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: Bool[np.ndarray, "N"]) -> "Annotations":
        """The annotations of these rows."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        chosen: dict[str, Any] = {name: None if x is None else x[rows] for name, x in values.items()}
        return Annotations(**chosen)

    def apply_view(self, view: View, height: int, width: int) -> "Annotations":
        """What a view of the image shows of them, without those of which nothing is left.

        Args:
          height, width: of the image before, in pixels.
        """
        boxes, remains = view.of_boxes(self.boxes, height, width)
        before = _shares(self.boxes) * height * width
        after = _shares(boxes) * view.height * view.width
        shares = np.where(after < (1 - 1e-4) * before, after / before, 1)  # of a whole box exactly 1
        masks = None if self.masks is None else view.of_masks(self.masks)
        areas = (self.areas * shares).astype(np.float32)
        return dataclasses.replace(self, boxes=boxes, areas=areas, masks=masks).select(remains)


@dataclasses.dataclass(frozen=True)
class Scene:
    """An image with its annotations.

    Attributes:
      image: the pixels.
      objects: the annotations of single objects.
      crowds: the annotations of groups whose members are not annotated one by one. They have no masks.
      stored_extent: rows and columns of the part of the stored image that is shown.
    """

    image: UInt8[np.ndarray, "H W C"]
    objects: Annotations
    crowds: Annotations
    stored_extent: tuple[float, float]

    def apply_transform(self, transform: Transform, rng: np.random.Generator) -> "Scene":
        """The scene after a transform; boxes and masks follow a geometric one."""
        if (parts := transform.choose(rng)) != (transform,):
            return functools.reduce(lambda scene, part: scene.apply_transform(part, rng), parts, self)
        if not isinstance(transform, Geometric):
            return dataclasses.replace(self, image=transform(self.image, rng))
        height, width = self.image.shape[:2]
        view = transform.view(height, width, rng)
        rows, columns = self.stored_extent
        return Scene(
            view.of_image(self.image),
            self.objects.apply_view(view, height, width),
            self.crowds.apply_view(view, height, width),
            (rows * view.height / height, columns * view.width / width),
        )


def clip_boxes(
    boxes: Float[np.ndarray, "N 4"],
) -> tuple[Float[np.ndarray, "N 4"], Bool[np.ndarray, "N"], Bool[np.ndarray, "N"]]:
    """Boxes cut at the border of their image, which of them have an area in it, and which of these were cut.

    A box with a number that is not finite, or whose lower right corner is not below and to the right of the upper left
    one, has no area.
    """
    inside = boxes.clip(0, 1)
    usable = np.isfinite(boxes).all(1) & (inside[:, 2:] > inside[:, :2]).all(1)
    cut = usable & ((boxes < -ROUNDING) | (boxes > 1 + ROUNDING)).any(1)
    return inside, usable, cut


def box_areas(boxes: Float[np.ndarray, "N 4"], height: int, width: int) -> Float[np.ndarray, "N"]:
    """The areas of boxes in pixels of an image of this size."""
    return (_shares(boxes) * height * width).astype(np.float32)


def _shares(boxes: Float[np.ndarray, "N 4"]) -> Float[np.ndarray, "N"]:
    """The areas of boxes as fractions of the image, in float64."""
    sides = boxes[:, 2:].astype(np.float64) - boxes[:, :2]
    return sides.prod(1)

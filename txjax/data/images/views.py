"""What part of an image a geometric transform shows, and where its pixels, boxes and masks come to lie."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int

from txjax.data.images.pixels import resize_image


@dataclasses.dataclass(frozen=True)
class View:
    """A box of an image, brought to a size, and mirrored or not.

    Attributes:
      top, left, height, width: the box in pixels of the image; it may reach beyond it, where pixels are black.
      rows, columns: the size of the result.
      mirrored: whether left and right are swapped afterwards.
    """

    top: int
    left: int
    height: int
    width: int
    rows: int
    columns: int
    mirrored: bool = False

    @classmethod
    def whole(cls, height: int, width: int, rows: int = 0, columns: int = 0, mirrored: bool = False) -> "View":
        """The whole image, at another size if `rows` and `columns` are given."""
        return cls(0, 0, height, width, rows or height, columns or width, mirrored)

    @classmethod
    def crop(cls, top: int, left: int, height: int, width: int) -> "View":
        """A box of the image at its own size."""
        return cls(top, left, height, width, height, width)

    def of_image(self, image: np.ndarray) -> np.ndarray:
        """uint8 [H W C] -> uint8 [rows columns C], bicubic and antialiased."""
        box = self._crop(image)
        if (self.rows, self.columns) != (self.height, self.width):
            box = resize_image(box, self.rows, self.columns)
        return _mirror(box) if self.mirrored else box

    def of_masks(self, masks: Int[np.ndarray, "N H W"]) -> Int[np.ndarray, "N rows columns"]:
        """The masks, by the nearest pixel."""
        boxes = np.stack([self._crop(mask[..., None])[..., 0] for mask in masks]) if len(masks) else masks
        masks_in_view = np.empty((len(masks), self.rows, self.columns), masks.dtype)
        if len(masks):
            row = ((np.arange(self.rows) + 0.5) * self.height / self.rows).astype(int)
            column = ((np.arange(self.columns) + 0.5) * self.width / self.columns).astype(int)
            masks_in_view[:] = boxes[:, row[:, None], column[None]]
        return masks_in_view[..., ::-1] if self.mirrored else masks_in_view

    def of_boxes(
        self, boxes: Float[np.ndarray, "N 4"], height: int, width: int
    ) -> tuple[Float[np.ndarray, "N 4"], Bool[np.ndarray, "N"]]:
        """Boxes (top, left, bottom, right) as fractions of the view, clipped to it, and which are still in it.

        Args:
          boxes: as fractions of the image.
          height, width: of the image, in pixels.
        """
        pixels = boxes * np.array([height, width, height, width])
        corner = np.array([self.top, self.left] * 2)
        size = np.array([self.height, self.width] * 2)
        clipped = (pixels - corner) / size
        if self.mirrored:
            clipped[:, [1, 3]] = 1 - clipped[:, [3, 1]]
        clipped = clipped.clip(0, 1).astype(np.float32)  # before the comparison: a sliver may have no area in float32
        return clipped, (clipped[:, 2] > clipped[:, 0]) & (clipped[:, 3] > clipped[:, 1])

    def _crop(self, image: np.ndarray) -> np.ndarray:
        """[H W C] -> [height width C], black outside the image."""
        bottom = self.top + self.height
        right = self.left + self.width
        if min(self.top, self.left) >= 0 and bottom <= image.shape[0] and right <= image.shape[1]:
            return image[self.top : bottom, self.left : right]
        top = max(self.top, 0)
        left = max(self.left, 0)
        inside = image[top : max(bottom, 0), left : max(right, 0)]
        padded = np.zeros((self.height, self.width, image.shape[2]), image.dtype)
        row = top - self.top
        column = left - self.left
        padded[row : row + inside.shape[0], column : column + inside.shape[1]] = inside
        return padded


def _mirror(image: np.ndarray) -> np.ndarray:
    mirrored = np.empty_like(image)
    for channel in range(image.shape[2]):  # four times as fast as all at once
        mirrored[..., channel] = image[:, ::-1, channel]
    return mirrored

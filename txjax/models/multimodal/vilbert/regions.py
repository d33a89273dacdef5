"""The regions of an image that ViLBERT reads: given by a detector, or the cells of a grid."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.nn import patchify
from txjax.types import config_field


class RegionSet(NamedTuple):
    """The regions of each image of a batch. The first one is the whole image.

    Attributes:
      features: what is known of each region's content.
      boxes: top, left, bottom, right, as fractions of the image's height and width.
      segments: 0 is padding. If None, nothing is padding.
    """

    features: Float[Array, "B R features"]
    boxes: Float[Array, "#B R 4"]
    segments: Int[Array, "B R"] | None

    def place_numbers(self) -> Float[Array, "#B R 5"]:
        """Left, top, right and bottom of each region, and its share of the image's area (Lu et al. 2019, 3.1)."""
        top, left, bottom, right = jnp.moveaxis(self.boxes, -1, 0)
        return jnp.stack([left, top, right, bottom, (bottom - top) * (right - left)], axis=-1)


@dataclasses.dataclass
class Regions:
    """Base of ways to get regions from a batch.

    Attributes:
      argument: the key of the batch that they are made of.
    """

    argument: ClassVar[str]

    def read(self, inputs: Mapping[str, Any]) -> RegionSet:
        """The regions of a batch.

        Args:
          inputs: what the model is called with, by the keys of a batch.

        Raises:
          UserError: the batch lacks what they are made of.
        """
        raise NotImplementedError


@dataclasses.dataclass
class GivenRegions(Regions):
    """Regions that the data set gives: `regions`, `region_boxes` and, where some are padding, `region_segments`.

    The first one should be the whole image, with the mean of the others' features (Lu et al. 2019, 3.1).
    """

    argument: ClassVar[str] = "regions"

    def read(self, inputs: Mapping[str, Any]) -> RegionSet:
        if inputs.get("regions") is None or inputs.get("region_boxes") is None:
            hint = "GridRegions(patch=...) as config.model.regions reads images"
            raise UserError("config.data", "examples with regions and region_boxes", "none", hint=hint)
        return RegionSet(inputs["regions"], inputs["region_boxes"], inputs.get("region_segments"))


@dataclasses.dataclass
class GridRegions(Regions):
    """The cells of a grid over the image, row by row, after the whole image. The features of a cell are its pixels.

    The whole image has the mean of its cells' features.

    Attributes:
      patch: side of a cell in pixels.
    """

    argument: ClassVar[str] = "image"

    patch: int = config_field(at_least=1)

    def read(self, inputs: Mapping[str, Any]) -> RegionSet:
        image = inputs.get("image")
        if image is None:
            hint = "GivenRegions() as config.model.regions reads regions of a detector"
            raise UserError("config.data", "examples with image", "none", hint=hint)
        cells = patchify(image, self.patch)
        features = jnp.concatenate([cells.mean(1, keepdims=True), cells], axis=1)
        return RegionSet(features, grid_boxes(*(side // self.patch for side in image.shape[1:3])), None)


def grid_boxes(rows: int, columns: int) -> Float[Array, "1 R 4"]:
    """The box of the whole image, and the box of each cell of a grid, row by row."""
    row, column = np.mgrid[:rows, :columns].reshape(2, -1)
    cells = np.stack([row / rows, column / columns, (row + 1) / rows, (column + 1) / columns], axis=1)
    return jnp.asarray(np.concatenate([[[0.0, 0.0, 1.0, 1.0]], cells])[None], jnp.float32)

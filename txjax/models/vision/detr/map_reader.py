"""What models of a backbone's feature map share: its tokens, with their positions and what is not padding."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.errors import UserError
from txjax.models.model import Model
from txjax.models.transformer import Transformer
from txjax.models.vision.detr.map_positions import MapPositions, SineMap
from txjax.nn import (
    MLP,
    Block,
    Encoded,
    Init,
    LayerNorm,
    Linear,
    Mask,
    Mixer,
    Norm,
    PositionedAttention,
    PostNorm,
    StackInputs,
    Xavier,
)
from txjax.types import config_field


class MapReader(Transformer, kw_only=True):
    """The fields of a model that reads a backbone's feature map, with layers in DETR's style (Carion et al. 2020, 3.2).

    Attributes:
      backbone: an encoder of images with `head=None` and no class token.
      map_positions: of the feature map: `SineMap`, `LearnedMap`.
    """

    backbone: Model = config_field()
    map_positions: MapPositions = dataclasses.field(default_factory=SineMap)
    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=PositionedAttention)
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-5))
    mlp: MLP = dataclasses.field(default_factory=lambda: MLP(activation="relu"))
    block: Block = dataclasses.field(default_factory=PostNorm)
    initial: Init = dataclasses.field(default_factory=Xavier)

    def read_map(
        self, image: Float[Array, "B H W C"], extent: Int[Array, "B 2"] | None, train: bool
    ) -> tuple[Float[Array, "B N D"], StackInputs]:
        """The places of the feature map, and what a stack gets beside them: their positions are `added`.

        Parameters: `backbone`, `project`, `map_positions` if they are learned.

        Args:
          extent: rows and columns of the image that are not padding. If None, all are.
        """
        encoded = self.backbone(image, train=train)
        if not isinstance(encoded, Encoded) or encoded.grid is None or encoded.prefix:
            expected = "an encoder of images with head=None and no class token"
            raise UserError("config.model.backbone", expected, type(self.backbone).__name__)
        grid = encoded.grid
        mask = pixel_mask(image, extent, grid.rows, grid.columns)
        segments = None if extent is None else mask.reshape(len(image), -1).astype(jnp.int32)
        positions = self.map_positions(mask, self.width)
        project = Linear((self.width,), ("embed",), ("width",), kernel_init=self.kernel_init, name="project")
        numbers = jnp.arange(grid.rows * grid.columns, dtype=jnp.int32)[None]
        inputs = StackInputs(numbers, numbers, Mask.within(segments), train, grid=grid, added=positions)
        return project(encoded.features.astype(self.dtype)), inputs


def pixel_mask(
    image: Float[Array, "B H W C"], extent: Int[Array, "B 2"] | None, rows: int, columns: int
) -> Bool[Array, "B {rows} {columns}"]:
    """The parts of a map of rows x columns whose nearest pixel is not padding; at least the first one."""
    if extent is None:
        return jnp.ones((len(image), rows, columns), bool)
    row, column = (
        (jnp.arange(count) * side // count)[None] < jnp.maximum(extent[:, axis, None], 1)
        for axis, (count, side) in enumerate(zip((rows, columns), image.shape[1:3], strict=True))
    )
    return row[:, :, None] & column[:, None, :]

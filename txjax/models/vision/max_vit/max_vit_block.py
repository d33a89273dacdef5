"""The block of MaxViT: a convolution, attention nearby, attention all over the grid."""

from typing import ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.models.vision.max_vit.mb_conv import MBConv
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.attention.prompted_grid import on_patches
from txjax.nn.attention.window_attention import GridAttention
from txjax.nn.layers.mlp import MLP
from txjax.nn.stack.block import Layer
from txjax.nn.stack.residual_units import PreNorm


class MaxViTBlock(PreNorm):
    """`PreNorm` with two attentions, an MLP after each, and an `MBConv` before them (Tu et al. 2022, MaxViT, 3.3).

    The `MBConv` leaves an adapter's tokens as they are.

    Attributes:
      conv: of stride 1. If None, the downsampling before this layer has it. Set by the model, as the next ones.
      grid_attention: the second attention; `mixer` is the first one.
      grid_mlp: the MLP after it.
    """

    final_norm: ClassVar[bool] = False
    conv: MBConv | None = None
    grid_attention: GridAttention | None = None
    grid_mlp: MLP | None = None

    @property
    def branches(self) -> int:
        return 4 if self.conv is None else 5

    @nn.nowrap
    def layers(self, context: LayerContext) -> dict[str, tuple[Layer, LayerContext]]:
        assert self.grid_attention and self.grid_mlp
        more = {"grid_attention": (self.grid_attention, context), "grid_mlp": (self.grid_mlp, context)}
        return super().layers(context) | more

    @nn.compact
    def __call__(
        self, x: Float[Array, "B L D"], context: LayerContext, depth_fraction: float | Float[Array, ""] = 1.0
    ) -> Float[Array, "B L D"]:
        if self.conv is not None:
            assert context.grid is not None
            conv = self.conv
            grid = context.grid._replace(prefix=0)
            x = on_patches(
                lambda patches: conv(patches, grid, context.train, depth_fraction)[0], x, context.mask.prefix
            )
        return super().__call__(x, context, depth_fraction)

"""Attention inside windows of a grid of patches, which shift from layer to layer (Liu et al. 2021, Swin)."""

from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.attention.attention import Attention
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.attention.prompted_grid import (
    bias_after_prompt,
    cut_after_prompt,
    grid_alone,
    join_after_prompt,
    mask_after_prompt,
)
from txjax.nn.attention.windows import StridedWindows, Windows
from txjax.nn.kernels.mask import Mask
from txjax.nn.layers.linear import parameter
from txjax.types import config_field


class WindowAttention(Attention):
    """Attention among the patches of a window, with a learned bias for each difference of rows and columns (3.2).

    Windows that lie still and shifted ones take turns: `mixer=(WindowAttention(side=7), WindowAttention(side=7,
    shift=3))`. A grid that the side doesn't divide is padded with zeros below and on the right, which are attended to,
    as in the paper's code; a grid no larger than a window has one of its own size, which doesn't shift.

    An adapter's tokens (`adapters.Prompt`) are before those of every window, without a bias, and their output is the
    mean over the windows of an image (Jia et al. 2022, VPT).

    Parameters: those of `Attention` and `table` [(2 side - 1)^2 H]. A window is a sequence by itself: attention maps
    are [BW H S S] for BW = B * windows and S = side^2; with them `windows` [W S] is sown, the numbers of each window's
    tokens (`Windows.tokens`; -1 for an adapter's).

    Attributes:
      side: of a window, in patches.
      shift: by how many rows and columns of patches the windows begin later.
    """

    partition: ClassVar[type[Windows]] = Windows
    side: int = config_field(7, at_least=1)
    shift: int = config_field(0, at_least=0)

    @nn.nowrap
    def windows(self, context: LayerContext) -> Windows:
        """The windows of the call's grid. Raises UserError if its tokens are not the patches of one."""
        where = "config.model.mixer"
        if self.window is not None:
            raise UserError(f"{where}.window", "None: `side` is the size of a grid's windows", self.window)
        grid = grid_alone(context)
        if grid is None or context.mask.causal or context.mask.segments is not None:
            hint = "windows are of all patches of a grid, without a class token"
            raise UserError(where, "Attention() for these tokens", f"{type(self).__name__}()", hint=hint)
        if self.shift >= self.side:
            raise UserError(f"{where}.shift", f"a number below the side of {self.side}", self.shift)
        return self.partition.fitted(grid, self.side, self.shift)

    @nn.nowrap
    def inputs(self, x: Float[Array, "B L D"], context: LayerContext) -> tuple[jax.Array, jax.Array, jax.Array]:
        return super().inputs(cut_after_prompt(self.windows(context), x, context.mask.prefix), context)

    @nn.nowrap
    def mask(self, query: jax.Array, key: jax.Array, context: LayerContext) -> Mask:
        windows = self.windows(context)
        mask = Mask.within(windows.segments(query.shape[0] // windows.count))
        return mask_after_prompt(mask, windows.side**2, context.mask.prefix)

    @nn.nowrap
    def bias(self, query: jax.Array, key: jax.Array, context: LayerContext) -> Float[Array, "1 H T T"]:
        shape = ((2 * self.side - 1) ** 2, query.shape[2])
        axes = ("offsets", "heads")
        table = parameter(self, "table", nn.initializers.normal(0.02), shape, axes, inputs=1)
        bias = jnp.moveaxis(table[self.windows(context).offsets(self.side)], -1, 0)[None]
        return bias_after_prompt(bias, context.mask.prefix)

    def outputs(self, attended: Float[Array, "BW S H K"], context: LayerContext) -> Float[Array, "B L H K"]:
        return join_after_prompt(self.windows(context), attended, context.mask.prefix)


class GridAttention(WindowAttention):
    """Attention among side x side patches that are equally far apart all over the grid (Tu et al. 2022, 3.2, MaxViT).

    As in windows, a grid that the side doesn't divide is padded with zeros below and on the right, which are attended
    to, and a grid no larger than side x side is one set. Parameters: those of `WindowAttention`; differences of rows
    and columns count the patches of a set.
    """

    partition: ClassVar[type[Windows]] = StridedWindows

    @nn.nowrap
    def windows(self, context: LayerContext) -> Windows:
        if self.shift:
            raise UserError("config.model.grid_attention.shift", "0: only windows shift", self.shift)
        return super().windows(context)

"""Attention with relative positions that are decomposed into rows and columns (Li et al. 2022, MViTv2, 4.1)."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.attention.attention import Attention
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.attention.prompted_grid import bias_after_prompt, grid_alone
from txjax.nn.attention.window_attention import WindowAttention
from txjax.nn.layers.linear import parameter, scale
from txjax.types import config_field


class DecomposedAttention(Attention):
    """Attention among all patches, with a learned vector for each difference of rows and for each of columns.

    To the score of query q and key k is added q . (rows[r_q - r_k] + columns[c_q - c_k]) (equation 4); this q has not
    the factor 1 / sqrt(K).

    Parameters: those of `Attention`, `rows` and `columns` [2 side - 1 K], at first zero (Kirillov et al. 2023). On a
    grid of another side they are resized linearly along the differences. An adapter's tokens have no positions.

    Attributes:
      side: rows and columns of the grid of which the tables have all differences.
    """

    side: int = config_field(64, at_least=1)

    @nn.nowrap
    def extent(self, context: LayerContext) -> tuple[int, int]:
        """Rows and columns of the patches that see each other. Raises UserError for tokens that are no grid's."""
        grid = grid_alone(context)
        if grid is None:
            hint = "relative positions are of all patches of a grid, without a class token"
            raise UserError("config.model.mixer", "Attention() for these tokens", type(self).__name__, hint=hint)
        return grid[:2]

    @nn.nowrap
    def bias(
        self, query: Float[Array, "B L H K"], key: Float[Array, "B L H K"], context: LayerContext
    ) -> Float[Array, "B H L L"]:
        assert self.kernel_init
        extent = self.extent(context)
        query = query[:, context.mask.prefix :]
        image = query.astype(jnp.float32).reshape(len(query), *extent, *query.shape[2:])
        of_rows, of_columns = (
            self.vectors(name, size, query.shape[-1]) for name, size in zip(("rows", "columns"), extent, strict=True)
        )
        by_row = jnp.einsum("brchk,rsk->bhrcs", image, of_rows)[..., :, None]
        by_column = jnp.einsum("brchk,csk->bhrcs", image, of_columns)[..., None, :]
        length = query.shape[1]
        # Under muP scores scale by 1 / K: the query has half of that factor, the kernel's 1 / sqrt(K) the other half.
        bias = scale((by_row + by_column).reshape(len(query), -1, length, length), self.kernel_init.scaling.attention())
        return bias_after_prompt(bias, context.mask.prefix)

    @nn.nowrap
    def vectors(self, name: str, size: int, width: int) -> Float[Array, "S S K"]:
        """The vectors of a table for each of `size` queries and keys along its axis, float32."""
        shape = (2 * self.side - 1, width)
        axes = ("differences", "head_size")
        table = parameter(self, name, nn.initializers.zeros, shape, axes, inputs=1)
        if size != self.side:
            table = jax.image.resize(table, (2 * size - 1, width), "linear", antialias=False)
        indices = jnp.arange(size)
        return table[indices[:, None] - indices[None] + size - 1]


class DecomposedWindowAttention(DecomposedAttention, WindowAttention):
    """`WindowAttention` with the positions of `DecomposedAttention` in each window.

    Parameters: those of `DecomposedAttention`.

    Attributes:
      side: of a window, in patches.
    """

    side: int = config_field(14, at_least=1)

    @nn.nowrap
    def extent(self, context: LayerContext) -> tuple[int, int]:
        side = self.windows(context).side
        return side, side
